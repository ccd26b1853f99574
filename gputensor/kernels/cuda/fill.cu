// self[i] = value                                                        family: fill
// Shapes   contiguous: dense; strided: any strides, 0 included.
// Types    scalar_t is a word (u8 u16 u32 u64 w128) of self's size; the host has cast the value.
// Launch   one-dimensional; a block owns blockDim.x * (4 packs | 4 elements).
#include "pointwise/contiguous.cuh"
#include "launch.cuh"

namespace op {

struct fill {
  template <class T> static DEVICE T of(value_slot value) { return number<T>(value); }
};

}  // namespace op

// ---- body ----
#ifndef OP
#define OP fill
#endif
#include "defaults.cuh"
typedef contiguous_params<1, 1> contiguous_call;
typedef strided_params<1, 1, DIMS> strided_call;

#if HAS_LAYOUT(CONTIGUOUS)
extern "C" __global__ void __launch_bounds__(THREADS) fill_contiguous(const contiguous_call p) {
  constexpr int PACK = 16 / sizeof(scalar_t), PACKS = UNARY_PACKS;
  const u32 tile = blockDim.x * PACK * PACKS, first = blockIdx.x * tile;
  const scalar_t value = op::OP::of<scalar_t>(p.value[0]);
  if (first + tile <= p.numel && all_aligned(p.data)) {
    const pack<scalar_t, PACK> filled = repeat<scalar_t, PACK>(value);
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
      store_pack<scalar_t, PACK>(p.data[0], first + (k * blockDim.x + threadIdx.x) * PACK, filled);
    }
  } else {
    const u32 end = first + tile < p.numel ? first + tile : p.numel;
    for (u32 i = first + threadIdx.x; i < end; i += blockDim.x) store_one(p.data[0], i, value);
  }
}
#endif

#if HAS_LAYOUT(STRIDED)
extern "C" __global__ void __launch_bounds__(THREADS) fill_strided(const strided_call p) {
  const u32 first = first_element();
  if (first >= p.numel) return;
  i64 offset[1][STRIDED_UNROLL];
  locate(p, first, blockDim.x, offset);
  const scalar_t value = op::OP::of<scalar_t>(p.value[0]);
  const int count = elements_left(first, p.numel);
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) {
    if (k < count) *(scalar_t*)(p.data[0] + offset[0][k]) = value;
  }
}
#endif
