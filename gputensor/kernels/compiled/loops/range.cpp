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

// Run write(dst, begin, stop) over parts of the elements of the first array.
template <class T, class F> static i64 written(const Call& call, const F& write) {
  const i64 n = call.array[0].size;
  in_parts(call, (n + BLOCK - 1) / BLOCK, 2, [&](i64 first, i64 last) {
    write((T*)call.array[0].data, first * BLOCK, last * BLOCK < n ? last * BLOCK : n);
  });
  return 0;
}

// (dst, start, step) -> 0
template <class T> static i64 arange_of_floats(const Call& call) {
  const f64 start = call.real[0], step = call.real[1];
  return written<T>(call, [=](T* dst, i64 begin, i64 stop) {
    rows(dst, begin, stop, [=](f64 index) { return index * step + start; });
  });
}

// (dst, start, step) -> 0; both modulo 2**64
template <class T> static i64 arange_of_integers(const Call& call) {
  typedef typename unsigned_of<decltype(T() + T())>::type U;  // wraps around; has at least 32 bits
  const U start = (U)call.integer[0], width = (U)call.integer[1];
  return written<T>(call, [=](T* dst, i64 begin, i64 stop) {
    const U here = start + width * (U)begin;
    for (i64 k = 0; k < stop - begin; ++k) dst[begin + k] = (T)(here + width * (U)k);
  });
}

// (dst, start, end) -> 0; dst has at least two elements. The second half is counted backwards from
// the end.
template <class T> static i64 linspace(const Call& call) {
  const i64 n = call.array[0].size, half = n / 2;
  const f64 start = call.real[0], end = call.real[1], before_last = (f64)(n - 1);
  const f64 step = (end - start) / before_last;
  return written<T>(call, [=](T* dst, i64 begin, i64 stop) {
    const i64 middle = half < begin ? begin : half < stop ? half : stop;
    rows(dst, begin, middle, [=](f64 index) { return start + step * index; });
    rows(dst, middle, stop, [=](f64 index) { return end - step * (before_last - index); });
  });
}

static const abi::FunctionEntry functions[] = {
#define X(T) {"arange " #T, arange_of_integers<T>},
    X(u8) X(i8) X(u16) X(i16) X(u32) X(i32) X(u64) X(i64)
#undef X
#define X(T) {"arange " #T, arange_of_floats<T>}, {"linspace " #T, linspace<T>},
    X(f16) X(bf16) X(f32) X(f64)
#undef X
};
extern const abi::Family range = {"range", functions};

}  // namespace CAPABILITY
