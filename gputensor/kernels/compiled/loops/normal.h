// Functions shared by the loops over normalised rows and over normalised channels. See norm.cpp.
#ifndef GPUTENSOR_NORMAL_H
#define GPUTENSOR_NORMAL_H

#include <stdlib.h>

#include "rows.h"

namespace CAPABILITY {
#include "math/arithmetic.cuh"

#define LOOP __attribute__((noinline)) static void

constexpr i64 ROOM = 4 * PIECE;  // elements converted to a wider type at a time
constexpr i64 CHAIN = 128;
constexpr i64 AHEAD = 8192;     // bytes of a row that are prefetched
constexpr i64 MOST_PARTS = 64;  // number of parts of the rows, each with its own sums

template <class A>
static f64 sum_of(const A* x, i64 n) {
  f64 sum = 0;
  for (i64 i = 0; i < n; i += PIECE)
    sum += sum_of_piece<A>(n - i < PIECE ? n - i : PIECE, [](vector<A> x) { return x; }, x + i);
  return sum;
}

template <class A>
static f64 squares_of(const A* x, i64 n, A middle) {
  f64 sum = 0;
  for (i64 i = 0; i < n; i += PIECE) {
    const auto square = [middle](vector<A> x) { return (x - middle) * (x - middle); };
    sum += sum_of_piece<A>(n - i < PIECE ? n - i : PIECE, square, x + i);
  }
  return sum;
}

// sums of grad, and of grad * (x - middle)
template <class A>
static void add_products_of(two<f64>& sums, const A* grad, const A* x, i64 n, A middle) {
  for (i64 i = 0; i < n; i += PIECE) {
    const auto both = [middle](vector<A> g, vector<A> x) {
      return two<vector<A>>{g, g * (x - middle)};
    };
    const two<A> made = two_sums_of_piece<A>(n - i < PIECE ? n - i : PIECE, both, grad + i, x + i);
    sums.first += made.first, sums.second += made.second;
  }
}

template <class A>
static A root_of(f64 squares, i64 n, f64 eps) {
  return (A)(1 / math_sqrt(squares / n + eps));
}

// out = ((x - middle) * rstd) * scale + shift
template <class A>
LOOP scaled_by_one(A* out, const A* x, A middle, A rstd, A scale, A shift, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) out[k] = ((x[k] - middle) * rstd) * scale + shift;
}
template <class A>
LOOP scaled_by_each(A* out, const A* x, A middle, A rstd, const A* scale, const A* shift, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) out[k] = ((x[k] - middle) * rstd) * scale[k] + shift[k];
}

// Rows of n elements, processed in pieces that are converted to a wider type. Each pass reads them
// once.
template <class A>
struct Row {
  const char* at;
  i64 n, itemsize;
  int dtype;
  A* room;

  const A* piece(i64 i, i64 count) const {
    return widened(dtype, at + i * itemsize, itemsize, count, room);
  }
};

template <class A, class Take>
static inline void in_pieces(i64 n, Take take) {
  for (i64 i = 0; i < n; i += ROOM) take(i, n - i < ROOM ? n - i : ROOM);
}

template <class A>
static A mean_of(const Row<A>& x) {
  f64 sum = 0;
  in_pieces<A>(x.n, [&](i64 i, i64 count) { sum += sum_of(x.piece(i, count), count); });
  return (A)(sum / x.n);
}

// An array whose dimensions from `from` on are dense.
static inline bool dense_rows(const abi::Array& x, int from) {
  i64 dense = x.itemsize;
  for (int d = x.ndim - 1; d >= from; dense *= x.shape[d--])
    if (x.shape[d] != 1 && x.stride[d] != dense) return false;
  return true;
}

template <class A>
LOOP add_chain(f64* sums, A* chain, i64 n) {
  for (i64 k = 0; k < n; ++k) sums[k] += chain[k], chain[k] = 0;
}

// Parts of some rows, each with its own sums: 2 n in f64, and 2 n in A for a chain of rows.
struct Parts {
  const Call* call;
  i64 rows, step, count, n;
  char* sums;

  // n: 0 if there are no sums. Returns false if there is no memory.
  template <class A>
  bool begin(const Call& of, i64 all_rows, i64 elements_of_row, i64 sums_of_row) {
    call = &of, rows = all_rows, n = sums_of_row;
    i64 most = n ? (1 << 20) / n : MOST_PARTS;
    most = most < 2 ? 2 : most > MOST_PARTS ? MOST_PARTS : most;
    step = (rows + most - 1) / most;
    const i64 least = 2 * GRAIN / elements_of_row;
    step = step < least ? least : step < 1 ? 1 : step;
    count = (rows + step - 1) / step;
    sums = (char*)calloc(count, bytes<A>());
    return sums;
  }
  template <class A>
  i64 bytes() const {
    return 2 * n * (sizeof(f64) + sizeof(A)) + 64 & ~(i64)63;
  }
  template <class A>
  f64* of(i64 part) const {
    return (f64*)(sums + part * bytes<A>());
  }
  // Add the sums of all parts to those of the first part.
  template <class A>
  const f64* total() const {
    f64* to = of<A>(0);
    for (i64 part = 1; part < count; ++part)
      for (i64 k = 0; k < 2 * n; ++k) to[k] += of<A>(part)[k];
    return to;
  }
};

// out = grad * by + (x - middle) * slope + more
template <class A>
LOOP through_run(A* out, const A* grad, const A* x, A by, A middle, A slope, A more, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) out[k] = grad[k] * by + (x[k] - middle) * slope + more;
}

}  // namespace CAPABILITY

#endif
