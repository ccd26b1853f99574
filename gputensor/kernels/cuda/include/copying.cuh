// Common parts of the layout copies: the begin of a block, and the two sides of the parameters.
//
// Note [Copy parameters]: operand 0 is dst, operand 1 is src and, if a copy scales, operand 2 is
// the channel index. Strides are signed 64-bit byte counts (for operand 2, channels).
// copy_launch.py packs the structs field by field. A block computes its position by divisions with
// magic numbers, so that its threads need few divisions or none. Blocks never loop over the grid.
#ifndef GPUTENSOR_COPYING
#define GPUTENSOR_COPYING

#include "vectors.cuh"

// The first parameters of a copy: dst, src and, if it scales, scale and bias.
template <bool IS_SCALED> struct copy_ends { char* data[2]; };
template <> struct copy_ends<true> {
  char* data[2];
  scaling by;
};

// Dimensions outside of a block or a row, the fastest first.
template <int OPERANDS, int MAX_DIMS> struct outer_dims {
  i32 ndim, unused;
  dimension<OPERANDS> dim[MAX_DIMS];
};

// Add the offsets of `index` in the outer dimensions to offset[].
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

// True if the block is completely inside the copy. -DEDGES=0 assumes this, so that the instructions
// of a whole tile can be counted; that variant is never run.
#define INSIDE(condition) (!EDGES || (condition))

// The dimension of the channels: none, the rows of a tile, its columns, or another dimension.
#define UNSCALED 0
#define BY_ROW 1
#define BY_COLUMN 2
#define BY_BATCH 3

#endif
