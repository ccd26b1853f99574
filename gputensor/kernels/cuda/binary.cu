// out[i] = op::OP(self[i], other[i])                                     family: binary
// Shapes, types and launch are those of pointwise/computed_body.cuh.
// Numbers  f16 and bf16 are computed in f32 and rounded once. Integer division by zero gives 0.
#include "math/arithmetic.cuh"
#include "pointwise/computed.cuh"
#include "math/functions.cuh"

// The third argument is the operator's scalar: the threshold of threshold_backward, and the alpha
// of add_alpha. launch.py negates alpha for sub, which also uses add_alpha.
namespace op {

template <class T> DEVICE typename real_of<T>::type angle_of(T z) {
  return math_atan2(z.im, z.re);
}

template <class T> DEVICE T exp_of(T z) {
  const auto size = math_exp(z.re);
  return T{size * math_cos(z.im), size * math_sin(z.im)};
}

struct add {  // signless
  template <class T> static DEVICE T of(T a, T b, T) { return plus(a, b); }
};

struct add_alpha {  // signless
  template <class T> static DEVICE T of(T a, T b, T alpha) { return plus(a, times(alpha, b)); }
};

struct atan2 {
  template <class T> static DEVICE T of(T a, T b, T) { return math_atan2(a, b); }
};

struct bitwise_and {  // signless
  template <class T> static DEVICE T of(T a, T b, T) { return a & b; }
};

// A shift by all bits or more, or by a negative number, leaves only the element's sign.
struct bitwise_left_shift {
  template <class T> static DEVICE T of(T a, T b, T) {
    typedef typename unsigned_of<T>::type U;
    return b < 0 || b >= (T)(8 * sizeof(T)) ? 0 : (T)((U)a << b);
  }
};

struct bitwise_or {  // signless
  template <class T> static DEVICE T of(T a, T b, T) { return a | b; }
};

struct bitwise_right_shift {
  template <class T> static DEVICE T of(T a, T b, T) {
    if (b < 0 || b >= (T)(8 * sizeof(T))) return a < 0 ? -1 : 0;
    return a >> b;
  }
};

struct bitwise_xor {  // signless
  template <class T> static DEVICE T of(T a, T b, T) { return a ^ b; }
};

struct copysign {
  template <class T> static DEVICE T of(T a, T b, T) { return math_copysign(a, b); }
};

struct div {
  template <class T> static DEVICE T of(T a, T b, T) { return ratio(a, b); }
};

struct div_floor {
  template <class T> static DEVICE T of(T a, T b, T) {
    if constexpr (is_real<T>) {
      // Source: ATen/native/cpu/BinaryOpsKernel.cpp, div_floor_floating; NumPy's npy_divmod. With
      // an infinite operand the result is the quotient: inf // 1 is inf, as in the array API.
      if (b == 0 || a - a != 0 || b - b != 0) return a / b;
      const T rest = math_fmod(a, b);
      T whole = (a - rest) / b;
      if (rest != 0 && (b < 0) != (rest < 0)) whole -= 1;
      if (whole == 0) return math_copysign((T)0, a / b);
      const T down = math_floor(whole);
      return whole - down > (T)0.5 ? down + 1 : down;
    } else if constexpr (is_signed_integer<T>) {
      if (b == 0) return 0;
      if (b == -1) return negative(a);  // the division of INT_MIN by -1 must not trap
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

struct fmax {
  template <class T> static DEVICE T of(T a, T b, T) { return a >= b || is_nan(b) ? a : b; }
};

struct fmin {
  template <class T> static DEVICE T of(T a, T b, T) { return a <= b || is_nan(b) ? a : b; }
};

struct fmod {
  template <class T> static DEVICE T of(T a, T b, T) {
    if constexpr (is_real<T>) {
      return math_fmod(a, b);
    } else if constexpr (is_signed_integer<T>) {
      return b == 0 || b == -1 ? 0 : a % b;
    } else {
      return b == 0 ? 0 : a % b;
    }
  }
};

template <class T> DEVICE T common_divisor(T a, T b) {
  typedef typename unsigned_of<T>::type U;
  U x = (U)(a < 0 ? negative(a) : a), y = (U)(b < 0 ? negative(b) : b);
  while (y != 0) {
    const U rest = x % y;
    x = y, y = rest;
  }
  return (T)x;
}

struct gcd {
  template <class T> static DEVICE T of(T a, T b, T) { return common_divisor(a, b); }
};

struct heaviside {
  template <class T> static DEVICE T of(T x, T values, T) { return x == 0 ? values : (T)(x > 0); }
};

struct hypot {
  template <class T> static DEVICE T of(T a, T b, T) { return math_hypot(a, b); }
};

struct lcm {
  template <class T> static DEVICE T of(T a, T b, T) {
    const T divisor = common_divisor(a, b);
    if (divisor == 0) return 0;
    const T multiple = times((T)(a / divisor), b);
    return multiple < 0 ? negative(multiple) : multiple;
  }
};

// The logarithm of 1 + exp(x), for x with a real part of at most 0.
template <class T> DEVICE T log_of_sum(T x) {
  if constexpr (is_complex<T>) {
    const auto size = math_exp(x.re);
    const T sum = {1 + size * math_cos(x.im), size * math_sin(x.im)};
    return T{math_log(math_hypot(sum.re, sum.im)), angle_of(sum)};
  } else {
    return math_log1p(math_exp(x));
  }
}

// Source: ATen/native/cpu/BinaryOpsKernel.cpp, logaddexp_kernel; LogAddExp.h for complex numbers.
struct logaddexp {
  template <class T> static DEVICE T of(T a, T b, T) {
    if constexpr (is_complex<T>) {
      const T high = a.re >= b.re ? a : b, low = a.re >= b.re ? b : a;
      if (low.re == high.re && low.re - low.re != 0 && low.re == low.re) {
        if (high.re < 0) return low;
        return T{high.re, angle_of(plus(op::exp_of(low), op::exp_of(high)))};
      }
      return plus(high, log_of_sum(minus(low, high)));
    } else {
      if (a == b && a - a != 0) return a;
      return (a > b ? a : b) + log_of_sum(-math_abs(a - b));
    }
  }
};

struct logaddexp2 {
  template <class T> static DEVICE T of(T a, T b, T) {
    if (a == b && a - a != 0) return a;
    const T high = a > b ? a : b, apart = math_abs(a - b);
    return high + log_of_sum(apart * (T)-0.6931471805599453) * (T)1.4426950408889634;
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

struct nextafter {
  template <class T> static DEVICE T of(T a, T b, T) { return math_nextafter(a, b); }
};

// Powers of integers wrap around. Negative exponents give 0 except for bases 1 and -1.
template <class T> DEVICE T integer_power(T a, T b) {
  if constexpr (is_signed_integer<T>) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  }
  T made = 1;
  for (; b != 0; b >>= 1, a = times(a, a)) {
    if (b & 1) made = times(made, a);
  }
  return made;
}

template <class T> DEVICE T power(T a, T b) {
  if constexpr (is_complex<T>) {
    typedef typename T::part part;
    if (b.re == 0 && b.im == 0) return T{1, 0};
    if (a.re == 0 && a.im == 0) {
      if (b.re > 0 && b.im == 0) return T{0, 0};
      const part nan = (a.re + a.im) / (a.re + a.im);
      return T{nan, nan};
    }
    if (b.im == 0 && b.re == 1) return a;
    if (b.im == 0 && b.re == 2) return times(a, a);
    if (b.im == 0 && b.re == 3) return times(a, times(a, a));
    const part size = math_log(math_hypot(a.re, a.im)), turn = angle_of(a);
    const part scale = math_exp(b.re * size - b.im * turn), angle = b.im * size + b.re * turn;
    return T{scale * math_cos(angle), scale * math_sin(angle)};
  } else if constexpr (is_integer<T>) {
    return integer_power(a, b);
  } else {
    return math_pow(a, b);
  }
}

struct pow {
  template <class T> static DEVICE T of(T a, T b, T) { return power(a, b); }
};

// The exponent is a single number for all elements.
struct pow_number {
  template <class T> static DEVICE T of(T a, T b, T) {
    if constexpr (is_real<T>) {
      return power_of_number(a, b);
    } else if constexpr (is_complex<T>) {
      if (b.im == 0 && b.re == (typename T::part)0.5) return math_sqrt(a);
      if (b.im == 0 && b.re == (typename T::part)-1) return quotient(T{1, 0}, a);
      if (b.im == 0 && b.re == (typename T::part)-2) return quotient(T{1, 0}, times(a, a));
      if (b.im == 0 && b.re == (typename T::part)-0.5) return quotient(T{1, 0}, math_sqrt(a));
    }
    return power(a, b);
  }
};

struct remainder {
  template <class T> static DEVICE T of(T a, T b, T) {
    if constexpr (is_real<T>) {
      const T rest = math_fmod(a, b);
      return math_copysign(rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest, b);
    } else if constexpr (is_signed_integer<T>) {
      if (b == 0 || b == -1) return 0;
      const T rest = a % b;
      return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
    } else {
      return b == 0 ? 0 : a % b;
    }
  }
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
#define TYPES scalar_t, scalar_t, scalar_t
#endif
struct functor : takes<2, 1> {
  template <class T> static DEVICE T of(T a, T b, T scalar) { return op::OP::of(a, b, scalar); }
};
#include "pointwise/computed_body.cuh"
