// out[i] = op::OP(self[i])                                               family: unary
// Shapes   contiguous: all operands dense in one order; rows, turned: out runs along a dimension;
//          strided: any strides, DIMS dimensions.
// Types    contiguous: scalar_t for self and out; rows, turned: TYPES, computed as scalar_t is;
//          strided: any dtypes by code, computed in scalar_t.
// Launch   one-dimensional; a block owns blockDim.x * (4 packs | UNROLL units | 4 elements), or a
//          tile of 16 x 16 squares of UNIT x UNIT elements; shared = 4 KiB * UNIT an operand that
//          turns, static.
// Numbers  f16 and bf16 are computed in f32 and rounded once; exp is each device's own.
#include "arithmetic.cuh"
#include "contiguous.cuh"
#include "launch.cuh"
#include "rows.cuh"
#include "turned.cuh"

namespace op {

struct abs {
  template <class T> static DEVICE typename real_of<T>::type of(T x) {
    if constexpr (is_complex<T>) {
      return math_hypot(x.re, x.im);
    } else if constexpr (is_real<T>) {
      return math_abs(x);
    } else if constexpr (is_signed_integer<T>) {
      return x < 0 ? negative(x) : x;
    } else {
      return x;
    }
  }
};

struct conj_physical {
  template <class T> static DEVICE T of(T x) { return T{x.re, -x.im}; }
};

struct exp {
  template <class T> static DEVICE T of(T x) {
    if constexpr (is_complex<T>) {
      const auto size = math_exp(x.re);
      if (x.im == 0) return T{size, x.im};
      if (size == 0 && x.im - x.im != 0) return T{0, 0};  // exp(-inf + i*inf), exp(-inf + i*nan)
      if (x.im - x.im != 0 && x.re - x.re != 0 && x.re > 0) return T{size, x.im - x.im};
      return T{size * math_cos(x.im), size * math_sin(x.im)};
    } else {
      return math_exp(x);
    }
  }
};

struct neg {  // signless
  template <class T> static DEVICE T of(T x) { return negative(x); }
};

struct relu {
  template <class T> static DEVICE T of(T x) { return x > 0 || is_nan(x) ? x : 0; }
};

struct sqrt {
  template <class T> static DEVICE T of(T x) {
    if constexpr (is_complex<T>) {
      return complex_root(x);
    } else {
      return math_sqrt(x);
    }
  }
};

}  // namespace op

// ---- body ----
#ifndef OP
#define OP neg
#endif
#include "defaults.cuh"
typedef contiguous_params<2, 1> contiguous_call;
typedef strided_params<2, 1, DIMS> strided_call;

#if HAS_LAYOUT(CONTIGUOUS)
extern "C" __global__ void __launch_bounds__(THREADS) unary_contiguous(const contiguous_call p) {
  constexpr int PACK = 16 / sizeof(scalar_t), PACKS = UNARY_PACKS;
  const u32 tile = blockDim.x * PACK * PACKS, first = blockIdx.x * tile;
  if (first + tile <= p.numel && all_aligned(p.data)) {
    pack<scalar_t, PACK> x[PACKS];
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
      x[k] = load_pack<scalar_t, PACK>(p.data[1], first + (k * blockDim.x + threadIdx.x) * PACK);
    }
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
#pragma unroll
      for (int e = 0; e < PACK; ++e) {
        x[k].at[e] = cast<scalar_t>(op::OP::of(cast<acc_t>(x[k].at[e])));
      }
      store_pack<scalar_t, PACK>(p.data[0], first + (k * blockDim.x + threadIdx.x) * PACK, x[k]);
    }
  } else {
    const u32 end = first + tile < p.numel ? first + tile : p.numel;
    for (u32 i = first + threadIdx.x; i < end; i += blockDim.x) {
      const acc_t x = cast<acc_t>(load_one<scalar_t>(p.data[1], i));
      store_one(p.data[0], i, cast<scalar_t>(op::OP::of(x)));
    }
  }
}
#endif

#if HAS_LAYOUT(STRIDED)
extern "C" __global__ void __launch_bounds__(THREADS) unary_strided(const strided_call p) {
  const u32 first = first_element();
  if (first >= p.numel) return;
  i64 offset[2][STRIDED_UNROLL];
  locate(p, first, blockDim.x, offset);
  acc_t x[STRIDED_UNROLL];
  read_input(p, 1, 0, offset[1], x);
  decltype(op::OP::of(acc_t())) result[STRIDED_UNROLL];
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) result[k] = op::OP::of(x[k]);
  write_common(p, offset[0], elements_left(first, p.numel), result);
}
#endif

#if HAS_LAYOUT(ROWS) || HAS_LAYOUT(TURNED)
#ifndef TYPES
#define TYPES scalar_t, scalar_t
#endif
#include "operand_defines.cuh"
template <class P> struct unary_body : computed_inputs<scalar_t, P> {
  DEVICE scalar_t of(acc_t x, nothing, nothing) const { return cast<scalar_t>(op::OP::of(x)); }
};
#endif

#if HAS_LAYOUT(ROWS)
typedef rows_params<2, 1, DIMS> rows_call;
extern "C" __global__ void __launch_bounds__(THREADS)
unary_rows(const __grid_constant__ rows_call p) {
  walk_rows<operands>(p, unary_body<rows_call>{p});
}
#endif

#if HAS_LAYOUT(TURNED)
typedef turned_params<2, 1, DIMS> turned_call;
extern "C" __global__ void __launch_bounds__(THREADS, 1)
unary_turned(const __grid_constant__ turned_call p) {
  __shared__ uint4 shared[TILE_CELLS<operands>];
  walk_tiles<operands>(p, unary_body<turned_call>{p}, shared);
}
#endif
