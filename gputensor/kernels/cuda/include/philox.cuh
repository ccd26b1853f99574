// Philox4x64-10. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC11), and
// numpy/random/src/philox/philox.h, which computes the same numbers for equal counter and key.
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

// The product of two words; returns its high word.
DEVICE u64 multiply_wide(u64 a, u64 b, u64& low) {
#ifdef __CUDA_ARCH__
  low = a * b;
  return __umul64hi(a, b);
#else
  const unsigned __int128 product = (unsigned __int128)a * b;  // one instruction
  low = (u64)product;
  return (u64)(product >> 64);
#endif
}

constexpr u64 PHILOX_M0 = 0xD2E7470EE14C6C93ull, PHILOX_M1 = 0xCA5A826395121157ull;
constexpr u64 PHILOX_W0 = 0x9E3779B97F4A7C15ull, PHILOX_W1 = 0xBB67AE8584CAA73Bull;

struct philox_block { u64 at[4]; };

DEVICE philox_block philox(philox_block counter, u64 key0, u64 key1) {
  u64 a = counter.at[0], b = counter.at[1], c = counter.at[2], d = counter.at[3];
  UNROLLED for (int round = 0; round < 10; ++round) {
    u64 low0, low1;
    const u64 high0 = multiply_wide(PHILOX_M0, a, low0);
    const u64 high1 = multiply_wide(PHILOX_M1, c, low1);
    a = high1 ^ b ^ key0, b = low1, c = high0 ^ d ^ key1, d = low0;
    key0 += PHILOX_W0;
    key1 += PHILOX_W1;
  }
  return philox_block{{a, b, c, d}};
}

// The words of a block. Blocks are counted from the first one of a call.
DEVICE philox_block random_block(u64 seed, u64 base, u64 block) {
  const u64 low = base + block;
  return philox(philox_block{{low, low < base, 0, 0}}, seed, 0);
}

#endif
