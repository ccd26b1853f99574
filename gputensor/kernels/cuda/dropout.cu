// out[i] = x[i] * kept[i] * factor, kept[i] drawn or read                         family: dropout
// Shapes   contiguous: all operands dense in one order, which is row-major if numbers are drawn;
//          strided: any strides, up to DIMS dimensions, numbered in row-major order.
// Types    scalar_t f16 bf16 f32 f64, computed in acc_t and rounded once; kept is bool.
// Launch   one-dimensional; a thread computes the four elements of one Philox counter.
// Numbers  element i is kept if the upper 53 bits of its word are below a limit, as in bernoulli of
//          random.cu. So mask and result have the bits of bernoulli and two products: 0 times an
//          infinity is NaN.
#include "math/arithmetic.cuh"
#include "pointwise/contiguous.cuh"
#include "launch.cuh"
#include "random_bits.cuh"

// The parameters of value[2]: the limit, and the factor of kept elements.
DEVICE f64 factor_of(value_slot params) { return number<f64>(value_slot{params.high, 0}); }

template <class scalar, class acc> DEVICE scalar dropped(scalar x, bool is_kept, acc factor) {
  return cast<scalar>(cast<acc>(x) * (acc)is_kept * factor);
}

// draws: the mask is drawn and written. Otherwise it is read.
namespace op {

struct dropout { static constexpr bool draws = true; };  // composite

struct dropout_backward { static constexpr bool draws = false; };  // composite

}  // namespace op

// ---- body ----
#ifndef OP
#define OP dropout
#endif
#include "defaults.cuh"

// Operands: out, mask, x.
#if HAS_LAYOUT(CONTIGUOUS)
typedef contiguous_params<3, 3> contiguous_call;

extern "C" __global__ void __launch_bounds__(THREADS) dropout_contiguous(const contiguous_call p) {
  constexpr int PACK = sizeof(scalar_t) == 8 ? 2 : 4;
  const u32 block = blockIdx.x * blockDim.x + threadIdx.x, taken = (u32)p.value[1].high;
  if (block * 4 >= p.numel + taken) return;
  // negative, and as an unsigned number above numel, for elements of earlier launches
  const u32 first = block * 4 - taken;
  const bool is_whole = !taken && first + 4 <= p.numel && all_aligned(p.data);
  const acc_t factor = (acc_t)factor_of(p.value[2]);
  pack<u8, 4> kept;
  if constexpr (op::OP::draws) {
    const philox_block bits = random_bits(p.value, block);
#pragma unroll
    for (int k = 0; k < 4; ++k) kept.at[k] = bits.at[k] >> 11 < p.value[2].low;
  } else {
    kept = load_within<u8, 4>(p.data[1], first, p.numel, is_whole);
  }
  if (is_whole) {
    if constexpr (op::OP::draws) store_pack<u8, 4>(p.data[1], first, kept);
#pragma unroll
    for (int k = 0; k < 4; k += PACK) {
      const pack<scalar_t, PACK> x = load_pack<scalar_t, PACK>(p.data[2], first + k);
      pack<scalar_t, PACK> made;
#pragma unroll
      for (int e = 0; e < PACK; ++e) made.at[e] = dropped(x.at[e], kept.at[k + e] != 0, factor);
      store_pack<scalar_t, PACK>(p.data[0], first + k, made);
    }
    return;
  }
#pragma unroll
  for (u32 k = 0; k < 4; ++k) {
    if (first + k >= p.numel) continue;
    if constexpr (op::OP::draws) store_one(p.data[1], first + k, kept.at[k]);
    const scalar_t x = load_one<scalar_t>(p.data[2], first + k);
    store_one(p.data[0], first + k, dropped(x, kept.at[k] != 0, factor));
  }
}
#endif

#if HAS_LAYOUT(STRIDED)
typedef strided_params<3, 3, DIMS> strided_call;

extern "C" __global__ void __launch_bounds__(THREADS) dropout_strided(const strided_call p) {
  const u32 block = blockIdx.x * blockDim.x + threadIdx.x, taken = (u32)p.value[1].high;
  if (block * 4 >= p.numel + taken) return;
  const u32 first = block * 4 - taken;
  const acc_t factor = (acc_t)factor_of(p.value[2]);
  philox_block bits = {};
  if constexpr (op::OP::draws) bits = random_bits(p.value, block);
#pragma unroll
  for (u32 k = 0; k < 4; ++k) {
    if (first + k >= p.numel) continue;
    i64 offset[3] = {};
    add_offsets(p.dim, p.ndim, first + k, offset);
    u8& mask = *(u8*)(p.data[1] + offset[1]);
    bool is_kept;
    if constexpr (op::OP::draws) {
      is_kept = bits.at[k] >> 11 < p.value[2].low;
      mask = is_kept;
    } else {
      is_kept = mask != 0;
    }
    const scalar_t x = *(const scalar_t*)(p.data[2] + offset[2]);
    *(scalar_t*)(p.data[0] + offset[0]) = dropped(x, is_kept, factor);
  }
}
#endif
