// bins[b] += number of the bytes of each word of `data` whose upper six bits are b. Counted per
// warp in bytes' own counters, joined at the end. Blocks of whole warps, up to 256 threads.
#include <stdint.h>
#define WARPS 8

extern "C" __global__ void __launch_bounds__(32 * WARPS) histogram64(
    const uchar4* __restrict__ data, uint32_t* __restrict__ bins, uint32_t words) {
  __shared__ uint32_t counts[WARPS][64];
  const uint32_t warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (uint32_t b = threadIdx.x % 32; b < 64; b += 32) counts[warp][b] = 0;
  __syncwarp();
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
    const uchar4 four = data[i];
    atomicAdd(&counts[warp][four.x >> 2], 1u);
    atomicAdd(&counts[warp][four.y >> 2], 1u);
    atomicAdd(&counts[warp][four.z >> 2], 1u);
    atomicAdd(&counts[warp][four.w >> 2], 1u);
  }
  __syncthreads();
  for (uint32_t b = threadIdx.x; b < 64; b += blockDim.x) {
    uint32_t sum = 0;
    for (uint32_t w = 0; w < warps; ++w) sum += counts[w][b];
    atomicAdd_system(bins + b, sum);
  }
}
