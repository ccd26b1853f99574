// The parts of a reduction: a leaf, which reduces runs of memory and merges their results, and the
// iteration over an array of any layout (reduction.cpp).
#ifndef GPUTENSOR_REDUCTION_H
#define GPUTENSOR_REDUCTION_H

#include "capability.h"

namespace CAPABILITY {

using abi::byte;

constexpr int EIGHT = 8;

static inline i64 size_of(i64 x) { return x < 0 ? -x : x; }
static inline i64 least(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 parts_of(i64 n, i64 part) { return (n + part - 1) / part; }
static inline int log2_of(int size) {
  return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : 4;
}

extern const abi::Cast casts[abi::N_DTYPES][abi::N_DTYPES];
extern const abi::Move packs[], unpacks[];

// A dimension of x, of out and of a third array; strides in bytes.
struct Dim { i64 size, x, out, beside; };
struct Place { const char* x; char *out, *beside; };

// The offset of the output with this index, over the dimensions from `from` on.
static inline Place place_of(Place at, const Dim* dims, int n, int from, i64 number) {
  for (int d = from; d < n; d++) {
    const i64 index = number % dims[d].size;
    number /= dims[d].size;
    at.x += index * dims[d].x, at.out += index * dims[d].out, at.beside += index * dims[d].beside;
  }
  return at;
}

// The strides of x order the dimensions; dimensions with stride 0 are the slowest.
static inline i64 speed_of(const Dim& dim) { return dim.x ? size_of(dim.x) : (i64)1 << 62; }

// Sort dimensions, the fastest first, and merge contiguous dimensions. Returns the remaining
// number.
int coalesce(Dim* dims, int n);

// One operator for elements of one type. Accumulators are dense.
struct Leaf {
  byte type, acc;  // dtypes of an element and of an accumulator
  int size, acc_size;
  // acc[r] = the reduction of the n elements at x + r * row_step. param: one for each row, if the
  // operator has a parameter.
  void (*rows)(char* acc, const char* x, i64 n, i64 row_step, i64 rows, const char* param);
  // Combine acc[j] with x[k][j], for n columns. count: EIGHT rows, four or one. param: one for each
  // column.
  void (*columns)(char* acc, const char* const* x, int count, i64 n, const char* param);
  void (*merge)(char* into, const char* from, i64 n);
  void (*clear)(char* acc, i64 n);  // set to the identity
  // The final step on sums; null if there is none. param as above.
  void (*finish)(char* acc, i64 n, double number, const char* param);
};

// How a leaf for the real part's type reads an element of a complex array.
enum Complex : byte { AS_IT_IS, PARTS_KEPT, PARTS_REDUCED };

// A third array with an accumulator for each output, in the layout of `like`; or null.
struct Reduction {
  const Leaf* leaf;
  Complex complex;
  double number;  // the parameter of `finish`; NaN: the number of elements per output
  const abi::Array* param;
};

// out = x reduced over the dimensions in the mask `reduced`. out has x's dimensions, or only the
// kept ones. Returns 0, or 1 if there is no memory.
i64 run_reduction(const Reduction& reduction, const abi::Array& x, const abi::Array& out,
                  u64 reduced, abi::Share share);

}  // namespace CAPABILITY

#endif
