// out[i] = op::OP(self[i], other[i])                                     family: binary
// Shapes   contiguous: all operands dense in one order, or numbers; rows, turned: out runs along a
//          dimension, inputs also stay, step or turn; strided: any strides.
// Types    contiguous: scalar_t for all; rows, turned: TYPES, computed as scalar_t is; strided:
//          any dtypes by code, computed in scalar_t.
// Launch   one-dimensional; a block owns blockDim.x * (2 packs | UNROLL units | 4 elements), or a
//          tile of 16 x 16 squares of UNIT x UNIT elements; shared = 4 KiB * UNIT an operand that
//          turns, static.
// Numbers  f16 and bf16 are computed in f32 and rounded once. Integer division by zero gives 0.
#include "arithmetic.cuh"
#include "contiguous.cuh"
#include "launch.cuh"
#include "rows.cuh"
#include "turned.cuh"

// The third argument is the operator's scalar: threshold_backward's threshold, and the alpha of
// add_alpha, which also serves sub with an alpha, whose sign launch.py turns.
namespace op {

struct add {  // signless
  template <class T> static DEVICE T of(T a, T b, T) { return plus(a, b); }
};

struct add_alpha {  // signless
  template <class T> static DEVICE T of(T a, T b, T alpha) { return plus(a, times(alpha, b)); }
};

struct div {
  template <class T> static DEVICE T of(T a, T b, T) { return ratio(a, b); }
};

struct div_floor {
  template <class T> static DEVICE T of(T a, T b, T) {
    if constexpr (is_real<T>) {
      // Source: ATen/native/cpu/BinaryOpsKernel.cpp, div_floor_floating; NumPy's npy_divmod.
      if (b == 0) return a / b;
      const T rest = math_fmod(a, b);
      T whole = (a - rest) / b;
      if (rest != 0 && (b < 0) != (rest < 0)) whole -= 1;
      if (whole == 0) return math_copysign((T)0, a / b);
      const T down = math_floor(whole);
      return whole - down > (T)0.5 ? down + 1 : down;
    } else if constexpr (is_signed_integer<T>) {
      if (b == 0) return 0;
      if (b == -1) return negative(a);  // the least integer has no positive twin; it must not trap
      const T whole = a / b;
      return a % b != 0 && (a < 0) != (b < 0) ? whole - 1 : whole;
    } else {
      return b == 0 ? 0 : a / b;
    }
  }
};

struct div_trunc {
  template <class T> static DEVICE T of(T a, T b, T) {
    if constexpr (is_real<T>) {
      return math_trunc(a / b);
    } else if constexpr (is_signed_integer<T>) {
      return b == 0 ? 0 : b == -1 ? negative(a) : a / b;
    } else {
      return b == 0 ? 0 : a / b;
    }
  }
};

struct maximum {
  template <class T> static DEVICE T of(T a, T b, T) { return a > b || is_nan(a) ? a : b; }
};

struct minimum {
  template <class T> static DEVICE T of(T a, T b, T) { return a < b || is_nan(a) ? a : b; }
};

struct mul {  // signless
  template <class T> static DEVICE T of(T a, T b, T) { return times(a, b); }
};

struct sub {  // signless
  template <class T> static DEVICE T of(T a, T b, T) { return minus(a, b); }
};

struct threshold_backward {
  template <class T> static DEVICE T of(T grad, T x, T threshold) {
    return x <= threshold ? 0 : grad;
  }
};

}  // namespace op

// ---- body ----
#ifndef OP
#define OP add
#endif
#include "defaults.cuh"
typedef contiguous_params<3, 3> contiguous_call;
typedef strided_params<3, 3, DIMS> strided_call;

#if HAS_LAYOUT(CONTIGUOUS)
extern "C" __global__ void __launch_bounds__(THREADS) binary_contiguous(const contiguous_call p) {
  constexpr int PACK = 16 / sizeof(scalar_t), PACKS = BINARY_PACKS;
  const u32 tile = blockDim.x * PACK * PACKS, first = blockIdx.x * tile;
  const bool number_a = p.numbers & 1, number_b = p.numbers & 2;
  const acc_t value_a = number<acc_t>(p.value[0]), value_b = number<acc_t>(p.value[1]);
  const acc_t alpha = number<acc_t>(p.value[2]);
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
#pragma unroll
      for (int e = 0; e < PACK; ++e) {
        const acc_t left = element_or_number(a[k].at[e], number_a, value_a);
        const acc_t right = element_or_number(b[k].at[e], number_b, value_b);
        a[k].at[e] = cast<scalar_t>(op::OP::of(left, right, alpha));
      }
      store_pack<scalar_t, PACK>(p.data[0], first + (k * blockDim.x + threadIdx.x) * PACK, a[k]);
    }
  } else {
    const u32 end = first + tile < p.numel ? first + tile : p.numel;
    for (u32 i = first + threadIdx.x; i < end; i += blockDim.x) {
      const acc_t left = number_a ? value_a : cast<acc_t>(load_one<scalar_t>(p.data[1], i));
      const acc_t right = number_b ? value_b : cast<acc_t>(load_one<scalar_t>(p.data[2], i));
      store_one(p.data[0], i, cast<scalar_t>(op::OP::of(left, right, alpha)));
    }
  }
}
#endif

#if HAS_LAYOUT(STRIDED)
extern "C" __global__ void __launch_bounds__(THREADS) binary_strided(const strided_call p) {
  const u32 first = first_element();
  if (first >= p.numel) return;
  i64 offset[3][STRIDED_UNROLL];
  locate(p, first, blockDim.x, offset);
  acc_t a[STRIDED_UNROLL], b[STRIDED_UNROLL];
  read_input(p, 1, 0, offset[1], a);
  read_input(p, 2, 1, offset[2], b);
  const acc_t alpha = number<acc_t>(p.value[2]);
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) a[k] = op::OP::of(a[k], b[k], alpha);
  write_common(p, offset[0], elements_left(first, p.numel), a);
}
#endif

#if HAS_LAYOUT(ROWS) || HAS_LAYOUT(TURNED)
#ifndef TYPES
#define TYPES scalar_t, scalar_t, scalar_t
#endif
#include "operand_defines.cuh"
template <class P> struct binary_body : computed_inputs<scalar_t, P> {
  DEVICE scalar_t of(acc_t a, acc_t b, nothing) const {
    return cast<scalar_t>(op::OP::of(a, b, number<acc_t>(this->p.value[2])));
  }
};
#endif

#if HAS_LAYOUT(ROWS)
typedef rows_params<3, 3, DIMS> rows_call;
extern "C" __global__ void __launch_bounds__(THREADS)
binary_rows(const __grid_constant__ rows_call p) {
  walk_rows<operands>(p, binary_body<rows_call>{p});
}
#endif

#if HAS_LAYOUT(TURNED)
typedef turned_params<3, 3, DIMS> turned_call;
extern "C" __global__ void __launch_bounds__(THREADS, 1)
binary_turned(const __grid_constant__ turned_call p) {
  __shared__ uint4 shared[TILE_CELLS<operands>];
  walk_tiles<operands>(p, binary_body<turned_call>{p}, shared);
}
#endif
