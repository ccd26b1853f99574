// out[i] = op::OP(self[i])                                               family: unary
// Shapes   contiguous: all operands dense in one order; rows, turned: out runs along a dimension;
//          strided: any strides, DIMS dimensions.
// Types    contiguous: scalar_t for self and out; rows, turned: TYPES, computed as scalar_t is;
//          strided: any dtypes by code, computed in scalar_t.
// Launch   as in pointwise/computed_body.cuh
// Numbers  f16 and bf16 are computed in f32 and rounded once. Functions other than roots and
//          rounding may differ between devices.
#include "math/arithmetic.cuh"
#include "pointwise/computed.cuh"
#include "math/functions.cuh"

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
#define TYPES scalar_t, scalar_t
#endif
struct functor : takes<1, 0> {
  template <class T> static DEVICE auto of(T x) { return op::OP::of(x); }
};
#include "pointwise/computed_body.cuh"
