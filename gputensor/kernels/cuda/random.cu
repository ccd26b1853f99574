// out[i] = op::OP of the Philox4x64-10 stream, i counting in the layout's order     family: random
// Shapes   contiguous: dense; strided: any strides, DIMS dimensions.
// Types    scalar_t f16 bf16 f32 f64; the CPU kernel gives the same bits.
// Launch   one-dimensional, a thread makes the four elements of one Philox counter.
#include "contiguous.cuh"
#include "launch.cuh"
#include "philox.cuh"

namespace op {

struct uniform {  // in [0, 1), as many bits as the type holds
  template <class T> static DEVICE T of(u64 bits) {
    if constexpr (same<T, f64>) {
      return (f64)(bits >> 11) * 1.1102230246251565e-16;  // 2^-53
    } else if constexpr (same<T, f32>) {
      return (f32)(bits >> 40) * 5.9604644775390625e-8f;  // 2^-24
    } else if constexpr (same<T, f16>) {
      return cast<f16>((f32)(bits >> 53) * 4.8828125e-4f);  // 2^-11
    } else {
      return cast<bf16>((f32)(bits >> 56) * 3.90625e-3f);  // 2^-8
    }
  }
};

}  // namespace op

// value[0] = {seed, counter of element 0}; value[1] = {whole Philox blocks, elements of one more}
// that earlier launches of a split call took.
DEVICE philox_block random_bits(const value_slot (&value)[2], u32 block) {
  const u64 base = value[0].high, low = base + value[1].low + block;
  return philox(philox_block{{low, low < base, 0, 0}}, value[0].low, 0);
}

// ---- body ----
#ifndef OP
#define OP uniform
#endif
#include "defaults.cuh"
typedef contiguous_params<1, 2> contiguous_call;
typedef strided_params<1, 2, DIMS> strided_call;

#if HAS_LAYOUT(CONTIGUOUS)
extern "C" __global__ void __launch_bounds__(THREADS) random_contiguous(const contiguous_call p) {
  constexpr int PACK = sizeof(scalar_t) == 8 ? 2 : 4;
  const u32 block = blockIdx.x * blockDim.x + threadIdx.x, taken = (u32)p.value[1].high;
  if (block * 4 >= p.numel + taken) return;
  const u32 first = block * 4 - taken;  // below 0, thus above numel, for elements already taken
  const philox_block bits = random_bits(p.value, block);
  if (!taken && first + 4 <= p.numel && all_aligned(p.data)) {
#pragma unroll
    for (int k = 0; k < 4; k += PACK) {
      pack<scalar_t, PACK> made;
#pragma unroll
      for (int e = 0; e < PACK; ++e) made.at[e] = op::OP::of<scalar_t>(bits.at[k + e]);
      store_pack<scalar_t, PACK>(p.data[0], first + k, made);
    }
  } else {
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      if (first + k < p.numel) store_one(p.data[0], first + k, op::OP::of<scalar_t>(bits.at[k]));
    }
  }
}
#endif

#if HAS_LAYOUT(STRIDED)
extern "C" __global__ void __launch_bounds__(THREADS) random_strided(const strided_call p) {
  static_assert(STRIDED_UNROLL == 4, "a thread makes one Philox block");
  const u32 block = blockIdx.x * blockDim.x + threadIdx.x, taken = (u32)p.value[1].high;
  if (block * 4 >= p.numel + taken) return;
  const u32 first = block * 4 - taken;  // below 0, thus above numel, for elements already taken
  i64 offset[1][STRIDED_UNROLL];
  locate(p, first, 1, offset);
  const philox_block bits = random_bits(p.value, block);
#pragma unroll
  for (u32 k = 0; k < 4; ++k) {
    if (first + k < p.numel) {
      *(scalar_t*)(p.data[0] + offset[0][k]) = op::OP::of<scalar_t>(bits.at[k]);
    }
  }
}
#endif
