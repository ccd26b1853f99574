// Words of Philox4x64-10, many at a time.
#ifndef GPUTENSOR_PHILOX_WORDS_H
#define GPUTENSOR_PHILOX_WORDS_H

#include "capability.h"

namespace CAPABILITY {
#include "philox.cuh"

#if defined(__AVX512DQ__)
// One block in each lane, for CPUs with vector products of 64 bits. The rounds of two vectors
// overlap; a single vector would wait for its products (1.9 ns per word instead of 1.5).
typedef u64 lanes __attribute__((vector_size(64)));
constexpr i64 TOGETHER = 16;

static inline lanes product_of_halves(lanes a, lanes b) {
  return (lanes)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}

static inline lanes high_of_product(lanes a, u64 b) {
  const lanes low = (lanes)_mm512_set1_epi64(b), high = low >> 32, a_high = a >> 32;
  const lanes first = (product_of_halves(a, low) >> 32) + product_of_halves(a_high, low);
  const lanes second = (first & 0xFFFFFFFFull) + product_of_halves(a, high);
  return product_of_halves(a_high, high) + (first >> 32) + (second >> 32);
}

// to[i] = lane i / 4 of a, b, c or d, by i % 4.
static inline void put_lanes(u64* to, lanes a, lanes b, lanes c, lanes d) {
  const lanes low = {0, 8, 1, 9, 2, 10, 3, 11}, high = low + 4;
  const lanes first = {0, 1, 8, 9, 2, 3, 10, 11}, second = first + 4;
  const lanes ab[2] = {__builtin_shuffle(a, b, low), __builtin_shuffle(a, b, high)};
  const lanes cd[2] = {__builtin_shuffle(c, d, low), __builtin_shuffle(c, d, high)};
#pragma GCC unroll 2
  for (int k = 0; k < 2; ++k) {
    const lanes two[2] = {__builtin_shuffle(ab[k], cd[k], first),
                          __builtin_shuffle(ab[k], cd[k], second)};
    memcpy(to + 16 * k, two, sizeof two);
  }
}

static inline void draw_together(u64* to, u64 seed, u64 base, i64 block) {
  lanes a[2], b[2], c[2] = {}, d[2] = {};
#pragma GCC unroll 2
  for (int k = 0; k < 2; ++k) {
    a[k] = lanes{0, 1, 2, 3, 4, 5, 6, 7} + (base + block + 8 * k);
    b[k] = (lanes)(a[k] < base) & 1;
  }
  u64 key0 = seed, key1 = 0;
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      const lanes high0 = high_of_product(a[k], PHILOX_M0);
      const lanes high1 = high_of_product(c[k], PHILOX_M1);
      const lanes low0 = a[k] * PHILOX_M0, low1 = c[k] * PHILOX_M1;
      a[k] = high1 ^ b[k] ^ key0, b[k] = low1, c[k] = high0 ^ d[k] ^ key1, d[k] = low0;
    }
    key0 += PHILOX_W0;
    key1 += PHILOX_W1;
  }
  for (int k = 0; k < 2; ++k) put_lanes(to + 32 * k, a[k], b[k], c[k], d[k]);
}
#endif

static void draw_words(u64* to, u64 seed, u64 base, i64 blocks) {
  i64 b = 0;
#if defined(__AVX512DQ__)
  for (; b + TOGETHER <= blocks; b += TOGETHER) draw_together(to + 4 * b, seed, base, b);
#endif
  for (; b < blocks; ++b) {
    const philox_block made = random_block(seed, base, b);
    u64* words = to + 4 * b;  // written out, so that they stay in registers
    words[0] = made.at[0], words[1] = made.at[1], words[2] = made.at[2], words[3] = made.at[3];
  }
}

}  // namespace CAPABILITY

#endif
