// Functions of CUDA C for users' kernels only. They are computed by libm if it has them, otherwise
// in double, so the last bits may differ from libdevice.
#pragma once

// --- math ----------------------------------------------------------------------------------------

#define GPUTENSOR_ROUND_TO(T, name)                                                                \
  extern "C" T name(double) noexcept;                                                              \
  extern "C" T name##f(float) noexcept;                                                            \
  inline T name(float x) { return name##f(x); }
GPUTENSOR_ROUND_TO(long, lrint) GPUTENSOR_ROUND_TO(long long, llrint)
GPUTENSOR_ROUND_TO(long, lround) GPUTENSOR_ROUND_TO(long long, llround)
GPUTENSOR_ROUND_TO(int, ilogb)
extern "C" {
double scalbn(double, int) noexcept;
float scalbnf(float, int) noexcept;
double remquo(double, double, int*) noexcept;
float remquof(float, float, int*) noexcept;
double jn(int, double) noexcept;
float jnf(int, float) noexcept;
double yn(int, double) noexcept;
float ynf(int, float) noexcept;
int fesetround(int) noexcept;
}
inline float scalbn(float x, int n) { return scalbnf(x, n); }
inline float modf(float x, float* whole) { return modff(x, whole); }
inline void sincos(float x, float* s, float* c) { sincosf(x, s, c); }
inline float nanf(const char*) { return NAN; }
inline double nan(const char*) { return __builtin_nan(""); }

namespace gputensor {

// sin(pi * x) and cos(pi * x). The remainder by 2 is exact.
inline double sin_pi(double x) {
  double r = remainder(x, 2.0);
  if (r == 0.5 || r == -0.5) return r > 0 ? 1 : -1;
  if (r == 1.0 || r == -1.0 || r == 0.0) return __builtin_copysign(0.0, x);
  return sin(r * 3.14159265358979323846);
}
inline double cos_pi(double x) {
  double r = fabs(remainder(x, 2.0));
  if (r == 0.5) return 0;
  return r > 0.5 ? -cos((1.0 - r) * 3.14159265358979323846) : cos(r * 3.14159265358979323846);
}

// Halley's iteration on erfc. The second derivative is known, so three steps reach double
// precision.
inline double erfc_inverse(double y) {
  if (!(y >= 0 && y <= 2)) return __builtin_nan("");
  if (y == 0) return __builtin_huge_val();
  if (y == 2) return -__builtin_huge_val();
  if (y > 1) return -erfc_inverse(2 - y);
  const double t = sqrt(-2 * log(y / 2));
  double x = 0.70710678118654752440 *
             (t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                      (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
  for (int i = 0; i < 4; ++i) {
    const double slope = 1.12837916709551257390 * exp(-x * x);
    if (slope == 0) break;
    const double error = (erfc(x) - y) / slope;
    x += error / (1 - x * error);
  }
  return x;
}
inline double erf_inverse(double y) {
  if (fabs(y) < 0.5) {
    double x = y * 0.88622692545275801365;
    for (int i = 0; i < 5; ++i) {
      const double error = (erf(x) - y) / (1.12837916709551257390 * exp(-x * x));
      x -= error / (1 + x * error);
    }
    return x;
  }
  return y < 0 ? -erfc_inverse(1 + y) : erfc_inverse(1 - y);
}
inline double scaled_erfc(double x) {
  if (x < 25) return exp(x * x) * erfc(x);
  const double q = 1 / (x * x);  // the asymptotic series is exact to the last bit from here on
  return 0.56418958354775628695 / x * (1 - q / 2 * (1 - 3 * q / 2 * (1 - 5 * q / 2)));
}

struct rounding {  // set the processor's rounding mode for one operation
  explicit rounding(int mode) { fesetround(mode); }
  ~rounding() { fesetround(0); }
};
#if defined(__aarch64__)
enum { TO_NEAREST = 0, UP = 0x400000, DOWN = 0x800000, TO_ZERO = 0xc00000 };
#else
enum { TO_NEAREST = 0, DOWN = 0x400, UP = 0x800, TO_ZERO = 0xc00 };
#endif

}  // namespace gputensor

#define GPUTENSOR_BOTH1(name, expression)                                                          \
  inline double name(double x) { return (expression); }                                            \
  inline float name##f(float given) {                                                              \
    const double x = given;                                                                        \
    return (float)(expression);                                                                    \
  }                                                                                                \
  inline float name(float x) { return name##f(x); }
GPUTENSOR_BOTH1(sinpi, gputensor::sin_pi(x))
GPUTENSOR_BOTH1(cospi, gputensor::cos_pi(x))
GPUTENSOR_BOTH1(rcbrt, 1 / cbrt(x))
GPUTENSOR_BOTH1(erfinv, gputensor::erf_inverse(x))
GPUTENSOR_BOTH1(erfcinv, gputensor::erfc_inverse(x))
GPUTENSOR_BOTH1(erfcx, gputensor::scaled_erfc(x))
GPUTENSOR_BOTH1(normcdf, 0.5 * erfc(-x * 0.70710678118654752440))
GPUTENSOR_BOTH1(normcdfinv, -1.41421356237309504880 * gputensor::erfc_inverse(2 * x))
inline void sincospi(double x, double* s, double* c) { *s = sinpi(x), *c = cospi(x); }
inline void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
inline double rhypot(double x, double y) { return 1 / hypot(x, y); }
inline float rhypotf(float x, float y) { return (float)(1 / hypot((double)x, (double)y)); }
inline double norm3d(double x, double y, double z) { return hypot(hypot(x, y), z); }
inline float norm3df(float x, float y, float z) {
  return (float)sqrt((double)x * x + (double)y * y + (double)z * z);
}
inline double rnorm3d(double x, double y, double z) { return 1 / norm3d(x, y, z); }
inline float rnorm3df(float x, float y, float z) { return 1 / norm3df(x, y, z); }
inline double norm4d(double x, double y, double z, double w) {
  return hypot(hypot(x, y), hypot(z, w));
}
inline float norm4df(float x, float y, float z, float w) {
  return (float)sqrt((double)x * x + (double)y * y + (double)z * z + (double)w * w);
}
inline void __sincosf(float x, float* s, float* c) { sincosf(x, s, c); }
inline float __tanhf(float x) { return tanhf(x); }

#define GPUTENSOR_DIRECTED(prefix, T, suffix, mode)                                                \
  inline T prefix##add_##suffix(T a, T b) { GPUTENSOR_IN(mode, T, x + y) }                         \
  inline T prefix##sub_##suffix(T a, T b) { GPUTENSOR_IN(mode, T, x - y) }                         \
  inline T prefix##mul_##suffix(T a, T b) { GPUTENSOR_IN(mode, T, x * y) }                         \
  inline T prefix##div_##suffix(T a, T b) { GPUTENSOR_IN(mode, T, x / y) }                         \
  inline T prefix##rcp_##suffix(T b) {                                                             \
    const T a = 1;                                                                                 \
    GPUTENSOR_IN(mode, T, x / y)                                                                   \
  }                                                                                                \
  inline T prefix##sqrt_##suffix(T a) {                                                            \
    const T b = 0;                                                                                 \
    GPUTENSOR_IN(mode, T, (T)(sizeof(T) == 4 ? sqrtf((float)x) : sqrt((double)x)))                 \
  }
#define GPUTENSOR_IN(mode, T, expression)                                                          \
  volatile T x = a, y = b, result;                                                                 \
  gputensor::rounding here(gputensor::mode);                                                       \
  result = (expression);                                                                           \
  return result;
GPUTENSOR_DIRECTED(__f, float, rd, DOWN) GPUTENSOR_DIRECTED(__f, float, ru, UP)
GPUTENSOR_DIRECTED(__f, float, rz, TO_ZERO) GPUTENSOR_DIRECTED(__d, double, rd, DOWN)
GPUTENSOR_DIRECTED(__d, double, ru, UP) GPUTENSOR_DIRECTED(__d, double, rz, TO_ZERO)

// Functions for integers that compute in double, as in CUDA's headers.
#define GPUTENSOR_OF_INTEGERS(I)                                                                   \
  inline double sqrt(I x) { return sqrt((double)x); }                                              \
  inline double exp(I x) { return exp((double)x); }                                                \
  inline double log(I x) { return log((double)x); }                                                \
  inline double sin(I x) { return sin((double)x); }                                                \
  inline double cos(I x) { return cos((double)x); }                                                \
  inline double floor(I x) { return (double)x; }                                                   \
  inline double ceil(I x) { return (double)x; }                                                    \
  inline double fabs(I x) { return fabs((double)x); }                                              \
  inline double pow(I x, double y) { return pow((double)x, y); }                                   \
  inline double pow(double x, I y) { return pow(x, (double)y); }
GPUTENSOR_OF_INTEGERS(int) GPUTENSOR_OF_INTEGERS(unsigned) GPUTENSOR_OF_INTEGERS(long)
GPUTENSOR_OF_INTEGERS(unsigned long) GPUTENSOR_OF_INTEGERS(long long)
GPUTENSOR_OF_INTEGERS(unsigned long long)
inline float pow(float x, int y) { return powf(x, (float)y); }
inline double pow(int x, int y) { return pow((double)x, (double)y); }
inline double pow(float x, double y) { return pow((double)x, y); }
inline double pow(double x, float y) { return pow(x, (double)y); }
#define GPUTENSOR_MIXED(A, B, T)                                                                   \
  inline T min(A a, B b) { return min((T)a, (T)b); }                                               \
  inline T max(A a, B b) { return max((T)a, (T)b); }                                               \
  inline T min(B a, A b) { return min((T)a, (T)b); }                                               \
  inline T max(B a, A b) { return max((T)a, (T)b); }
GPUTENSOR_MIXED(int, unsigned, unsigned) GPUTENSOR_MIXED(long, unsigned long, unsigned long)
GPUTENSOR_MIXED(long long, unsigned long long, unsigned long long)
GPUTENSOR_MIXED(float, double, double) GPUTENSOR_MIXED(int, long long, long long)
inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }
inline long long llmin(long long a, long long b) { return min(a, b); }
inline long long llmax(long long a, long long b) { return max(a, b); }
inline long labs(long x) { return abs(x); }

// --- conversions ---------------------------------------------------------------------------------

inline double __uint2double_rn(unsigned x) { return x; }
inline float __double2float_rz(double x) {
  const float near = (float)x;
  return fabs((double)near) > fabs(x) ? nextafterf(near, 0.0f) : near;
}
inline float __double2float_rd(double x) {
  const float near = (float)x;
  return (double)near > x ? nextafterf(near, -INFINITY) : near;
}
inline float __double2float_ru(double x) {
  const float near = (float)x;
  return (double)near < x ? nextafterf(near, INFINITY) : near;
}
inline float __int2float_rz(int x) { return __double2float_rz(x); }
inline float __int2float_rd(int x) { return __double2float_rd(x); }
inline float __int2float_ru(int x) { return __double2float_ru(x); }
inline float __uint2float_rz(unsigned x) { return __double2float_rz(x); }

// --- integers ------------------------------------------------------------------------------------

inline unsigned __sad(int a, int b, unsigned c) {
  const long long d = (long long)a - b;
  return c + (unsigned)(d < 0 ? -d : d);
}
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a < b ? b - a : a - b); }
inline int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
inline int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
inline unsigned __uhadd(unsigned a, unsigned b) {
  return (unsigned)(((unsigned long long)a + b) >> 1);
}
inline unsigned __urhadd(unsigned a, unsigned b) {
  return (unsigned)(((unsigned long long)a + b + 1) >> 1);
}
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += (signed char)(a >> i) * (signed char)(b >> i);
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
  return c;
}
inline unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned s) {
  return s >= 32 ? lo : __funnelshift_l(lo, hi, s);
}
inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned s) {
  return s >= 32 ? hi : __funnelshift_r(lo, hi, s);
}
namespace gputensor {
template <int width, class F>
inline unsigned each_part(unsigned a, unsigned b, F f) {
  const unsigned mask = width == 8 ? 255u : 65535u;
  unsigned result = 0;
  for (int i = 0; i < 32; i += width)
    result |= ((unsigned)f(a >> i & mask, b >> i & mask) & mask) << i;
  return result;
}
}  // namespace gputensor
#define GPUTENSOR_PARTS(name, expression)                                                          \
  inline unsigned name##2(unsigned a, unsigned b) {                                                \
    return gputensor::each_part<16>(a, b, [](unsigned x, unsigned y) { return (expression); });    \
  }                                                                                                \
  inline unsigned name##4(unsigned a, unsigned b) {                                                \
    return gputensor::each_part<8>(a, b, [](unsigned x, unsigned y) { return (expression); });     \
  }
GPUTENSOR_PARTS(__vadd, x + y) GPUTENSOR_PARTS(__vsub, x - y)
GPUTENSOR_PARTS(__vminu, x < y ? x : y) GPUTENSOR_PARTS(__vmaxu, x < y ? y : x)
GPUTENSOR_PARTS(__vcmpeq, x == y ? ~0u : 0u) GPUTENSOR_PARTS(__vabsdiffu, x < y ? y - x : x - y)
GPUTENSOR_PARTS(__vavgu, (x + y + 1) >> 1)

// --- constants of math_constants.h and math.h ----------------------------------------------------

#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN
#define CUDART_PI_F 3.141592654f
#define CUDART_PIO2_F 1.570796327f
#define CUDART_2_OVER_PI_F 0.636619772f
#define CUDART_LN2_F 0.693147181f
#define CUDART_SQRT_TWO_F 1.414213562f
#define CUDART_INF __builtin_huge_val()
#define CUDART_NAN __builtin_nan("")
#define CUDART_PI 3.1415926535897931
#define CUDART_LN2 0.69314718055994529
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_LOG2E 1.4426950408889634074
#endif
#ifndef NULL
#define NULL __null
#endif
