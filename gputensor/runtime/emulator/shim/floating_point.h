// Floating-point functions of CUDA C, computed by libm, so the last bits may differ from libdevice.
// Part of cuda_on_cpu.h.
#pragma once

#ifndef INFINITY
#define INFINITY __builtin_huge_valf()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif
#define GPUTENSOR_MATH1(name)                                                                      \
  extern "C" double name(double) noexcept;                                                         \
  extern "C" float name##f(float) noexcept;                                                        \
  inline float name(float x) { return name##f(x); }
#define GPUTENSOR_MATH2(name)                                                                      \
  extern "C" double name(double, double) noexcept;                                                 \
  extern "C" float name##f(float, float) noexcept;                                                 \
  inline float name(float x, float y) { return name##f(x, y); }
GPUTENSOR_MATH1(sqrt) GPUTENSOR_MATH1(cbrt) GPUTENSOR_MATH1(exp) GPUTENSOR_MATH1(exp2)
GPUTENSOR_MATH1(exp10) GPUTENSOR_MATH1(expm1) GPUTENSOR_MATH1(log) GPUTENSOR_MATH1(log2)
GPUTENSOR_MATH1(log10) GPUTENSOR_MATH1(log1p) GPUTENSOR_MATH1(sin) GPUTENSOR_MATH1(cos)
GPUTENSOR_MATH1(tan) GPUTENSOR_MATH1(asin) GPUTENSOR_MATH1(acos) GPUTENSOR_MATH1(atan)
GPUTENSOR_MATH1(sinh) GPUTENSOR_MATH1(cosh) GPUTENSOR_MATH1(tanh) GPUTENSOR_MATH1(asinh)
GPUTENSOR_MATH1(acosh) GPUTENSOR_MATH1(atanh) GPUTENSOR_MATH1(erf) GPUTENSOR_MATH1(erfc)
GPUTENSOR_MATH1(tgamma) GPUTENSOR_MATH1(lgamma) GPUTENSOR_MATH1(floor) GPUTENSOR_MATH1(ceil)
GPUTENSOR_MATH1(trunc) GPUTENSOR_MATH1(round) GPUTENSOR_MATH1(rint) GPUTENSOR_MATH1(nearbyint)
GPUTENSOR_MATH1(fabs) GPUTENSOR_MATH1(logb) GPUTENSOR_MATH1(j0) GPUTENSOR_MATH1(j1)
GPUTENSOR_MATH1(y0) GPUTENSOR_MATH1(y1)
GPUTENSOR_MATH2(pow) GPUTENSOR_MATH2(atan2) GPUTENSOR_MATH2(fmod) GPUTENSOR_MATH2(remainder)
GPUTENSOR_MATH2(hypot) GPUTENSOR_MATH2(fmin) GPUTENSOR_MATH2(fmax) GPUTENSOR_MATH2(fdim)
GPUTENSOR_MATH2(copysign) GPUTENSOR_MATH2(nextafter)
extern "C" {
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double ldexp(double, int) noexcept;
float ldexpf(float, int) noexcept;
double frexp(double, int*) noexcept;
float frexpf(float, int*) noexcept;
double modf(double, double*) noexcept;
float modff(float, float*) noexcept;
void sincos(double, double*, double*) noexcept;
void sincosf(float, float*, float*) noexcept;
int abs(int) noexcept;
}
inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
inline float ldexp(float x, int n) { return ldexpf(x, n); }
inline float frexp(float x, int* n) { return frexpf(x, n); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline long long llabs(long long x) { return x < 0 ? -x : x; }
inline long long abs(long long x) { return llabs(x); }
inline long abs(long x) { return x < 0 ? -x : x; }
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }
#undef isnan
#undef isinf
#undef isfinite
#undef signbit
#define GPUTENSOR_CLASSIFY(T)                                                                      \
  inline bool isnan(T x) { return __builtin_isnan(x); }                                            \
  inline bool isinf(T x) { return __builtin_isinf(x); }                                            \
  inline bool isfinite(T x) { return __builtin_isfinite(x); }                                      \
  inline bool signbit(T x) { return __builtin_signbit(x); }
GPUTENSOR_CLASSIFY(float) GPUTENSOR_CLASSIFY(double)
#define GPUTENSOR_MINMAX(T)                                                                        \
  inline T min(T a, T b) { return b < a ? b : a; }                                                 \
  inline T max(T a, T b) { return a < b ? b : a; }
GPUTENSOR_MINMAX(int) GPUTENSOR_MINMAX(unsigned) GPUTENSOR_MINMAX(long)
GPUTENSOR_MINMAX(unsigned long) GPUTENSOR_MINMAX(long long) GPUTENSOR_MINMAX(unsigned long long)
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

#define GPUTENSOR_ROUNDED(prefix, T, fma_function, sqrt_function)                                  \
  inline T prefix##add_rn(T a, T b) { return a + b; }                                              \
  inline T prefix##sub_rn(T a, T b) { return a - b; }                                              \
  inline T prefix##mul_rn(T a, T b) { return a * b; }                                              \
  inline T prefix##div_rn(T a, T b) { return a / b; }                                              \
  inline T prefix##rcp_rn(T a) { return T(1) / a; }                                                \
  inline T prefix##sqrt_rn(T a) { return sqrt_function(a); }
GPUTENSOR_ROUNDED(__f, float, fmaf, sqrtf)
GPUTENSOR_ROUNDED(__d, double, fma, sqrt)
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }

// Float to integer as in hardware: saturating; NaN becomes 0 (the minimum for 64 bits).
namespace gputensor {
template <class To, class From>
inline To saturate(From x, To low, To high, To if_nan) {
  if (x != x) return if_nan;
  if (x <= (From)low) return low;
  if (x >= (From)high) return high;
  return (To)x;
}
}  // namespace gputensor
#define GPUTENSOR_TO_INTEGERS(T, prefix, round_rn, floor_, ceil_, trunc_)                          \
  GPUTENSOR_TO_INTEGER(T, prefix##2int, int, -0x7fffffff - 1, 0x7fffffff, 0, round_rn, floor_,     \
                       ceil_, trunc_)                                                              \
  GPUTENSOR_TO_INTEGER(T, prefix##2uint, unsigned, 0u, 0xffffffffu, 0u, round_rn, floor_, ceil_,   \
                       trunc_)                                                                     \
  GPUTENSOR_TO_INTEGER(T, prefix##2ll, long long, -0x7fffffffffffffffll - 1, 0x7fffffffffffffffll, \
                       -0x7fffffffffffffffll - 1, round_rn, floor_, ceil_, trunc_)                 \
  GPUTENSOR_TO_INTEGER(T, prefix##2ull, unsigned long long, 0ull, 0xffffffffffffffffull,           \
                       0x8000000000000000ull, round_rn, floor_, ceil_, trunc_)
#define GPUTENSOR_TO_INTEGER(T, name, I, low, high, nan, rn, rd, ru, rz)                           \
  inline I name##_rn(T x) { return gputensor::saturate<I>(rn(x), low, high, nan); }                \
  inline I name##_rd(T x) { return gputensor::saturate<I>(rd(x), low, high, nan); }                \
  inline I name##_ru(T x) { return gputensor::saturate<I>(ru(x), low, high, nan); }                \
  inline I name##_rz(T x) { return gputensor::saturate<I>(rz(x), low, high, nan); }
GPUTENSOR_TO_INTEGERS(float, __float, rintf, floorf, ceilf, truncf)
GPUTENSOR_TO_INTEGERS(double, __double, rint, floor, ceil, trunc)
inline float __int2float_rn(int x) { return (float)x; }
inline float __uint2float_rn(unsigned x) { return (float)x; }
inline float __ll2float_rn(long long x) { return (float)x; }
inline float __ull2float_rn(unsigned long long x) { return (float)x; }
inline double __int2double_rn(int x) { return x; }
inline double __ll2double_rn(long long x) { return (double)x; }
inline double __ull2double_rn(unsigned long long x) { return (double)x; }
inline float __double2float_rn(double x) { return (float)x; }
