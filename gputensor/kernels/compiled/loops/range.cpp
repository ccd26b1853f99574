// dst[i] computed from the index alone: arange, linspace.                           family: range
//
// Shapes   dst dense.
// Types    integers exactly, modulo their width; floating types in f64, then cast.
// Order    blocks are independent; the numbers equal those of kernels/cpu/range.py.
#include "capability.h"

namespace CAPABILITY {

extern const abi::Cast casts[abi::N_DTYPES][abi::N_DTYPES];  // cast.cpp

constexpr i64 BLOCK = 1 << 13;  // elements that one thread computes at a time
constexpr int ROW = 256;        // number of these that are computed together in f64

struct Range {
  char* dst;
  i64 n, first, width;   // first, width: start and step of integers
  f64 start, end, step;  // parameters of floating types
  i64 middle;            // the index from which linspace counts backwards from its end
};

// Elements [i, stop): `value(index)`. An index is exact as f64, because it is far below 2**53. It
// is computed as the sum of the row's first index and a position, because GCC does not vectorise
// the conversion of k.
template <class T, class F> static inline void rows(T* dst, i64 i, i64 stop, F value) {
  f64 place[ROW];
  const int longest = stop - i < ROW ? (int)(stop - i) : ROW;
  for (int k = 0; k < longest; ++k) place[k] = k;
  for (; i < stop; i += ROW) {
    const int n = stop - i < ROW ? (int)(stop - i) : ROW;
    const f64 begin = (f64)i;
    f64 row[ROW];
    for (int k = 0; k < n; ++k) row[k] = value(begin + place[k]);
    if constexpr (is_half<T>) {
      casts[abi::f64][code_of<T>]((char*)(dst + i), (const char*)row, n);
    } else {
      for (int k = 0; k < n; ++k) dst[i + k] = cast<T>(row[k]);
    }
  }
}

static inline i64 end_of(const Range& r, i64 block) {
  return (block + 1) * BLOCK < r.n ? (block + 1) * BLOCK : r.n;
}

template <class T> static void floats_of_arange(void* context, i64 first, i64 last) {
  const Range& r = *(const Range*)context;
  const f64 start = r.start, step = r.step;
  rows((T*)r.dst, first * BLOCK, end_of(r, last - 1),
       [=](f64 index) { return index * step + start; });
}

template <class T> static void integers_of_arange(void* context, i64 first, i64 last) {
  const Range& r = *(const Range*)context;
  T* dst = (T*)r.dst;
  const i64 begin = first * BLOCK, n = end_of(r, last - 1) - begin;
  typedef typename unsigned_of<decltype(T() + T())>::type U;  // wraps around; has at least 32 bits
  const U start = (U)r.first + (U)r.width * (U)begin, width = (U)r.width;
  for (i64 k = 0; k < n; ++k) dst[begin + k] = (T)(start + width * (U)k);
}

template <class T> static void part_of_linspace(void* context, i64 first, i64 last) {
  const Range& r = *(const Range*)context;
  const i64 begin = first * BLOCK, stop = end_of(r, last - 1);
  const i64 middle = r.middle < begin ? begin : r.middle < stop ? r.middle : stop;
  const f64 start = r.start, end = r.end, step = r.step, before_last = (f64)(r.n - 1);
  rows((T*)r.dst, begin, middle,
       [=](f64 index) { return start + step * index; });
  rows((T*)r.dst, middle, stop,
       [=](f64 index) { return end - step * (before_last - index); });
}

static i64 shared(const Call& call, Range& r, abi::Body body) {
  call.share(body, &r, (r.n + BLOCK - 1) / BLOCK, 2);
  return 0;
}

// (dst, start, step) -> 0
template <class T> static i64 arange_of_floats(const Call& call) {
  Range r = {call.array[0].data, call.array[0].size};
  r.start = call.real[0], r.step = call.real[1];
  return shared(call, r, floats_of_arange<T>);
}

// (dst, start, step) -> 0; both modulo 2**64
template <class T> static i64 arange_of_integers(const Call& call) {
  Range r = {call.array[0].data, call.array[0].size, call.integer[0], call.integer[1]};
  return shared(call, r, integers_of_arange<T>);
}

// (dst, start, end) -> 0; dst has at least two elements
template <class T> static i64 linspace(const Call& call) {
  Range r = {call.array[0].data, call.array[0].size};
  r.start = call.real[0], r.end = call.real[1], r.middle = r.n / 2;
  r.step = (r.end - r.start) / (f64)(r.n - 1);
  return shared(call, r, part_of_linspace<T>);
}

static const abi::FunctionEntry functions[] = {
#define X(T) {"arange " #T, arange_of_integers<T>},
    X(u8) X(i8) X(u16) X(i16) X(u32) X(i32) X(u64) X(i64)
#undef X
#define X(T) {"arange " #T, arange_of_floats<T>}, {"linspace " #T, linspace<T>},
    X(f16) X(bf16) X(f32) X(f64)
#undef X
};
extern const abi::Family range = {"range", nullptr, 0, functions,
                                  sizeof functions / sizeof *functions};

}  // namespace CAPABILITY
