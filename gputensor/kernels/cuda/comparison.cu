// out[i] = op::OP(self[i], other[i]) ? 1 : 0                             family: comparison
// Shapes   contiguous: all operands dense in one order, or numbers; rows, turned: out runs along a
//          dimension, inputs also stay, step or turn; strided: any strides.
// Types    contiguous: scalar_t inputs, bool out; rows, turned: TYPES, compared as scalar_t is;
//          strided: any dtypes by code, compared in scalar_t.
// Launch   one-dimensional; a block owns blockDim.x * (2 packs | UNROLL units | 4 elements), or a
//          tile of 16 x 16 squares of UNIT x UNIT elements; shared = 4 KiB * UNIT an operand that
//          turns, static.
#include "math/arithmetic.cuh"
#include "pointwise/contiguous.cuh"
#include "launch.cuh"
#include "pointwise/rows.cuh"
#include "pointwise/turned.cuh"

namespace op {

struct eq {  // signless
  template <class T> static DEVICE bool of(T a, T b) { return equal(a, b); }
};

struct ge {
  template <class T> static DEVICE bool of(T a, T b) { return a >= b; }
};

struct gt {
  template <class T> static DEVICE bool of(T a, T b) { return a > b; }
};

struct le {
  template <class T> static DEVICE bool of(T a, T b) { return a <= b; }
};

struct logical_and {  // signless
  template <class T> static DEVICE bool of(T a, T b) { return nonzero(a) && nonzero(b); }
};

struct logical_or {  // signless
  template <class T> static DEVICE bool of(T a, T b) { return nonzero(a) || nonzero(b); }
};

struct logical_xor {  // signless
  template <class T> static DEVICE bool of(T a, T b) { return nonzero(a) != nonzero(b); }
};

struct lt {
  template <class T> static DEVICE bool of(T a, T b) { return a < b; }
};

struct ne {  // signless
  template <class T> static DEVICE bool of(T a, T b) { return !equal(a, b); }
};

}  // namespace op

// ---- body ----
#ifndef OP
#define OP eq
#endif
#include "defaults.cuh"
typedef contiguous_params<3, 2> contiguous_call;
typedef strided_params<3, 2, DIMS> strided_call;

#if HAS_LAYOUT(CONTIGUOUS)
extern "C" __global__ void __launch_bounds__(THREADS)
comparison_contiguous(const contiguous_call p) {
  constexpr int PACK = 16 / sizeof(scalar_t), PACKS = BINARY_PACKS;
  const u32 tile = blockDim.x * PACK * PACKS, first = blockIdx.x * tile;
  const bool number_a = p.numbers & 1, number_b = p.numbers & 2;
  const acc_t value_a = number<acc_t>(p.value[0]), value_b = number<acc_t>(p.value[1]);
  if (first + tile <= p.numel && all_aligned(p.data)) {
    pack<scalar_t, PACK> a[PACKS], b[PACKS];
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
      const u32 at = first + (k * blockDim.x + threadIdx.x) * PACK;
      a[k] = load_or_repeat<scalar_t, PACK>(p.data[1], at, number_a, value_a);
      b[k] = load_or_repeat<scalar_t, PACK>(p.data[2], at, number_b, value_b);
    }
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
      pack<b8, PACK> result;
#pragma unroll
      for (int e = 0; e < PACK; ++e) {
        const acc_t left = element_or_number(a[k].at[e], number_a, value_a);
        const acc_t right = element_or_number(b[k].at[e], number_b, value_b);
        result.at[e].bits = op::OP::of(left, right);
      }
      store_pack<b8, PACK>(p.data[0], first + (k * blockDim.x + threadIdx.x) * PACK, result);
    }
  } else {
    const u32 end = first + tile < p.numel ? first + tile : p.numel;
    for (u32 i = first + threadIdx.x; i < end; i += blockDim.x) {
      const acc_t left = number_a ? value_a : cast<acc_t>(load_one<scalar_t>(p.data[1], i));
      const acc_t right = number_b ? value_b : cast<acc_t>(load_one<scalar_t>(p.data[2], i));
      store_one(p.data[0], i, b8{(u8)op::OP::of(left, right)});
    }
  }
}
#endif

#if HAS_LAYOUT(STRIDED)
extern "C" __global__ void __launch_bounds__(THREADS) comparison_strided(const strided_call p) {
  const u32 first = first_element();
  if (first >= p.numel) return;
  i64 offset[3][STRIDED_UNROLL];
  locate(p, first, blockDim.x, offset);
  acc_t a[STRIDED_UNROLL], b[STRIDED_UNROLL];
  read_input(p, 1, 0, offset[1], a);
  read_input(p, 2, 1, offset[2], b);
  u32 result[STRIDED_UNROLL];
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) result[k] = op::OP::of(a[k], b[k]);
  store(p.data[0], offset[0], elements_left(first, p.numel), p.code[0], result);
}
#endif

#if HAS_LAYOUT(ROWS) || HAS_LAYOUT(TURNED)
#ifndef TYPES
#define TYPES b8, scalar_t, scalar_t
#endif
#include "pointwise/operand_defines.cuh"
constexpr int VALUES = 2;
template <class P> struct large_body : computed_inputs<scalar_t, P> {
  DEVICE b8 of(acc_t a, acc_t b) const { return b8{(u8)op::OP::of(a, b)}; }
};
#include "pointwise/large_body.cuh"
#endif
