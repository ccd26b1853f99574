// out[i] = op::OP of the Philox4x64-10 stream at i                                  family: random
// Shapes   dense.
// Types    scalar_t f16 bf16 f32 f64, and u8 u16 u32 u64 for integers and bool of that size. The
//          numbers equal those of the CPU kernel, except for the last bits of logarithm, root and
//          angle.
// Launch   one-dimensional; a thread computes the four elements of one Philox counter.
#include "pointwise/contiguous.cuh"
#include "draws.cuh"
#include "launch.cuh"
#include "random_bits.cuh"

DEVICE f64 first_of(value_slot params) { return number<f64>(params); }
DEVICE f64 second_of(value_slot params) { return number<f64>(value_slot{params.high, 0}); }

// One of a pair of normal numbers: the first if k is even, the second if it is odd.
template <class W> DEVICE W normal_of(const philox_block& bits, int k, value_slot params) {
  const W size = normal_size<W>(bits.at[k & ~1]) * (W)second_of(params);
  const W angle = normal_angle<W>(bits.at[k | 1]);
  return size * (k & 1 ? near_sin(angle) : near_cos(angle)) + (W)first_of(params);
}

namespace op {

struct bernoulli {  // whole
  template <class T> static DEVICE T of(const philox_block& bits, int k, value_slot params) {
    return from_integer<T>(bits.at[k] >> 11 < params.low);
  }
};

struct cauchy {
  template <class T> static DEVICE T of(const philox_block& bits, int k, value_slot params) {
    const wide<T> made = cauchy_unit<wide<T>>(bits.at[k]);
    return cast<T>(made * (wide<T>)second_of(params) + (wide<T>)first_of(params));
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
    const wide<T> made = tries_of(bits.at[k], scale);
    if constexpr (is_integer<T>) {
      return (T)(i64)made;
    } else {
      return cast<T>(made);
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
  template <class T> static DEVICE T of(const philox_block& bits, int k, value_slot params) {
    const f64 low = first_of(params);
    return cast<T>(unit_of<T>(bits.at[k]) * (wide<T>)(second_of(params) - low) + (wide<T>)low);
  }
};

}  // namespace op

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
  // negative, and as an unsigned number above numel, for elements of earlier launches
  const u32 first = block * 4 - taken;
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
