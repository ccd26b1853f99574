// out[i] = op::OP(self[i])                                               family: unary
// Shapes   contiguous: all operands dense in one order; rows, turned: out runs along a dimension;
//          strided: any strides, DIMS dimensions.
// Types    contiguous: scalar_t for self and out; rows, turned: TYPES, computed as scalar_t is;
//          strided: any dtypes by code, computed in scalar_t.
// Launch   one-dimensional; a block owns blockDim.x * (4 packs | UNROLL units | 4 elements), or a
//          tile of 16 x 16 squares of UNIT x UNIT elements; shared = 4 KiB * UNIT an operand that
//          turns, static.
// Numbers  f16 and bf16 are computed in f32 and rounded once. Functions other than roots and
//          rounding may differ between devices.
#include "math/arithmetic.cuh"
#include "pointwise/contiguous.cuh"
#include "math/functions.cuh"
#include "launch.cuh"
#include "pointwise/rows.cuh"
#include "pointwise/turned.cuh"

// The functor of an angle. See Note [Rare elements] in elementary.cuh.
struct of_angle {
  template <class T> static DEVICE bool is_rare(T x) { return is_far_angle(x); }
};

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

struct acos {
  template <class T> static DEVICE T of(T x) { return math_acos(x); }
};

struct acosh {
  template <class T> static DEVICE T of(T x) { return math_acosh(x); }
};

struct angle {
  template <class T> static DEVICE typename real_of<T>::type of(T x) {
    if constexpr (is_complex<T>) {
      return math_atan2(x.im, x.re);
    } else {
      return x < 0 ? PI<T> : is_nan(x) ? x : 0;
    }
  }
};

struct asin {
  template <class T> static DEVICE T of(T x) { return math_asin(x); }
};

struct asinh {
  template <class T> static DEVICE T of(T x) { return math_asinh(x); }
};

struct atan {
  template <class T> static DEVICE T of(T x) { return math_atan(x); }
};

struct atanh {
  template <class T> static DEVICE T of(T x) { return math_atanh(x); }
};

struct bitwise_not {  // signless
  template <class T> static DEVICE T of(T x) { return ~x; }
};

struct ceil {
  template <class T> static DEVICE T of(T x) {
    if constexpr (is_real<T>) {
      return math_ceil(x);
    } else {
      return x;
    }
  }
};

struct conj_physical {
  template <class T> static DEVICE T of(T x) { return T{x.re, -x.im}; }
};

struct cos : of_angle {
  template <class T> static DEVICE T of(T x) { return near_cos(x); }
  template <class T> static DEVICE T rare(T x) { return math_cos(x); }
};

struct cosh {
  template <class T> static DEVICE T of(T x) { return math_cosh(x); }
};

struct deg2rad {
  template <class T> static DEVICE T of(T x) { return x * (T)0.0174532925199432957692; }
};

struct erf {
  template <class T> static DEVICE T of(T x) { return math_erf(x); }
};

struct erfc {
  template <class T> static DEVICE T of(T x) { return math_erfc(x); }
};

struct exp {
  template <class T> static DEVICE T of(T x) { return math_exp(x); }
};

struct exp2 {
  template <class T> static DEVICE T of(T x) { return math_exp2(x); }
};

struct expm1 {
  template <class T> static DEVICE T of(T x) { return math_expm1(x); }
};

struct floor {
  template <class T> static DEVICE T of(T x) {
    if constexpr (is_real<T>) {
      return math_floor(x);
    } else {
      return x;
    }
  }
};

struct frac {
  template <class T> static DEVICE T of(T x) { return x - math_trunc(x); }
};

struct isfinite {
  template <class T> static DEVICE bool of(T x) { return is_finite(x); }
};

struct isinf {
  template <class T> static DEVICE bool of(T x) { return is_infinite(x); }
};

struct isnan {
  template <class T> static DEVICE bool of(T x) { return is_nan(x); }
};

struct isneginf {
  template <class T> static DEVICE bool of(T x) { return (x < 0) & is_infinite(x); }
};

struct isposinf {
  template <class T> static DEVICE bool of(T x) { return (x > 0) & is_infinite(x); }
};

struct log {
  template <class T> static DEVICE T of(T x) { return math_log(x); }
};

struct log10 {
  template <class T> static DEVICE T of(T x) { return math_log10(x); }
};

struct log1p {
  template <class T> static DEVICE T of(T x) { return math_log1p(x); }
};

struct log2 {
  template <class T> static DEVICE T of(T x) { return math_log2(x); }
};

struct logical_not {  // signless
  template <class T> static DEVICE bool of(T x) { return !nonzero(x); }
};

struct neg {  // signless
  template <class T> static DEVICE T of(T x) { return negative(x); }
};

struct rad2deg {
  template <class T> static DEVICE T of(T x) { return x * (T)57.2957795130823208768; }
};

struct reciprocal {
  template <class T> static DEVICE T of(T x) { return one_over(x); }
};

struct relu {
  template <class T> static DEVICE T of(T x) { return x > 0 || is_nan(x) ? x : 0; }
};

struct round {
  template <class T> static DEVICE T of(T x) {
    if constexpr (is_real<T>) {
      return math_rint(x);
    } else {
      return x;
    }
  }
};

struct rsqrt {
  template <class T> static DEVICE T of(T x) { return one_over(math_sqrt(x)); }
};

struct sigmoid {
  template <class T> static DEVICE T of(T x) { return logistic(x); }
};

struct sign {
  template <class T> static DEVICE T of(T x) { return (T)((x > 0) - (x < 0)); }
};

struct sgn {
  template <class T> static DEVICE T of(T x) {
    if constexpr (is_complex<T>) {
      const typename T::part size = math_hypot(x.re, x.im);
      return size == 0 ? T{0, 0} : T{x.re / size, x.im / size};
    } else {
      return sign::of(x);
    }
  }
};

struct signbit {
  template <class T> static DEVICE bool of(T x) {
    if constexpr (is_real<T>) {
      return has_sign(x);
    } else {
      return x < 0;
    }
  }
};

struct sin : of_angle {
  template <class T> static DEVICE T of(T x) { return near_sin(x); }
  template <class T> static DEVICE T rare(T x) { return math_sin(x); }
};

struct sinc {
  template <class T> static DEVICE T of(T x) {
    if constexpr (is_complex<T>) {
      if (!nonzero(x)) return T{1, 0};
      const T angle = multiplied(x, PI<typename T::part>);
      return quotient(sin::of(angle), angle);
    } else {
      const T angle = x * PI<T>;
      return x == 0 ? 1 : near_sin(angle) / angle;
    }
  }
  template <class T> static DEVICE bool is_rare(T x) { return is_far_angle(x * PI<T>); }
  template <class T> static DEVICE T rare(T x) {
    const T angle = x * PI<T>;
    return x == 0 ? 1 : math_sin(angle) / angle;
  }
};

struct sinh {
  template <class T> static DEVICE T of(T x) { return math_sinh(x); }
};

struct sqrt {
  template <class T> static DEVICE T of(T x) { return math_sqrt(x); }
};

struct tan : of_angle {
  template <class T> static DEVICE T of(T x) { return near_tan(x); }
  template <class T> static DEVICE T rare(T x) { return math_tan(x); }
};

struct tanh {
  template <class T> static DEVICE T of(T x) { return math_tanh(x); }
};

struct trunc {
  template <class T> static DEVICE T of(T x) {
    if constexpr (is_real<T>) {
      return math_trunc(x);
    } else {
      return x;
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
extern "C" __global__ void __launch_bounds__(THREADS, LEAST_BLOCKS)
unary_contiguous(const contiguous_call p) {
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
extern "C" __global__ void __launch_bounds__(THREADS, LEAST_BLOCKS)
unary_strided(const strided_call p) {
  const u32 first = first_element();
  if (first >= p.numel) return;
  i64 offset[2][STRIDED_UNROLL];
  locate(p, first, blockDim.x, offset);
  acc_t x[STRIDED_UNROLL];
  read_input(p, 1, 0, offset[1], x);
  typedef decltype(op::OP::of(acc_t())) result_t;
  result_t result[STRIDED_UNROLL];
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) result[k] = op::OP::of(x[k]);
  if constexpr (same<result_t, bool>) {
    store(p.data[0], offset[0], elements_left(first, p.numel), p.code[0], result);
  } else {
    write_common(p, offset[0], elements_left(first, p.numel), result);
  }
}
#endif

#if HAS_LAYOUT(ROWS) || HAS_LAYOUT(TURNED)
#ifndef TYPES
#define TYPES scalar_t, scalar_t
#endif
#include "pointwise/operand_defines.cuh"
constexpr int VALUES = 1;
template <class P> struct large_body : computed_inputs<scalar_t, P> {
  DEVICE scalar_t of(acc_t x) const { return cast<scalar_t>(op::OP::of(x)); }
};
#include "pointwise/large_body.cuh"
#endif
