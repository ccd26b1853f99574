// Insertion points in sorted sequences.                                             family: search
// Shapes   sequence (rows, n), or (1, n) for all rows; x and out (rows, m); dense.
// Types    sequence and x real, of one type; out i64 or i32.
// Numbers  right. A comparison with NaN moves the element to the right.
// Speed    many binary searches run in parallel, without branches: one search waits for its loads.
#include "capability.h"

namespace CAPABILITY {

constexpr int MANY = 64, SOME = 8;   // elements that are searched in parallel
constexpr i64 SEARCHED = 1 << 12;  // elements per thread

struct Search {
  const char *sequence, *x;
  char* out;
  i64 n, m, row_step;  // stride of the sequence; 0 if all rows have a common sequence
  int halvings;
  bool is_right, is_narrow;
};

template <class A> static inline bool belongs_after(A value, A x, bool is_right) {
  return is_right ? !(value > x) : !(value >= x);
}

// I: an integer type for the indices of the sequence. The loops over k are apart so that the
// compiler vectorises them.
template <class T, bool RIGHT, class I, int N>
static inline void halve(const Search& s, const T* sequence, const T* x, i64* found) {
  typedef typename acc_of<T>::type A;
  I low[N] = {}, left[N];  // the number of elements from `low` on that are still to be searched
  I at[N];
  A value[N], wanted[N];
  const I last = (I)(s.n - 1);
  for (int k = 0; k < N; ++k) left[k] = (I)s.n, wanted[k] = cast<A>(x[k]);
  for (int step = 0; step < s.halvings; ++step) {
    for (int k = 0; k < N; ++k) {
      const I middle = low[k] + (left[k] >> 1);
      at[k] = middle < last ? middle : last;
    }
    for (int k = 0; k < N; ++k) value[k] = cast<A>(sequence[at[k]]);
    for (int k = 0; k < N; ++k) {
      const I half = left[k] >> 1;
      const bool goes_on = (left[k] > 0) & belongs_after(value[k], wanted[k], RIGHT);
      low[k] = goes_on ? low[k] + half + 1 : low[k];
      left[k] = goes_on ? left[k] - half - 1 : half;
    }
  }
  for (int k = 0; k < N; ++k) found[k] = low[k];
}

// Search elements beside each other, as many as there are. Returns their number.
template <class T, bool RIGHT>
static inline i64 find(const Search& s, const T* sequence, const T* x, i64 n, i64* found) {
  if (s.n >= 1ll << 30) {
    halve<T, RIGHT, i64, 1>(s, sequence, x, found);
    return 1;
  }
  if (n >= MANY) {
    halve<T, RIGHT, i32, MANY>(s, sequence, x, found);
    return MANY;
  }
  if (n >= SOME) {
    halve<T, RIGHT, i32, SOME>(s, sequence, x, found);
    return SOME;
  }
  halve<T, RIGHT, i32, 1>(s, sequence, x, found);
  return 1;
}

template <class T, bool RIGHT> static void search_some(const Search& s, i64 first, i64 last) {
  i64 found[MANY];
  for (i64 i = first; i < last;) {
    const i64 row = i / s.m, end = (row + 1) * s.m < last ? (row + 1) * s.m : last;
    const T* sequence = (const T*)s.sequence + row * s.row_step;
    while (i < end) {
      const i64 count = find<T, RIGHT>(s, sequence, (const T*)s.x + i, end - i, found);
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

template <class T> static void search_part(const Search& s, i64 first, i64 last) {
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
  call.share(as_body(search_part<T>), &s, call.array[0].size, SEARCHED);
  return 0;
}

static const abi::FunctionEntry functions[] = {
#define X(T) {"places " #T, find_places<T>},
    X(u8) X(i8) X(u16) X(i16) X(u32) X(i32) X(u64) X(i64) X(f16) X(f32) X(f64)
#undef X
};
extern const abi::Family search = {"search", functions};

}  // namespace CAPABILITY
