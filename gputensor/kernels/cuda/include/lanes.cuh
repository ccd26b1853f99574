// Combination of the values of the threads, or lanes, that share a row. Included by softmax.cu and
// norm.cu.
#ifndef GPUTENSOR_LANES
#define GPUTENSOR_LANES

#include "launch.cuh"

// Combine the values of all lanes. Each lane gets the result. All threads of the block must call
// it.
template <class acc, class C>
DEVICE acc across_lanes(acc x, u32 lane_bits, acc* shared, const C& combine) {
  const u32 lanes = 1u << lane_bits;
  const u32 near = lanes < 32 ? lanes : 32;
  for (u32 apart = near >> 1; apart > 0; apart >>= 1) {
    x = combine(x, __shfl_xor_sync(0xffffffffu, x, apart));
  }
  if (lanes > 32) {  // the whole block: one value per warp
    __syncthreads();
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = x;
    __syncthreads();
    acc part[THREADS / 32];
#pragma unroll
    for (int w = 0; w < THREADS / 32; ++w) part[w] = shared[w];
#pragma unroll
    for (int half = THREADS / 64; half > 0; half >>= 1) {
#pragma unroll
      for (int w = 0; w < half; ++w) part[w] = combine(part[w], part[w + half]);
    }
    x = part[0];
  }
  return x;
}

// The same, if the lanes of a row are `apart` threads apart.
template <class acc, class C>
DEVICE acc across_block(acc x, u32 lane, u32 lanes, u32 apart, acc* shared, const C& combine) {
  if (lanes == 1) return x;
  for (u32 half = lanes >> 1; half > 0; half >>= 1) {
    shared[threadIdx.x] = x;
    __syncthreads();
    if (lane < half) x = combine(x, shared[threadIdx.x + half * apart]);
    __syncthreads();
  }
  shared[threadIdx.x] = x;
  __syncthreads();
  x = shared[threadIdx.x - lane * apart];
  __syncthreads();
  return x;
}

#endif
