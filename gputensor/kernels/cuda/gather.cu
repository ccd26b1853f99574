// out[i] = in[the position given by the indices for i]                              family: gather
// Shapes   any strides, up to DIMS dimensions and INDICES index tensors.
// Types    scalar_t is a word of the elements' size (u8 u16 u32 u64 w128); elements are only
//          copied.
// Launch   one-dimensional, 256 threads, one element each.
// Numbers  an index out of range fails an assertion on the device.
#include "pointwise/indexed.cuh"
#include "launch.cuh"

namespace op {

struct gather {
  template <class T> static DEVICE void move(char* const (&at)[2]) {
    *(T*)at[0] = *(const T*)at[1];
  }
};

}  // namespace op

// ---- body ----
#ifndef OP
#define OP gather
#endif
#ifndef INDICES
#define INDICES 1
#endif
#include "defaults.cuh"
typedef indexed_params<INDICES, DIMS> indexed_call;

extern "C" __global__ void __launch_bounds__(THREADS)
    gather_strided(const indexed_call p) {
  const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= p.numel) return;
  char* at[2];
  find_places<1>(p, index, at);
  op::OP::move<scalar_t>(at);
}
