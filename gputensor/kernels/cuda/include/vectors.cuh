// Vectors: the adjacent elements of one access, kept in 32-bit registers.
//
// Elements narrower than a register are not extracted and inserted one by one: `assembled` builds
// each register by byte permutes from the registers that contain its bytes. All indices are
// constants after loop unrolling, so no vector is in local memory.
#ifndef GPUTENSOR_VECTORS_CUH
#define GPUTENSOR_VECTORS_CUH

#include "pointwise/strided.cuh"

#ifdef GPUTENSOR_CHECK_ALIGNED  // the emulator's
#define CHECK_VECTOR(address, bytes) GPUTENSOR_CHECK_ALIGNED(address, bytes)
#else
#define CHECK_VECTOR(address, bytes)
#endif

// The position of an element: whole registers, or a byte of the first register.
template <class T> struct part {
  u32 word[(sizeof(T) + 3) / 4];
  u32 byte;
};

template <class T> DEVICE part<T> part_of(T x) {
  part<T> found;
  found.byte = 0;
  if constexpr (sizeof(T) == 1) {
    found.word[0] = bits_as<u8>(x);
  } else if constexpr (sizeof(T) == 2) {
    found.word[0] = bits_as<u16>(x);
  } else {
    union { T value; u32 word[sizeof(T) / 4]; } both;
    both.value = x;
#pragma unroll
    for (int k = 0; k < (int)sizeof(T) / 4; ++k) found.word[k] = both.word[k];
  }
  return found;
}

template <class T> DEVICE T value_of(const part<T>& x) {
  if constexpr (sizeof(T) == 1) {
    return bits_as<T>((u8)(x.word[0] >> 8 * x.byte));
  } else if constexpr (sizeof(T) == 2) {
    return bits_as<T>((u16)(x.word[0] >> 8 * x.byte));
  } else {
    union { T value; u32 word[sizeof(T) / 4]; } both;
#pragma unroll
    for (int k = 0; k < (int)sizeof(T) / 4; ++k) both.word[k] = x.word[k];
    return both.value;
  }
}

template <class T, int N> struct vec {
  static constexpr int bytes = N * sizeof(T), words = (bytes + 3) / 4;
  u32 word[words];

  DEVICE part<T> at(int i) const {
    part<T> found;
    found.byte = sizeof(T) < 4 ? i * sizeof(T) % 4 : 0;
    if constexpr (sizeof(T) < 4) {
      found.word[0] = word[i * sizeof(T) / 4];
    } else {
#pragma unroll
      for (int k = 0; k < (int)sizeof(T) / 4; ++k) found.word[k] = word[i * (sizeof(T) / 4) + k];
    }
    return found;
  }
};

// The vector whose element i is at part_at(i).
template <class T, int N, class F> DEVICE vec<T, N> assembled(F part_at) {
  vec<T, N> made;
  if constexpr (sizeof(T) >= 4) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const part<T> from = part_at(i);
#pragma unroll
      for (int k = 0; k < (int)sizeof(T) / 4; ++k) {
        made.word[i * (sizeof(T) / 4) + k] = from.word[k];
      }
    }
  } else if constexpr (N == 1) {
    const part<T> from = part_at(0);
    made.word[0] = from.byte ? from.word[0] >> 8 * from.byte : from.word[0];
  } else if constexpr (sizeof(T) == 2) {
#pragma unroll
    for (int w = 0; w < N / 2; ++w) {
      const part<T> a = part_at(2 * w), b = part_at(2 * w + 1);
      made.word[w] = __byte_perm(a.word[0], b.word[0], a.byte * 0x11 + b.byte * 0x1100 + 0x5410);
    }
  } else if constexpr (N == 2) {
    const part<T> a = part_at(0), b = part_at(1);
    made.word[0] = __byte_perm(a.word[0], b.word[0], a.byte + b.byte * 0x10 + 0x0040);
  } else {
#pragma unroll
    for (int w = 0; w < N / 4; ++w) {
      const part<T> a = part_at(4 * w), b = part_at(4 * w + 1);
      const part<T> c = part_at(4 * w + 2), d = part_at(4 * w + 3);
      const u32 low = __byte_perm(a.word[0], b.word[0], a.byte + b.byte * 0x10 + 0x0040);
      const u32 high = __byte_perm(c.word[0], d.word[0], c.byte + d.byte * 0x10 + 0x0040);
      made.word[w] = __byte_perm(low, high, 0x5410);
    }
  }
  return made;
}

// --- memory -------------------------------------------------------------------------------------

template <class V> DEVICE V load_vector(const char* address) {
  CHECK_VECTOR(address, V::bytes);
  V loaded;
  if constexpr (V::bytes == 16) {
    const uint4 x = *(const uint4*)address;
    loaded.word[0] = x.x, loaded.word[1] = x.y, loaded.word[2] = x.z, loaded.word[3] = x.w;
  } else if constexpr (V::bytes == 8) {
    const uint2 x = *(const uint2*)address;
    loaded.word[0] = x.x, loaded.word[1] = x.y;
  } else if constexpr (V::bytes == 4) {
    loaded.word[0] = *(const u32*)address;
  } else if constexpr (V::bytes == 2) {
    loaded.word[0] = *(const u16*)address;
  } else {
    loaded.word[0] = *(const u8*)address;
  }
  return loaded;
}

// Load from memory that no kernel writes to at the same time. Accesses of 16 bytes are not kept in
// L1.
template <class V> DEVICE V load_source(const char* address) {
#ifdef __CUDA_ARCH__
  V loaded;
  if constexpr (V::bytes == 16) {
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(loaded.word[0]), "=r"(loaded.word[1]), "=r"(loaded.word[2]), "=r"(loaded.word[3])
        : "l"(address));
  } else if constexpr (V::bytes == 8) {
    const uint2 x = __ldg((const uint2*)address);
    loaded.word[0] = x.x, loaded.word[1] = x.y;
  } else if constexpr (V::bytes == 4) {
    loaded.word[0] = __ldg((const u32*)address);
  } else if constexpr (V::bytes == 2) {
    loaded.word[0] = __ldg((const u16*)address);
  } else {
    loaded.word[0] = __ldg((const u8*)address);
  }
  return loaded;
#else
  return load_vector<V>(address);
#endif
}

template <class V> DEVICE void store_vector(char* address, const V& x) {
  CHECK_VECTOR(address, V::bytes);
  if constexpr (V::bytes == 16) {
    *(uint4*)address = make_uint4(x.word[0], x.word[1], x.word[2], x.word[3]);
  } else if constexpr (V::bytes == 8) {
    *(uint2*)address = make_uint2(x.word[0], x.word[1]);
  } else if constexpr (V::bytes == 4) {
    *(u32*)address = x.word[0];
  } else if constexpr (V::bytes == 2) {
    *(u16*)address = (u16)x.word[0];
  } else {
    *(u8*)address = (u8)x.word[0];
  }
}

// The vector that begins at byte `by` of `low` and continues in `high`; by < V::bytes.
template <class V> DEVICE V funnelled(const V& low, const V& high, u32 by) {
  constexpr int N = V::words;
  static_assert(V::bytes == 4 * N, "whole words");
  u32 x[2 * N];
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = low.word[i], x[N + i] = high.word[i];
#pragma unroll
  for (int step = N / 2; step > 0; step /= 2) {
#pragma unroll
    for (int i = 0; i < N + step; ++i) x[i] = by & 4 * step ? x[i + step] : x[i];
  }
  V made;
#pragma unroll
  for (int i = 0; i < N; ++i) made.word[i] = __funnelshift_r(x[i], x[i + 1], by << 3);
  return made;
}

// --- values -------------------------------------------------------------------------------------

// Convert the elements of a vector to another type: by the casts of types.cuh, or by reinterpreting
// the bits.
template <class To, class From, int N> DEVICE vec<To, N> converted(const vec<From, N>& x) {
  if constexpr (same<To, From>) {
    return x;
  } else {
    return assembled<To, N>([&](int i) { return part_of(cast<To>(value_of(x.at(i)))); });
  }
}

// columns[c] element r = rows[r] element c.
template <class T, int R, int C>
DEVICE void transpose(const vec<T, C> (&rows)[R], vec<T, R> (&columns)[C]) {
  if constexpr (sizeof(T) == 1 && C % 4 == 0 && R % 4 == 0) {
    // Squares of 4 x 4 bytes in two steps: eight permutes for sixteen bytes.
#pragma unroll
    for (int w = 0; w < C / 4; ++w) {
#pragma unroll
      for (int q = 0; q < R / 4; ++q) {
        const u32 a = rows[4 * q].word[w], b = rows[4 * q + 1].word[w];
        const u32 c = rows[4 * q + 2].word[w], d = rows[4 * q + 3].word[w];
        const u32 low_ab = __byte_perm(a, b, 0x5140), high_ab = __byte_perm(a, b, 0x7362);
        const u32 low_cd = __byte_perm(c, d, 0x5140), high_cd = __byte_perm(c, d, 0x7362);
        columns[4 * w].word[q] = __byte_perm(low_ab, low_cd, 0x5410);
        columns[4 * w + 1].word[q] = __byte_perm(low_ab, low_cd, 0x7632);
        columns[4 * w + 2].word[q] = __byte_perm(high_ab, high_cd, 0x5410);
        columns[4 * w + 3].word[q] = __byte_perm(high_ab, high_cd, 0x7632);
      }
    }
  } else {
#pragma unroll
    for (int c = 0; c < C; ++c) {
      columns[c] = assembled<T, R>([&](int r) { return rows[r].at(c); });
    }
  }
}

// --- a scale and a bias per channel -------------------------------------------------------------

// `pack` computes scale[channel] * x + bias[channel] in f32 (f64 if either side is f64). Each step
// is rounded. Integers are rounded to nearest even and saturated; NaN becomes 0. Up to
// INLINE_CHANNELS values are launch parameters; more values are in memory as f32.
constexpr int INLINE_CHANNELS = 16;

struct scaling {
  const f32* scale;  // 0: inline_scale; the same for the bias
  const f32* bias;
  u32 last, unused;  // the last channel, whose values are used past an edge
  f32 inline_scale[INLINE_CHANNELS], inline_bias[INLINE_CHANNELS];

  DEVICE f32 scale_of(u32 channel) const { return of(scale, inline_scale, channel); }
  DEVICE f32 bias_of(u32 channel) const { return of(bias, inline_bias, channel); }

  // The values of a channel that exists.
  DEVICE f32 scale_at(u32 channel) const { return scale ? scale[channel] : inline_scale[channel]; }
  DEVICE f32 bias_at(u32 channel) const { return bias ? bias[channel] : inline_bias[channel]; }

  DEVICE f32 of(const f32* table, const f32 (&values)[INLINE_CHANNELS], u32 channel) const {
    const u32 known = channel < last ? channel : last;
    return table ? table[known] : values[known];
  }
};

template <class To, class From> struct scaled_in { typedef f32 type; };
template <class To> struct scaled_in<To, f64> { typedef f64 type; };
template <class From> struct scaled_in<f64, From> { typedef f64 type; };
template <> struct scaled_in<f64, f64> { typedef f64 type; };

DEVICE f32 nearest_even(f32 x) { return rintf(x); }
DEVICE f64 nearest_even(f64 x) { return rint(x); }

template <class To, class acc_t> DEVICE To quantised(acc_t x) {
  if constexpr (is_integer<To>) {
    constexpr bool is_signed = is_signed_integer<To>;
    constexpr int bits = 8 * sizeof(To);
    const acc_t rounded = nearest_even(x);
    // Both limits are powers of two and therefore exact. Values in [least, above) fit.
    const acc_t above = (acc_t)((u64)1 << (bits - 1)) * (is_signed ? 1 : 2);
    const acc_t least = is_signed ? -above : 0;
    constexpr u64 all = ~(u64)0 >> (64 - bits);
    if (x != x) return 0;
    if (rounded >= above) return (To)(is_signed ? all >> 1 : all);
    if (rounded < least) return (To)(is_signed ? (all >> 1) + 1 : 0);
    return float_to_integer<To>(rounded);
  } else {
    return cast<To>(x);
  }
}

template <class To, class From> DEVICE To scaled(From x, f32 scale, f32 bias) {
  typedef typename scaled_in<To, From>::type acc_t;
  return quantised<To>(cast<acc_t>(x) * (acc_t)scale + (acc_t)bias);
}

#endif
