// What the layout copies share: where a block begins, and the sides of their parameters.
//
// Note [Copy parameters]: operand 0 is dst, 1 src, and 2, where a copy scales, the number of the
// channel. Strides are bytes (channels of operand 2), signed, 64 bits. copy_launch.py packs the
// structs field by field. A block finds its place by divisions by magic numbers; what a thread
// adds to it needs none, or few. Blocks never loop over the grid.
#ifndef GPUTENSOR_COPYING
#define GPUTENSOR_COPYING

#include "vectors.cuh"

// Where a copy's parameters begin: dst, src and, where it scales, by what.
template <bool IS_SCALED> struct copy_ends { char* data[2]; };
template <> struct copy_ends<true> {
  char* data[2];
  scaling by;
};

// Dimensions outside of what a block or a row covers, the fastest first.
template <int OPERANDS, int MAX_DIMS> struct outer_dims {
  i32 ndim, unused;
  dimension<OPERANDS> dim[MAX_DIMS];
};

// Adds the place of `index` in the outer dimensions to offset[].
template <int OPERANDS, int MAX_DIMS>
DEVICE void add_outer(const outer_dims<OPERANDS, MAX_DIMS>& outer, u32 index,
                      i64 (&offset)[OPERANDS]) {
#pragma unroll
  for (int d = 0; d < MAX_DIMS; ++d) {
    if (d >= outer.ndim) break;
    u32 coordinate = index;
    if (d + 1 < MAX_DIMS && d + 1 < outer.ndim) {
      index = quotient_of(coordinate, outer.dim[d].by);
      coordinate -= index * outer.dim[d].by.size;
    }
#pragma unroll
    for (int j = 0; j < OPERANDS; ++j) {
      offset[j] += (i64)coordinate * outer.dim[d].stride_bytes[j];
    }
  }
}

DEVICE constexpr int at_least(int a, int b) { return a > b ? a : b; }
DEVICE constexpr int at_most(int a, int b) { return a < b ? a : b; }

// True of what lies wholly inside the copy. -DEDGES=0 takes that for granted, and so leaves a text
// whose instructions can be counted; it is never run.
#define INSIDE(condition) (!EDGES || (condition))

// What is scaled along: nothing, the rows of a tile, its columns, or neither of them.
#define UNSCALED 0
#define BY_ROW 1
#define BY_COLUMN 2
#define BY_BATCH 3

#endif
