// Elementary functions of real and complex numbers. Their names depend neither on the width nor on
// whether a number is complex.
//
// Complex functions follow C99's branch cuts and signed zeros. For arguments above LARGE<T>,
// inverse functions use their asymptotic form, which is also exact at infinity.
// Source   W. Kahan, Branch cuts for complex elementary functions, 1987.
#ifndef GPUTENSOR_FUNCTIONS
#define GPUTENSOR_FUNCTIONS

#include "math/arithmetic.cuh"

GPUTENSOR_FUNCTION(acos)
GPUTENSOR_FUNCTION(acosh)
GPUTENSOR_FUNCTION(asin)
GPUTENSOR_FUNCTION(asinh)
GPUTENSOR_FUNCTION(atan)
GPUTENSOR_FUNCTION_OF_TWO(atan2)
GPUTENSOR_FUNCTION(atanh)
GPUTENSOR_C_FUNCTION(ceil)
GPUTENSOR_FUNCTION(cosh)
GPUTENSOR_FUNCTION(erf)
GPUTENSOR_FUNCTION(erfc)
GPUTENSOR_FUNCTION(exp2)
GPUTENSOR_FUNCTION(expm1)
GPUTENSOR_FUNCTION(log10)
GPUTENSOR_FUNCTION(log1p)
GPUTENSOR_FUNCTION(log2)
GPUTENSOR_FUNCTION_OF_TWO(nextafter)
GPUTENSOR_FUNCTION_OF_TWO(pow)
GPUTENSOR_C_FUNCTION(rint)
GPUTENSOR_FUNCTION(sinh)
GPUTENSOR_ANGLE_FUNCTION(tan)
GPUTENSOR_FUNCTION(tanh)

template <class T> constexpr T PI = (T)3.14159265358979323846;
template <class T> constexpr T LN2 = (T)0.693147180559945309417;
template <class T> constexpr T LN10 = (T)2.302585092994045684018;
// If 1 is added to the square root of this number, the sum rounds to the root.
template <class T> constexpr T LARGE = sizeof(T) == 4 ? (T)1e10 : (T)1e20;

// a^b, where b is one number for all elements. Source: ATen/native/cpu/PowKernel.cpp.
template <class T> DEVICE T power_of_number(T a, T b) {
  if (b == (T)2) return a * a;
  if (b == (T)3) return a * a * a;
  if (b == (T)0.5) return math_sqrt(a);
  if (b == (T)-0.5) return 1 / math_sqrt(a);
  if (b == (T)-1) return 1 / a;
  if (b == (T)-2) return 1 / (a * a);
  return math_pow(a, b);
}

template <class T> DEVICE bool is_finite(T x) { return x - x == 0; }
template <class T> DEVICE bool is_finite(complex_of<T> z) {
  return is_finite(z.re) && is_finite(z.im);
}
template <class T> DEVICE bool is_infinite(T x) { return (x == x) & !is_finite(x); }
template <class T> DEVICE bool is_infinite(complex_of<T> z) {
  return is_infinite(z.re) || is_infinite(z.im);
}
template <class T> DEVICE bool has_sign(T x) { return math_copysign((T)1, x) < 0; }

template <class T> DEVICE complex_of<T> multiplied(complex_of<T> z, T by) {
  return complex_of<T>{z.re * by, z.im * by};
}

template <class T> DEVICE T one_over(T x) { return 1 / x; }
template <class T> DEVICE complex_of<T> one_over(complex_of<T> z) {
  return quotient(complex_of<T>{1, 0}, z);
}

template <class T> DEVICE complex_of<T> math_exp(complex_of<T> z) {
  const T size = math_exp(z.re);
  if (z.im == 0) return complex_of<T>{size, z.im};
  // An infinity and an angle that is not finite: with an angle of zero, exp(-inf) gives zeros, and
  // exp(inf) gives infinity and NaN, as C99 demands. (A branch would spill registers in silu.)
  const bool has_direction = is_finite(z.im) || !is_infinite(z.re);
  const T angle = has_direction ? z.im : math_copysign((T)0, z.im);
  return complex_of<T>{size * math_cos(angle), size * math_sin(angle)};
}

template <class T> DEVICE complex_of<T> math_exp2(complex_of<T> z) {
  return math_exp(multiplied(z, LN2<T>));
}

// The logarithm of the modulus, with errors of a few ulp even if the modulus is near 1 or
// overflows.
template <class T> DEVICE T log_size(T re, T im) {
  const T x = math_abs(re), y = math_abs(im), most = x > y ? x : y, least = x > y ? y : x;
  if (most > LARGE<T>) return math_log(math_hypot(x / 4, y / 4)) + 2 * LN2<T>;
  if (most > (T)0.5 && most < (T)1.5) {
    return math_log1p((most - 1) * (most + 1) + least * least) / 2;
  }
  return math_log(math_hypot(x, y));
}

template <class T> DEVICE complex_of<T> math_log(complex_of<T> z) {
  return complex_of<T>{log_size(z.re, z.im), math_atan2(z.im, z.re)};
}

template <class T> DEVICE complex_of<T> math_log10(complex_of<T> z) {
  return multiplied(math_log(z), 1 / LN10<T>);
}

template <class T> DEVICE complex_of<T> math_log2(complex_of<T> z) {
  return multiplied(math_log(z), 1 / LN2<T>);
}

template <class T> DEVICE complex_of<T> math_log1p(complex_of<T> z) {
  const T x = z.re, y = z.im;
  if (math_abs(x) > (T)0.5 || math_abs(y) > (T)0.5) return math_log(complex_of<T>{1 + x, y});
  return complex_of<T>{math_log1p(x * (2 + x) + y * y) / 2, math_atan2(y, 1 + x)};
}

template <class T> DEVICE complex_of<T> math_expm1(complex_of<T> z) {
  if (z.re == 0 && z.im == 0) return complex_of<T>{0, z.im};
  if (!is_finite(z.re) || !is_finite(z.im)) {
    const complex_of<T> e = math_exp(z);
    return complex_of<T>{e.re - 1, e.im};
  }
  const T half = math_sin(z.im / 2);
  return complex_of<T>{math_expm1(z.re) * math_cos(z.im) - 2 * half * half,
                       math_exp(z.re) * math_sin(z.im)};
}

template <class T> DEVICE complex_of<T> math_sinh(complex_of<T> z) {
  if (z.im == 0) return complex_of<T>{math_sinh(z.re), z.im};
  if (!is_finite(z.im) && (z.re == 0 || is_infinite(z.re))) {
    return complex_of<T>{z.re == 0 ? z.re : math_abs(z.re), z.im - z.im};
  }
  if (z.re == 0) return complex_of<T>{z.re * math_cos(z.im), math_sin(z.im)};
  return complex_of<T>{math_sinh(z.re) * math_cos(z.im), math_cosh(z.re) * math_sin(z.im)};
}

template <class T> DEVICE complex_of<T> math_cosh(complex_of<T> z) {
  if (z.im == 0) {
    const bool is_negative = !is_nan(z.re) && has_sign(z.re);
    return complex_of<T>{math_cosh(z.re), is_negative ? -z.im : z.im};
  }
  if (!is_finite(z.im) && z.re == 0) return complex_of<T>{z.im - z.im, 0};
  if (!is_finite(z.im) && is_infinite(z.re)) return complex_of<T>{math_abs(z.re), z.im - z.im};
  if (z.re == 0) return complex_of<T>{math_cos(z.im), z.re * math_sin(z.im)};
  return complex_of<T>{math_cosh(z.re) * math_cos(z.im), math_sinh(z.re) * math_sin(z.im)};
}

template <class T> DEVICE complex_of<T> math_tanh(complex_of<T> z) {
  if (!is_finite(z.im) && !is_infinite(z.re)) {
    return complex_of<T>{z.re == 0 ? z.re : z.im - z.im, z.im - z.im};
  }
  if (math_abs(z.re) > (sizeof(T) == 4 ? 11 : 22)) {
    const T one = math_copysign((T)1, z.re);
    if (!is_finite(z.im)) return complex_of<T>{one, math_copysign((T)0, z.im)};
    const T decay = math_exp(-math_abs(z.re));
    return complex_of<T>{one, 4 * math_sin(z.im) * math_cos(z.im) * decay * decay};
  }
  if (z.im == 0) return complex_of<T>{math_tanh(z.re), z.im};
  const T t = math_tan(z.im), s = math_sinh(z.re), beta = 1 + t * t, size = 1 + beta * s * s;
  return complex_of<T>{beta * math_sqrt(1 + s * s) * s / size, t / size};
}

// Circular functions are hyperbolic functions of i * z. A complex angle is never far.
template <class T> DEVICE complex_of<T> times_i(complex_of<T> z) { return {-z.im, z.re}; }
template <class T> DEVICE complex_of<T> over_i(complex_of<T> z) { return {z.im, -z.re}; }
template <class T> DEVICE complex_of<T> near_cos(complex_of<T> z) { return math_cosh(times_i(z)); }
template <class T> DEVICE complex_of<T> near_sin(complex_of<T> z) {
  return times_i(math_sinh(over_i(z)));
}
template <class T> DEVICE complex_of<T> near_tan(complex_of<T> z) {
  return over_i(math_tanh(times_i(z)));
}

template <class T> DEVICE bool is_large(complex_of<T> z) {
  return math_abs(z.re) > LARGE<T> || math_abs(z.im) > LARGE<T>;
}

template <class T> DEVICE complex_of<T> math_asin(complex_of<T> z) {
  if (z.re == 0 && is_nan(z.im)) return z;
  if (is_large(z)) {
    return complex_of<T>{math_atan2(z.re, math_abs(z.im)),
                         math_copysign(log_size(z.re, z.im) + LN2<T>, z.im)};
  }
  const complex_of<T> a = math_sqrt(complex_of<T>{1 - z.re, -z.im});
  const complex_of<T> b = math_sqrt(complex_of<T>{1 + z.re, z.im});
  return complex_of<T>{math_atan2(z.re, a.re * b.re - a.im * b.im),
                       math_copysign(math_asinh(a.re * b.im - a.im * b.re), z.im)};
}

template <class T> DEVICE complex_of<T> math_acos(complex_of<T> z) {
  if (z.re == 0 && is_nan(z.im)) return complex_of<T>{PI<T> / 2, z.im};
  if (is_large(z)) {
    return complex_of<T>{math_atan2(math_abs(z.im), z.re),
                         -math_copysign(log_size(z.re, z.im) + LN2<T>, z.im)};
  }
  const complex_of<T> a = math_sqrt(complex_of<T>{1 - z.re, -z.im});
  const complex_of<T> b = math_sqrt(complex_of<T>{1 + z.re, z.im});
  return complex_of<T>{2 * math_atan2(a.re, b.re),
                       -math_copysign(math_asinh(b.re * a.im - b.im * a.re), z.im)};
}

template <class T> DEVICE complex_of<T> math_acosh(complex_of<T> z) {
  const complex_of<T> w = math_acos(z);  // is -i or i times the result
  return has_sign(z.im) ? over_i(w) : times_i(w);
}

template <class T> DEVICE complex_of<T> math_atanh(complex_of<T> z) {
  const T x = math_abs(z.re), y = z.im;
  if (is_nan(y) || (is_nan(x) && is_finite(y))) {
    return complex_of<T>{x == 0 || is_infinite(x) ? math_copysign((T)0, z.re) : x + y, x + y};
  }
  if (is_large(z)) {
    const T size = math_hypot(x, y);  // the result tends to 1/z and half a turn
    return complex_of<T>{math_copysign(is_finite(size) ? x / size / size : (T)0, z.re),
                         math_copysign(PI<T> / 2, y)};
  }
  const T near = (1 - x) * (1 - x) + y * y;
  return complex_of<T>{math_copysign(math_log1p(4 * x / near) / 4, z.re),
                       math_atan2(2 * y, (1 - x) * (1 + x) - y * y) / 2};
}

template <class T> DEVICE complex_of<T> math_asinh(complex_of<T> z) {
  return over_i(math_asin(times_i(z)));
}

template <class T> DEVICE complex_of<T> math_atan(complex_of<T> z) {
  return over_i(math_atanh(times_i(z)));
}

template <class T> DEVICE T logistic(T x) {
  if constexpr (is_complex<T>) {
    return one_over(plus(T{1, 0}, math_exp(negative(x))));
  } else {
    return 1 / (1 + math_exp(-x));
  }
}

#endif
