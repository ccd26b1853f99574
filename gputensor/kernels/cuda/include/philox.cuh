// Philox4x64-10. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC11), and
// numpy/random/src/philox/philox.h, which gives the same numbers for the same counter and key.
#ifndef GPUTENSOR_PHILOX
#define GPUTENSOR_PHILOX

#include "types.cuh"

DEVICE u64 multiply_high(u64 a, u64 b) {
#ifdef __CUDA_ARCH__
  return __umul64hi(a, b);
#else
  return (u64)((unsigned __int128)a * b >> 64);
#endif
}

struct philox_block { u64 at[4]; };

DEVICE philox_block philox(philox_block counter, u64 key0, u64 key1) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 high0 = multiply_high(0xD2E7470EE14C6C93ull, counter.at[0]);
    const u64 high1 = multiply_high(0xCA5A826395121157ull, counter.at[2]);
    const u64 low0 = 0xD2E7470EE14C6C93ull * counter.at[0];
    const u64 low1 = 0xCA5A826395121157ull * counter.at[2];
    counter = philox_block{
        {high1 ^ counter.at[1] ^ key0, low1, high0 ^ counter.at[3] ^ key1, low0}};
    key0 += 0x9E3779B97F4A7C15ull;
    key1 += 0xBB67AE8584CAA73Bull;
  }
  return counter;
}

#endif
