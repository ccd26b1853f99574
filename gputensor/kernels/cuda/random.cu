// out[i] = op::OP of the Philox4x64-10 stream at i                                  family: random
// Shapes   dense.
// Types    scalar_t f16 bf16 f32 f64, and u8 u16 u32 u64 for integers and bool of that size; what
//          is made of a word is said by the CPU kernel, of the same bits but for log, root, angle.
// Launch   one-dimensional, a thread makes the four elements of one Philox counter.
#include "arithmetic.cuh"
#include "contiguous.cuh"
#include "launch.cuh"
#include "philox.cuh"

// What numbers for T are computed in.
template <class T> struct computed { typedef f64 type; };
template <> struct computed<f32> { typedef f32 type; };
template <> struct computed<f16> { typedef f32 type; };
template <> struct computed<bf16> { typedef f32 type; };
template <class T> using wide = typename computed<T>::type;

DEVICE f64 first_of(value_slot params) { return number<f64>(params); }
DEVICE f64 second_of(value_slot params) { return number<f64>(value_slot{params.high, 0}); }

// A number above 0 and below 1.
template <class W> DEVICE W inside(u64 bits) {
  if constexpr (same<W, f64>) {
    return (f64)(bits >> 11 | 1) * 1.1102230246251565e-16;  // 2^-53
  } else {
    const f32 made = (f32)(bits >> 33 | 1) * 4.656612873077393e-10f;  // 2^-31
    return made < 0.99999994f ? made : 0.99999994f;
  }
}

// One of a pair of normal numbers, k being even or odd. Source: Box and Muller (1958).
template <class W> DEVICE W normal_of(const philox_block& bits, int k, value_slot params) {
  const u64 high = bits.at[k & ~1], low = bits.at[k | 1];
  W size, angle;
  if constexpr (same<W, f64>) {
    size = (f64)((high >> 11) + 1) * 1.1102230246251565e-16;
    angle = (f64)(low >> 11) * 6.975736996017264e-16;  // 2 pi 2^-53
  } else {
    size = (f32)((high >> 34) + 1) * 9.313225746154785e-10f;  // 2^-30
    angle = (f32)(low >> 40) * 3.745070282923847e-7f;      // 2 pi 2^-24
  }
  size = math_sqrt(math_log(size) * -2) * (W)second_of(params);
  return size * (k & 1 ? math_sin(angle) : math_cos(angle)) + (W)first_of(params);
}

template <class T> DEVICE T from_integer(u64 made) {
  if constexpr (is_integer<T>) {
    return (T)made;
  } else {
    return cast<T>((wide<T>)(i64)made);
  }
}

namespace op {

struct bernoulli {  // whole
  template <class T> static DEVICE T of(const philox_block& bits, int k, value_slot params) {
    return from_integer<T>(bits.at[k] >> 11 < params.low);
  }
};

struct cauchy {
  template <class T> static DEVICE T of(const philox_block& bits, int k, value_slot params) {
    const wide<T> angle = (inside<wide<T>>(bits.at[k]) - (wide<T>)0.5) * (wide<T>)3.141592653589793;
    const wide<T> tan = math_sin(angle) / math_cos(angle);
    return cast<T>(tan * (wide<T>)second_of(params) + (wide<T>)first_of(params));
  }
};

struct exponential {
  template <class T> static DEVICE T of(const philox_block& bits, int k, value_slot params) {
    return cast<T>(math_log(inside<wide<T>>(bits.at[k])) * (wide<T>)(-1 / first_of(params)));
  }
};

struct geometric {  // whole
  template <class T> static DEVICE T of(const philox_block& bits, int k, value_slot params) {
    const wide<T> scale = (wide<T>)(1 / log1p(-first_of(params)));
    const wide<T> tries = -math_floor(-(math_log(inside<wide<T>>(bits.at[k])) * scale));
    if constexpr (is_integer<T>) {
      return (T)(i64)tries;
    } else {
      return cast<T>(tries);
    }
  }
};

struct integers {  // whole
  template <class T> static DEVICE T of(const philox_block& bits, int k, value_slot params) {
    const u64 count = params.high, word = bits.at[k];
    return from_integer<T>(params.low + (count ? word % count : word));
  }
};

struct log_normal {
  template <class T> static DEVICE T of(const philox_block& bits, int k, value_slot params) {
    return cast<T>(math_exp(normal_of<wide<T>>(bits, k, params)));
  }
};

struct normal {
  template <class T> static DEVICE T of(const philox_block& bits, int k, value_slot params) {
    return cast<T>(normal_of<wide<T>>(bits, k, params));
  }
};

struct uniform {  // as many bits as the type holds
  template <class T> static DEVICE T of(const philox_block& block, int k, value_slot params) {
    const u64 bits = block.at[k];
    wide<T> unit;
    if constexpr (same<T, f64>) {
      unit = (f64)(bits >> 11) * 1.1102230246251565e-16;  // 2^-53
    } else if constexpr (same<T, f32>) {
      unit = (f32)(bits >> 40) * 5.9604644775390625e-8f;  // 2^-24
    } else if constexpr (same<T, f16>) {
      unit = (f32)(bits >> 53) * 4.8828125e-4f;  // 2^-11
    } else {
      unit = (f32)(bits >> 56) * 3.90625e-3f;  // 2^-8
    }
    const f64 low = first_of(params);
    return cast<T>(unit * (wide<T>)(second_of(params) - low) + (wide<T>)low);
  }
};

}  // namespace op

// The words of a block, counted from a call's first.
DEVICE philox_block random_block(u64 seed, u64 base, u64 block) {
  const u64 low = base + block;
  return philox(philox_block{{low, low < base, 0, 0}}, seed, 0);
}

// value[0] = {seed, counter of element 0}; value[1] = {whole Philox blocks, elements of one more}
// that earlier launches of a split call took; value[2] = the distribution's two parameters.
// In a graph the upper half of value[1].high is set, and value[0] = {address of seed and counter,
// blocks of the graph's calls before}: what lies there changes with each replay.
DEVICE philox_block random_bits(const value_slot (&value)[3], u32 block) {
  u64 seed = value[0].low, base = value[0].high;
  if (value[1].high >> 32) {
    const u64* const place = (const u64*)seed;
    seed = place[0];
    base += place[1];
  }
  return random_block(seed, base, value[1].low + block);
}

// ---- body ----
#ifndef OP
#define OP uniform
#endif
#include "defaults.cuh"
typedef contiguous_params<1, 3> contiguous_call;

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
      for (int e = 0; e < PACK; ++e) made.at[e] = op::OP::of<scalar_t>(bits, k + e, p.value[2]);
      store_pack<scalar_t, PACK>(p.data[0], first + k, made);
    }
  } else {
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      if (first + k < p.numel) {
        store_one(p.data[0], first + k, op::OP::of<scalar_t>(bits, k, p.value[2]));
      }
    }
  }
}
