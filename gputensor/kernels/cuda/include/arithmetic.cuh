// Arithmetic that means the same for every arithmetic type and on every device: integers wrap,
// complex products and quotients follow NumPy's formulas, and the names of the C library's
// functions do not depend on the width.
#ifndef GPUTENSOR_ARITHMETIC
#define GPUTENSOR_ARITHMETIC

#include "types.cuh"

template <class T> DEVICE T plus(T a, T b) {
  if constexpr (is_complex<T>) {
    return T{a.re + b.re, a.im + b.im};
  } else {
    typedef typename unsigned_of<T>::type U;  // signed overflow is undefined, wrapping is promised
    return (T)((U)a + (U)b);
  }
}

template <class T> DEVICE T minus(T a, T b) {
  if constexpr (is_complex<T>) {
    return T{a.re - b.re, a.im - b.im};
  } else {
    typedef typename unsigned_of<T>::type U;
    return (T)((U)a - (U)b);
  }
}

template <class T> DEVICE T times(T a, T b) {
  if constexpr (is_complex<T>) {
    return T{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  } else {
    typedef typename unsigned_of<T>::type U;
    return (T)((U)a * (U)b);
  }
}

template <class T> DEVICE T negative(T x) {
  if constexpr (is_complex<T>) {
    return T{-x.re, -x.im};
  } else if constexpr (is_integer<T>) {
    return minus((T)0, x);
  } else {
    return -x;
  }
}

template <class T> DEVICE bool equal(T a, T b) {
  if constexpr (is_complex<T>) {
    return a.re == b.re && a.im == b.im;
  } else {
    return a == b;
  }
}

template <class T> DEVICE bool is_nan(T x) {
  if constexpr (is_complex<T>) {
    return x.re != x.re || x.im != x.im;
  } else {
    return x != x;
  }
}

template <class T> DEVICE bool nonzero(T x) {
  if constexpr (is_complex<T>) {
    return x.re != 0 || x.im != 0;
  } else {
    return x != 0;
  }
}

DEVICE f32 math_exp(f32 x) { return expf(x); }
DEVICE f64 math_exp(f64 x) { return exp(x); }
DEVICE f32 math_sin(f32 x) { return sinf(x); }
DEVICE f64 math_sin(f64 x) { return sin(x); }
DEVICE f32 math_cos(f32 x) { return cosf(x); }
DEVICE f64 math_cos(f64 x) { return cos(x); }
DEVICE f32 math_hypot(f32 x, f32 y) { return hypotf(x, y); }
DEVICE f64 math_hypot(f64 x, f64 y) { return hypot(x, y); }
DEVICE f32 math_fmod(f32 x, f32 y) { return fmodf(x, y); }
DEVICE f64 math_fmod(f64 x, f64 y) { return fmod(x, y); }
DEVICE f32 math_sqrt(f32 x) { return sqrtf(x); }
DEVICE f64 math_sqrt(f64 x) { return sqrt(x); }
DEVICE f32 math_log(f32 x) { return logf(x); }
DEVICE f64 math_log(f64 x) { return log(x); }
DEVICE f32 math_floor(f32 x) { return floorf(x); }
DEVICE f64 math_floor(f64 x) { return floor(x); }
DEVICE f32 math_trunc(f32 x) { return truncf(x); }
DEVICE f64 math_trunc(f64 x) { return trunc(x); }
DEVICE f32 math_abs(f32 x) { return fabsf(x); }
DEVICE f64 math_abs(f64 x) { return fabs(x); }
DEVICE f32 math_copysign(f32 x, f32 y) { return copysignf(x, y); }
DEVICE f64 math_copysign(f64 x, f64 y) { return copysign(x, y); }
DEVICE f32 math_fma(f32 x, f32 y, f32 z) { return fmaf(x, y, z); }
DEVICE f64 math_fma(f64 x, f64 y, f64 z) { return fma(x, y, z); }

// Smith's quotient. Source: numpy/_core/src/umath/loops.c.src, divide of complex types.
template <class T> DEVICE complex_of<T> quotient(complex_of<T> a, complex_of<T> b) {
  const T re_size = math_abs(b.re), im_size = math_abs(b.im);
  if (re_size >= im_size) {
    if (re_size == 0 && im_size == 0) return complex_of<T>{a.re / re_size, a.im / im_size};
    const T ratio = b.im / b.re, scale = (T)1 / (b.re + b.im * ratio);
    return complex_of<T>{(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
  }
  const T ratio = b.re / b.im, scale = (T)1 / (b.im + b.re * ratio);
  return complex_of<T>{(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}

// The root with non-negative real part; on the branch cut it has the sign of the imaginary part.
template <class T> DEVICE complex_of<T> complex_root(complex_of<T> z) {
  if (z.re == 0 && z.im == 0) return complex_of<T>{0, z.im};
  if (z.im - z.im != 0 && z.im == z.im) return complex_of<T>{math_abs(z.im), z.im};
  if (z.re != z.re) return complex_of<T>{z.re, z.re};
  if (z.re - z.re != 0) {
    const T zero_or_nan = z.im - z.im;
    if (z.re > 0)
      return complex_of<T>{z.re, z.im == z.im ? math_copysign((T)0, z.im) : zero_or_nan};
    return complex_of<T>{z.im == z.im ? (T)0 : zero_or_nan, math_copysign(math_abs(z.re), z.im)};
  }
  // Scaled by a power of four, so that the modulus neither overflows nor loses bits.
  const T size = math_abs(z.re) > math_abs(z.im) ? math_abs(z.re) : math_abs(z.im);
  const bool is_tiny = size < (T)1e-30;
  const T scale = is_tiny ? (T)1.329227995784916e36 : (T)0.25;  // 2^120
  const T back = is_tiny ? (T)8.673617379884035e-19 : (T)2;     // 2^-60
  const T re = z.re * scale, im = z.im * scale;
  const T root = math_sqrt((math_abs(re) + math_hypot(re, im)) / 2);
  if (z.re >= 0) return complex_of<T>{root * back, im / root / 2 * back};
  return complex_of<T>{math_abs(im) / root / 2 * back, math_copysign(root * back, z.im)};
}

template <class T> DEVICE T ratio(T a, T b) {
  if constexpr (is_complex<T>) {
    return quotient(a, b);
  } else {
    return a / b;
  }
}

#endif
