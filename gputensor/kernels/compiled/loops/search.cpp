// Insertion points in sorted sequences.                                             family: search
// Shapes   sequence (rows, n), or (1, n) for all rows; x and out (rows, m); dense.
// Types    sequence and x real, of one type; out i64 or i32.
// Numbers  right. A comparison with NaN moves the element to the right.
// Speed    several binary searches run in parallel, without branches.
#include "capability.h"

namespace CAPABILITY {

constexpr i64 BESIDE = 4, SEARCHED = 1 << 12;  // elements in parallel; elements per thread

struct Search {
  const char *sequence, *x;
  char* out;
  i64 n, m, row_step;  // stride of the sequence; 0 if all rows have a common sequence
  int halvings;
  bool is_right, is_narrow;
};

template <class T> static inline bool belongs_after(T value, T x, bool is_right) {
  typedef typename acc_of<T>::type A;
  const A a = cast<A>(value), b = cast<A>(x);
  return is_right ? !(a > b) : !(a >= b);
}

template <class T, bool RIGHT, int N>
static inline void halve(const Search& s, const T* sequence, const T* x, i64* found) {
  i64 low[N] = {}, high[N];
  for (int k = 0; k < N; ++k) high[k] = s.n;
  for (int step = 0; step < s.halvings; ++step) {
#pragma GCC unroll 4
    for (int k = 0; k < N; ++k) {
      const i64 middle = (low[k] + high[k]) >> 1, at = middle < s.n ? middle : s.n - 1;
      const bool goes_on = (low[k] < high[k]) & belongs_after(sequence[at], x[k], RIGHT);
      const i64 mask = -(i64)goes_on;
      low[k] += (middle + 1 - low[k]) & mask;
      high[k] += (middle - high[k]) & ~mask;
    }
  }
  for (int k = 0; k < N; ++k) found[k] = low[k];
}

template <class T, bool RIGHT> static void search_some(const Search& s, i64 first, i64 last) {
  i64 found[BESIDE];
  for (i64 i = first; i < last;) {
    const i64 row = i / s.m, end = (row + 1) * s.m < last ? (row + 1) * s.m : last;
    const T* sequence = (const T*)s.sequence + row * s.row_step;
    for (; i < end;) {
      const T* x = (const T*)s.x + i;
      const i64 count = end - i >= BESIDE ? BESIDE : 1;
      if (count == BESIDE) {
        halve<T, RIGHT, BESIDE>(s, sequence, x, found);
      } else {
        halve<T, RIGHT, 1>(s, sequence, x, found);
      }
      for (i64 k = 0; k < count; ++k, ++i) {
        if (s.is_narrow) {
          ((i32*)s.out)[i] = (i32)found[k];
        } else {
          ((i64*)s.out)[i] = found[k];
        }
      }
    }
  }
}

template <class T> static void search_part(void* context, i64 first, i64 last) {
  const Search& s = *(const Search*)context;
  s.is_right ? search_some<T, true>(s, first, last) : search_some<T, false>(s, first, last);
}

// Arrays: out, sequence, x. Numbers: n, m, true if each row has its own sequence, right.
template <class T> static i64 find_places(const Call& call) {
  Search s;
  s.out = call.array[0].data, s.sequence = call.array[1].data, s.x = call.array[2].data;
  s.is_narrow = call.array[0].itemsize == 4;
  s.n = call.integer[0], s.m = call.integer[1], s.is_right = call.integer[3];
  s.row_step = call.integer[2] ? s.n : 0;
  s.halvings = s.n ? 64 - __builtin_clzll(s.n) : 0;
  call.share(search_part<T>, &s, call.array[0].size, SEARCHED);
  return 0;
}

static const abi::FunctionEntry functions[] = {
#define X(T) {"places " #T, find_places<T>},
    X(u8) X(i8) X(u16) X(i16) X(u32) X(i32) X(u64) X(i64) X(f16) X(f32) X(f64)
#undef X
};
extern const abi::Family search = {"search", nullptr, 0, functions,
                                   sizeof functions / sizeof *functions};

}  // namespace CAPABILITY
