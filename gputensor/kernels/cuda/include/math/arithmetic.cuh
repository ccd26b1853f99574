// Arithmetic with one definition for all arithmetic types and devices. Integers wrap around,
// complex products and quotients follow NumPy's formulas, and names of C library functions do not
// depend on the width.
#ifndef GPUTENSOR_ARITHMETIC
#define GPUTENSOR_ARITHMETIC

#include "types.cuh"

// Note [Sums of products]
// If a product is added in one lane and subtracted in the next one, g++ 12 emits vfmaddsub, even
// with -ffp-contract=off. Then the bits would depend on how a loop is vectorised. So each part of a
// complex number is computed as a sum, if necessary of a negated product, which equals the
// difference exactly; or the product is hidden from the compiler. A test searches for vfmaddsub.
template <class T> DEVICE T unseen(T product) {
#if defined(GPUTENSOR_LOOPS) && defined(__x86_64__)
  asm("" : "+x"(product));
#endif
  return product;
}

template <class T> DEVICE T plus(T a, T b) {
  if constexpr (is_complex<T>) {
    return T{a.re + b.re, a.im + b.im};
  } else {
    // signed overflow is undefined in C++, but integers must wrap around
    typedef typename unsigned_of<T>::type U;
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
    return T{a.re * b.re + -a.im * b.im, a.re * b.im + a.im * b.re};  // Note [Sums of products]
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

// Defines math_NAME for f32 and f64 by the C library's function. A GPU has its own.
#define GPUTENSOR_C_FUNCTION(name)                     \
  DEVICE f32 math_##name(f32 x) { return name##f(x); } \
  DEVICE f64 math_##name(f64 x) { return name(x); }
#define GPUTENSOR_C_FUNCTION_OF_TWO(name)                            \
  DEVICE f32 math_##name(f32 x, f32 y) { return name##f(x, y); } \
  DEVICE f64 math_##name(f64 x, f64 y) { return name(x, y); }

// Defines math_NAME by the C library's function, or in the CPU library by a function that
// vectorises.
#ifdef GPUTENSOR_LOOPS
// The space keeps module.py from inlining the header into every text.
# include "math/elementary.cuh"
#define GPUTENSOR_FUNCTION(name)                                   \
  DEVICE f32 math_##name(f32 x) { return elementary::name(x); } \
  DEVICE f64 math_##name(f64 x) { return elementary::name(x); }
#define GPUTENSOR_FUNCTION_OF_TWO(name)                                        \
  DEVICE f32 math_##name(f32 x, f32 y) { return elementary::name(x, y); } \
  DEVICE f64 math_##name(f64 x, f64 y) { return elementary::name(x, y); }
#else
#define GPUTENSOR_FUNCTION GPUTENSOR_C_FUNCTION
#define GPUTENSOR_FUNCTION_OF_TWO GPUTENSOR_C_FUNCTION_OF_TWO
#endif

GPUTENSOR_FUNCTION(exp)
GPUTENSOR_FUNCTION(log)
GPUTENSOR_C_FUNCTION(floor)
GPUTENSOR_C_FUNCTION(sqrt)
GPUTENSOR_C_FUNCTION(trunc)
GPUTENSOR_C_FUNCTION_OF_TWO(copysign)
GPUTENSOR_FUNCTION_OF_TWO(hypot)
DEVICE f32 math_abs(f32 x) { return fabsf(x); }
DEVICE f64 math_abs(f64 x) { return fabs(x); }
DEVICE f32 math_fma(f32 x, f32 y, f32 z) { return fmaf(x, y, z); }
DEVICE f64 math_fma(f64 x, f64 y, f64 z) { return fma(x, y, z); }

// near_NAME(x) equals math_NAME(x) unless is_far_angle(x), and it vectorises. A GPU does not need
// it. See Note [Rare elements] in elementary.cuh.
#ifdef GPUTENSOR_LOOPS
DEVICE f32 math_fmod(f32 x, f32 y) {
  return elementary::is_far_quotient(x, y) ? fmodf(x, y) : elementary::fmod(x, y);
}
DEVICE f64 math_fmod(f64 x, f64 y) {
  return elementary::is_far_quotient(x, y) ? fmod(x, y) : elementary::fmod(x, y);
}
template <class T> DEVICE bool is_far_angle(T x) { return elementary::is_far_angle(x); }
// Far angles of f32 are computed in f64, because tanf of some C libraries has errors above 1 ulp
// for them.
#define GPUTENSOR_ANGLE_FUNCTION(name)                                                           \
  DEVICE f32 near_##name(f32 x) { return elementary::name(x); }                                  \
  DEVICE f64 near_##name(f64 x) { return elementary::name(x); }                                  \
  DEVICE f32 math_##name(f32 x) { return is_far_angle(x) ? (f32)name((f64)x) : near_##name(x); } \
  DEVICE f64 math_##name(f64 x) { return is_far_angle(x) ? name(x) : near_##name(x); }
#else
template <class T> DEVICE bool is_far_angle(T) { return false; }
GPUTENSOR_C_FUNCTION_OF_TWO(fmod)
#define GPUTENSOR_ANGLE_FUNCTION(name)                         \
  GPUTENSOR_C_FUNCTION(name)                                   \
  DEVICE f32 near_##name(f32 x) { return math_##name(x); } \
  DEVICE f64 near_##name(f64 x) { return math_##name(x); }
#endif
GPUTENSOR_ANGLE_FUNCTION(cos)
GPUTENSOR_ANGLE_FUNCTION(sin)

// Smith's quotient. Source: numpy/_core/src/umath/loops.c.src, divide of complex types.
template <class T> DEVICE complex_of<T> quotient(complex_of<T> a, complex_of<T> b) {
  const T re_size = math_abs(b.re), im_size = math_abs(b.im);
  if (re_size >= im_size) {
    if (re_size == 0 && im_size == 0) return complex_of<T>{a.re / re_size, a.im / im_size};
    const T ratio = b.im / b.re, scale = (T)1 / (b.re + b.im * ratio);
    return complex_of<T>{(a.re + a.im * ratio) * scale, (a.im + -a.re * ratio) * scale};
  }
  const T ratio = b.re / b.im, scale = (T)1 / (b.im + b.re * ratio);
  return complex_of<T>{(a.re * ratio + a.im) * scale, (unseen(a.im * ratio) - a.re) * scale};
}

// The root with non-negative real part. On the branch cut it has the sign of the imaginary part.
template <class T> DEVICE complex_of<T> math_sqrt(complex_of<T> z) {
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
