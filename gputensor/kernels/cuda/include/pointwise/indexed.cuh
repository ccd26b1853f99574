// An iteration over operands. In one operand, index tensors determine the position.
//
// Note [Indices]: index tensors are int64, with their own strides over the iteration. Each indexes
// a dimension of `size` elements, `along_bytes` apart. An index out of range fails an assertion on
// the device, and no memory is read or written at that position.
#if !defined(GPUTENSOR_INDEXED) && !defined(GPUTENSOR_LOOPS)
#define GPUTENSOR_INDEXED

#include "pointwise/strided.cuh"

// gather_launch.py packs this struct. data: the operands, outputs first, then the indices. value:
// the number that `scatter` writes if has_number is set; it is an element, and data[1] is null.
// Parameters have at most 4 KiB, so variants with many dimensions have at most three indices.
template <int MOST, int MAX_DIMS> struct indexed_params {
  static constexpr int count = MAX_DIMS > 8 && MOST > 3 ? 3 : MOST;
  static constexpr int operands = 2 + count;
  char* data[operands];
  value_slot value;
  i64 size[count], along_bytes[count];
  u32 numel, ndim, indices, wraps, has_number, unused;
  dimension<operands> dim[MAX_DIMS];
};

// The addresses of an element in both operands. In operand MOVED the indices determine the
// position.
template <int MOVED, class P> DEVICE void find_places(const P& p, u32 index, char* (&at)[2]) {
  i64 offset[P::operands] = {};
  add_offsets(p.dim, p.ndim, index, offset);
#pragma unroll
  for (int k = 0; k < P::count; ++k) {
    if (k >= (int)p.indices) break;
    i64 found = *(const i64*)(p.data[2 + k] + offset[2 + k]);
    if (p.wraps && found < 0) found += p.size[k];
    assert(0 <= found && found < p.size[k] && "an index is out of range");
    offset[MOVED] += found * p.along_bytes[k];
  }
  at[0] = p.data[0] + offset[0];
  at[1] = p.data[1] + offset[1];
}

#endif
