// The functions of CUDA's 16-bit headers other than arithmetic: comparisons and math of pairs,
// saturation, and conversions in each rounding mode. See half_types.h.
#pragma once
#include "half_types.h"

namespace gputensor_half {

enum direction { TO_ZERO, DOWN, UP };

// Return the bits of the 16-bit float next to x in the rounding direction. `near` are the bits of
// the nearest float, whose value is `back`. The bits of each sign grow with the magnitude.
GPUTENSOR_HALF_FUNCTION unsigned short directed(unsigned short near, float back, float x,
                                                direction to) {
  if (x != x || back == x) return near;
  const bool too_high = back > x, negative = x < 0;
  if (to == TO_ZERO ? too_high != negative : too_high == (to == DOWN)) {
    const bool shrinks = too_high != negative;
    if ((near & 0x7fff) == 0) return (unsigned short)(too_high ? 0x8001 : 1);
    return (unsigned short)(shrinks ? near - 1 : near + 1);
  }
  return near;
}

GPUTENSOR_HALF_FUNCTION float clamped(float v) { return v > 0 ? (v < 1 ? v : 1.0f) : 0.0f; }
GPUTENSOR_HALF_FUNCTION float positive(float v) { return v > 0 || v != v ? v : 0.0f; }
GPUTENSOR_HALF_FUNCTION float to_short(int v) {
  return (float)(v < -32768 ? -32768 : v > 32767 ? 32767 : v);
}
GPUTENSOR_HALF_FUNCTION float to_ushort(int v) {
  return (float)(v < 0 ? 0 : v > 65535 ? 65535 : v);
}

}  // namespace gputensor_half

// A comparison, ordered and unordered: of one value, of both values of a pair, as 1 and 0, and as a
// mask.
#define GPUTENSOR_HALF_COMPARISON(H, H2, name, holds)                                              \
  GPUTENSOR_HALF_FUNCTION bool __h##name##u(H a, H b) {                                            \
    const float x = a, y = b;                                                                      \
    return x != x || y != y || (holds);                                                            \
  }                                                                                                \
  GPUTENSOR_HALF_FUNCTION H2 __h##name##2(H2 a, H2 b) {                                            \
    return H2(H(__h##name(a.x, b.x) ? 1.0f : 0.0f), H(__h##name(a.y, b.y) ? 1.0f : 0.0f));         \
  }                                                                                                \
  GPUTENSOR_HALF_FUNCTION H2 __h##name##u2(H2 a, H2 b) {                                           \
    return H2(H(__h##name##u(a.x, b.x) ? 1.0f : 0.0f), H(__h##name##u(a.y, b.y) ? 1.0f : 0.0f));   \
  }                                                                                                \
  GPUTENSOR_HALF_FUNCTION unsigned __h##name##2_mask(H2 a, H2 b) {                                 \
    return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u);        \
  }                                                                                                \
  GPUTENSOR_HALF_FUNCTION bool __hb##name##2(H2 a, H2 b) {                                         \
    return __h##name(a.x, b.x) && __h##name(a.y, b.y);                                             \
  }                                                                                                \
  GPUTENSOR_HALF_FUNCTION bool __hb##name##u2(H2 a, H2 b) {                                        \
    return __h##name##u(a.x, b.x) && __h##name##u(a.y, b.y);                                       \
  }

#define GPUTENSOR_HALF_PAIR1(H2, pair, single) \
  GPUTENSOR_HALF_FUNCTION H2 pair(H2 a) { return H2(single(a.x), single(a.y)); }
#define GPUTENSOR_HALF_PAIR2(H2, pair, single) \
  GPUTENSOR_HALF_FUNCTION H2 pair(H2 a, H2 b) { return H2(single(a.x, b.x), single(a.y, b.y)); }
#define GPUTENSOR_HALF_PAIR3(H2, pair, single)                                                     \
  GPUTENSOR_HALF_FUNCTION H2 pair(H2 a, H2 b, H2 c) {                                              \
    return H2(single(a.x, b.x, c.x), single(a.y, b.y, c.y));                                       \
  }
// An operation under its own name, with _rn, which forbids contraction, and with _sat, which clamps
// to [0, 1].
#define GPUTENSOR_HALF_ROUNDED(H, H2, name)                                                        \
  GPUTENSOR_HALF_FUNCTION H __h##name##_rn(H a, H b) { return __h##name(a, b); }                   \
  GPUTENSOR_HALF_FUNCTION H __h##name##_sat(H a, H b) {                                            \
    return H(gputensor_half::clamped((float)__h##name(a, b)));                                     \
  }                                                                                                \
  GPUTENSOR_HALF_PAIR2(H2, __h##name##2_rn, __h##name)                                             \
  GPUTENSOR_HALF_PAIR2(H2, __h##name##2_sat, __h##name##_sat)
#define GPUTENSOR_HALF_MATH(H, H2, name, function)                                                 \
  GPUTENSOR_HALF_FUNCTION H h##name(H a) { return H(function((float)a)); }                         \
  GPUTENSOR_HALF_PAIR1(H2, h2##name, h##name)

// Conversions to and from an integer. `word` is the name of the integer type in CUDA's functions.
#define GPUTENSOR_HALF_INTEGER(H, half, I, word, RN, RZ, RD, RU)                                   \
  GPUTENSOR_HALF_FUNCTION I __##half##2##word##_rn(H h) { return (I)RN; }                          \
  GPUTENSOR_HALF_FUNCTION I __##half##2##word##_rz(H h) { return (I)RZ; }                          \
  GPUTENSOR_HALF_FUNCTION I __##half##2##word##_rd(H h) { return (I)RD; }                          \
  GPUTENSOR_HALF_FUNCTION I __##half##2##word##_ru(H h) { return (I)RU; }                          \
  GPUTENSOR_HALF_FUNCTION H __##word##2##half##_rn(I v) { return H((double)v); }                   \
  GPUTENSOR_HALF_FUNCTION H __##word##2##half##_rz(I v) { return __float2##half##_rz((float)v); }  \
  GPUTENSOR_HALF_FUNCTION H __##word##2##half##_rd(I v) { return __float2##half##_rd((float)v); }  \
  GPUTENSOR_HALF_FUNCTION H __##word##2##half##_ru(I v) { return __float2##half##_ru((float)v); }
#define GPUTENSOR_HALF_BY(H, half, I, word, convert)                                               \
  GPUTENSOR_HALF_INTEGER(H, half, I, word, convert##_rn((float)h), convert##_rz((float)h),         \
                         convert##_rd((float)h), convert##_ru((float)h))
#define GPUTENSOR_HALF_BY_INT(H, half, I, word, clamp)                                             \
  GPUTENSOR_HALF_INTEGER(H, half, I, word, gputensor_half::clamp(__float2int_rn((float)h)),        \
                         gputensor_half::clamp(__float2int_rz((float)h)),                          \
                         gputensor_half::clamp(__float2int_rd((float)h)),                          \
                         gputensor_half::clamp(__float2int_ru((float)h)))
#define GPUTENSOR_HALF_DIRECTED(H, RAW, half, suffix, OF, TO, to)                                  \
  GPUTENSOR_HALF_FUNCTION H __float2##half##_##suffix(float x) {                                   \
    const unsigned short near = gputensor_half::OF(x);                                             \
    return H(RAW{gputensor_half::directed(near, gputensor_half::TO(near), x, gputensor_half::to)});\
  }

// half: the name of the type in conversions.
#define GPUTENSOR_HALF_FUNCTIONS(H, H2, RAW, half, OF, TO)                                         \
  GPUTENSOR_HALF_COMPARISON(H, H2, eq, x == y) GPUTENSOR_HALF_COMPARISON(H, H2, ne, x != y)        \
  GPUTENSOR_HALF_COMPARISON(H, H2, lt, x < y) GPUTENSOR_HALF_COMPARISON(H, H2, le, x <= y)         \
  GPUTENSOR_HALF_COMPARISON(H, H2, gt, x > y) GPUTENSOR_HALF_COMPARISON(H, H2, ge, x >= y)         \
  GPUTENSOR_HALF_FUNCTION bool operator==(H2 a, H2 b) { return __hbeq2(a, b); }                    \
  GPUTENSOR_HALF_FUNCTION bool operator!=(H2 a, H2 b) { return __hbneu2(a, b); }                   \
  GPUTENSOR_HALF_FUNCTION H2 operator-(H2 a) { return H2(-a.x, -a.y); }                            \
  GPUTENSOR_HALF_FUNCTION H2 operator+(H2 a) { return a; }                                         \
  GPUTENSOR_HALF_FUNCTION H& operator++(H& a) { return a += H(1.0f); }                             \
  GPUTENSOR_HALF_FUNCTION H& operator--(H& a) { return a -= H(1.0f); }                             \
  GPUTENSOR_HALF_FUNCTION H operator++(H& a, int) { const H old = a; ++a; return old; }            \
  GPUTENSOR_HALF_FUNCTION H operator--(H& a, int) { const H old = a; --a; return old; }            \
  GPUTENSOR_HALF_ROUNDED(H, H2, add) GPUTENSOR_HALF_ROUNDED(H, H2, sub)                            \
  GPUTENSOR_HALF_ROUNDED(H, H2, mul)                                                               \
  GPUTENSOR_HALF_FUNCTION H __hfma_sat(H a, H b, H c) {                                            \
    return H(gputensor_half::clamped((float)__hfma(a, b, c)));                                     \
  }                                                                                                \
  GPUTENSOR_HALF_FUNCTION H __hfma_relu(H a, H b, H c) {                                           \
    return H(gputensor_half::positive((float)__hfma(a, b, c)));                                    \
  }                                                                                                \
  GPUTENSOR_HALF_PAIR3(H2, __hfma2_sat, __hfma_sat)                                                \
  GPUTENSOR_HALF_PAIR3(H2, __hfma2_relu, __hfma_relu)                                              \
  GPUTENSOR_HALF_FUNCTION H __hmax_nan(H a, H b) {                                                 \
    return __hisnan(a) || __hisnan(b) ? H(RAW{0x7fff}) : __hmax(a, b);                             \
  }                                                                                                \
  GPUTENSOR_HALF_FUNCTION H __hmin_nan(H a, H b) {                                                 \
    return __hisnan(a) || __hisnan(b) ? H(RAW{0x7fff}) : __hmin(a, b);                             \
  }                                                                                                \
  GPUTENSOR_HALF_PAIR2(H2, __hmax2, __hmax) GPUTENSOR_HALF_PAIR2(H2, __hmin2, __hmin)              \
  GPUTENSOR_HALF_PAIR2(H2, __hmax2_nan, __hmax_nan)\
  GPUTENSOR_HALF_PAIR2(H2, __hmin2_nan, __hmin_nan)\
  GPUTENSOR_HALF_PAIR1(H2, __habs2, __habs) GPUTENSOR_HALF_PAIR1(H2, __hneg2, __hneg)              \
  GPUTENSOR_HALF_FUNCTION H2 __hisnan2(H2 a) { return __hneu2(a, a); }                             \
  GPUTENSOR_HALF_FUNCTION H2 __lowhigh2highlow(H2 a) { return H2(a.y, a.x); }                      \
  GPUTENSOR_HALF_PAIR1(H2, h2sqrt, hsqrt) GPUTENSOR_HALF_PAIR1(H2, h2rsqrt, hrsqrt)                \
  GPUTENSOR_HALF_PAIR1(H2, h2rcp, hrcp) GPUTENSOR_HALF_PAIR1(H2, h2exp, hexp)                      \
  GPUTENSOR_HALF_PAIR1(H2, h2exp2, hexp2) GPUTENSOR_HALF_PAIR1(H2, h2log, hlog)                    \
  GPUTENSOR_HALF_PAIR1(H2, h2log2, hlog2) GPUTENSOR_HALF_PAIR1(H2, h2sin, hsin)                    \
  GPUTENSOR_HALF_PAIR1(H2, h2cos, hcos) GPUTENSOR_HALF_PAIR1(H2, h2floor, hfloor)                  \
  GPUTENSOR_HALF_PAIR1(H2, h2ceil, hceil) GPUTENSOR_HALF_PAIR1(H2, h2trunc, htrunc)                \
  GPUTENSOR_HALF_PAIR1(H2, h2rint, hrint)                                                          \
  GPUTENSOR_HALF_MATH(H, H2, exp10, exp10f) GPUTENSOR_HALF_MATH(H, H2, log10, log10f)              \
  GPUTENSOR_HALF_MATH(H, H2, tanh, tanhf)                                                          \
  GPUTENSOR_HALF_DIRECTED(H, RAW, half, rz, OF, TO, TO_ZERO)                                       \
  GPUTENSOR_HALF_DIRECTED(H, RAW, half, rd, OF, TO, DOWN)                                          \
  GPUTENSOR_HALF_DIRECTED(H, RAW, half, ru, OF, TO, UP)                                            \
  GPUTENSOR_HALF_BY(H, half, int, int, __float2int)                                                \
  GPUTENSOR_HALF_BY(H, half, unsigned, uint, __float2uint)                                         \
  GPUTENSOR_HALF_BY(H, half, long long, ll, __float2ll)                                            \
  GPUTENSOR_HALF_BY(H, half, unsigned long long, ull, __float2ull)                                 \
  GPUTENSOR_HALF_BY_INT(H, half, short, short, to_short)                                           \
  GPUTENSOR_HALF_BY_INT(H, half, unsigned short, ushort, to_ushort)
