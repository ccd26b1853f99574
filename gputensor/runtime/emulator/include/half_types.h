// Our own 16-bit floats, with the names of CUDA's cuda_fp16.h and cuda_bf16.h. For the emulator,
// and for a GPU if those headers are not installed. Each operation is computed in float and rounded
// once.
#pragma once

#ifdef GPUTENSOR_EMULATOR
#define GPUTENSOR_HALF_FUNCTION inline
#else
#define GPUTENSOR_HALF_FUNCTION __device__ __forceinline__
#endif

namespace gputensor_half {

template <class To, class From>
GPUTENSOR_HALF_FUNCTION To bits(From from) {
  union { From from; To to; } both;
  both.from = from;
  return both.to;
}

// Convert to float, rounding to odd, so that a later rounding to fewer bits gives the exactly
// rounded value.
GPUTENSOR_HALF_FUNCTION float to_odd(double x) {
  const float near = (float)x;
  const double back = near;
  unsigned u = bits<unsigned>(near);
  if (x == x && back != x && !(u & 1)) {
    const double size = x < 0 ? -x : x, back_size = back < 0 ? -back : back;
    u += back_size < size ? 1 : -1;
  }
  return bits<float>(u);
}

GPUTENSOR_HALF_FUNCTION unsigned short f16_of(float x) {
  const unsigned u = bits<unsigned>(x), sign = u >> 16 & 0x8000;
  unsigned size = u & 0x7fffffff;
  if (size > 0x7f800000) return (unsigned short)0x7fff;  // as in hardware
  if (size >= 0x477ff000) return (unsigned short)(sign | 0x7c00);
  if (size < 0x38800000)
    return (unsigned short)(sign | (bits<unsigned>(bits<float>(size) + 0.5f) - 0x3f000000));
  size += 0xfff + (size >> 13 & 1);
  return (unsigned short)(sign | ((size - 0x38000000) >> 13));
}
GPUTENSOR_HALF_FUNCTION float float_of_f16(unsigned short h) {
  const unsigned sign = (unsigned)(h & 0x8000) << 16, exponent = h >> 10 & 31, part = h & 0x3ff;
  if (exponent == 31) return bits<float>(sign | 0x7f800000 | part << 13);
  if (exponent) return bits<float>(sign | (exponent + 112) << 23 | part << 13);
  return bits<float>(sign | bits<unsigned>((float)part * 5.9604644775390625e-8f));
}
GPUTENSOR_HALF_FUNCTION unsigned short bf16_of(float x) {
  const unsigned u = bits<unsigned>(x);
  if (x != x) return (unsigned short)0x7fff;
  return (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
GPUTENSOR_HALF_FUNCTION float float_of_bf16(unsigned short b) {
  return bits<float>((unsigned)b << 16);
}

}  // namespace gputensor_half

#ifdef GPUTENSOR_EMULATOR
#define GPUTENSOR_HALF_ATOMICS(H, H2)                                                              \
  GPUTENSOR_ATOMIC(H, atomicAdd, old + v)                                                          \
  GPUTENSOR_ATOMIC(H2, atomicAdd, old + v)
#else
#define GPUTENSOR_HALF_ATOMICS(H, H2)
#endif

// H, H2: the types. RAW: the type of its bits. OF, TO: bits from and to float. The rest: function
// names.
#define GPUTENSOR_HALF_TYPE(H, H2, RAW, OF, TO, FROM_FLOAT, TO_FLOAT, FROM_DOUBLE, MAKE2, LOW2,    \
                            HIGH2, FROM_FLOATS2, FROM_FLOAT2, FROM_FLOAT22, TO_FLOAT2, BOTH2,      \
                            PAIR2)                                                                 \
  struct RAW { unsigned short x; };                                                                \
  struct H {                                                                                       \
    unsigned short __x;                                                                            \
    H() = default;                                                                                 \
    GPUTENSOR_HALF_FUNCTION H(RAW r) : __x(r.x) {}                                                 \
    GPUTENSOR_HALF_FUNCTION H(float v) : __x(gputensor_half::OF(v)) {}                             \
    GPUTENSOR_HALF_FUNCTION H(double v) : __x(gputensor_half::OF(gputensor_half::to_odd(v))) {}    \
    GPUTENSOR_HALF_FUNCTION H(int v) : H((double)v) {}                                             \
    GPUTENSOR_HALF_FUNCTION H(unsigned v) : H((double)v) {}                                        \
    GPUTENSOR_HALF_FUNCTION H(long v) : H((double)v) {}                                            \
    GPUTENSOR_HALF_FUNCTION H(unsigned long v) : H((double)v) {}                                   \
    GPUTENSOR_HALF_FUNCTION H(long long v) : H((double)v) {}                                       \
    GPUTENSOR_HALF_FUNCTION H(unsigned long long v) : H((double)v) {}                              \
    GPUTENSOR_HALF_FUNCTION operator float() const { return gputensor_half::TO(__x); }             \
    GPUTENSOR_HALF_FUNCTION operator RAW() const { return {__x}; }                                 \
    GPUTENSOR_HALF_FUNCTION H& operator+=(H b) { return *this = H((float)*this + (float)b); }      \
    GPUTENSOR_HALF_FUNCTION H& operator-=(H b) { return *this = H((float)*this - (float)b); }      \
    GPUTENSOR_HALF_FUNCTION H& operator*=(H b) { return *this = H((float)*this * (float)b); }      \
    GPUTENSOR_HALF_FUNCTION H& operator/=(H b) { return *this = H((float)*this / (float)b); }      \
  };                                                                                               \
  struct alignas(4) H2 {                                                                           \
    H x, y;                                                                                        \
    H2() = default;                                                                                \
    GPUTENSOR_HALF_FUNCTION H2(H a, H b) : x(a), y(b) {}                                           \
    GPUTENSOR_HALF_FUNCTION H2& operator+=(H2 b) { x += b.x; y += b.y; return *this; }             \
    GPUTENSOR_HALF_FUNCTION H2& operator-=(H2 b) { x -= b.x; y -= b.y; return *this; }             \
    GPUTENSOR_HALF_FUNCTION H2& operator*=(H2 b) { x *= b.x; y *= b.y; return *this; }             \
    GPUTENSOR_HALF_FUNCTION H2& operator/=(H2 b) { x /= b.x; y /= b.y; return *this; }             \
  };                                                                                               \
  GPUTENSOR_HALF_FUNCTION H operator+(H a, H b) { return a += b; }                                 \
  GPUTENSOR_HALF_FUNCTION H operator-(H a, H b) { return a -= b; }                                 \
  GPUTENSOR_HALF_FUNCTION H operator*(H a, H b) { return a *= b; }                                 \
  GPUTENSOR_HALF_FUNCTION H operator/(H a, H b) { return a /= b; }                                 \
  GPUTENSOR_HALF_FUNCTION H operator-(H a) { return H(RAW{(unsigned short)(a.__x ^ 0x8000)}); }    \
  GPUTENSOR_HALF_FUNCTION H operator+(H a) { return a; }                                           \
  GPUTENSOR_HALF_FUNCTION bool operator==(H a, H b) { return (float)a == (float)b; }               \
  GPUTENSOR_HALF_FUNCTION bool operator!=(H a, H b) { return (float)a != (float)b; }               \
  GPUTENSOR_HALF_FUNCTION bool operator<(H a, H b) { return (float)a < (float)b; }                 \
  GPUTENSOR_HALF_FUNCTION bool operator<=(H a, H b) { return (float)a <= (float)b; }               \
  GPUTENSOR_HALF_FUNCTION bool operator>(H a, H b) { return (float)a > (float)b; }                 \
  GPUTENSOR_HALF_FUNCTION bool operator>=(H a, H b) { return (float)a >= (float)b; }               \
  GPUTENSOR_HALF_FUNCTION H2 operator+(H2 a, H2 b) { return a += b; }                              \
  GPUTENSOR_HALF_FUNCTION H2 operator-(H2 a, H2 b) { return a -= b; }                              \
  GPUTENSOR_HALF_FUNCTION H2 operator*(H2 a, H2 b) { return a *= b; }                              \
  GPUTENSOR_HALF_FUNCTION H2 operator/(H2 a, H2 b) { return a /= b; }                              \
  GPUTENSOR_HALF_FUNCTION H __hadd(H a, H b) { return a + b; }                                     \
  GPUTENSOR_HALF_FUNCTION H __hsub(H a, H b) { return a - b; }                                     \
  GPUTENSOR_HALF_FUNCTION H __hmul(H a, H b) { return a * b; }                                     \
  GPUTENSOR_HALF_FUNCTION H __hdiv(H a, H b) { return a / b; }                                     \
  GPUTENSOR_HALF_FUNCTION H __hneg(H a) { return -a; }                                             \
  GPUTENSOR_HALF_FUNCTION H __habs(H a) { return H(RAW{(unsigned short)(a.__x & 0x7fff)}); }       \
  GPUTENSOR_HALF_FUNCTION H __hfma(H a, H b, H c) {                                                \
    return H((double)(float)a * (double)(float)b + (double)(float)c);                              \
  }                                                                                                \
  GPUTENSOR_HALF_FUNCTION H __hmin(H a, H b) { return H(fminf((float)a, (float)b)); }              \
  GPUTENSOR_HALF_FUNCTION H __hmax(H a, H b) { return H(fmaxf((float)a, (float)b)); }              \
  GPUTENSOR_HALF_FUNCTION bool __heq(H a, H b) { return a == b; }                                  \
  GPUTENSOR_HALF_FUNCTION bool __hne(H a, H b) { return a < b || a > b; }                          \
  GPUTENSOR_HALF_FUNCTION bool __hlt(H a, H b) { return a < b; }                                   \
  GPUTENSOR_HALF_FUNCTION bool __hle(H a, H b) { return a <= b; }                                  \
  GPUTENSOR_HALF_FUNCTION bool __hgt(H a, H b) { return a > b; }                                   \
  GPUTENSOR_HALF_FUNCTION bool __hge(H a, H b) { return a >= b; }                                  \
  GPUTENSOR_HALF_FUNCTION bool __hisnan(H a) { return (float)a != (float)a; }                      \
  GPUTENSOR_HALF_FUNCTION int __hisinf(H a) {                                                      \
    const float v = a;                                                                             \
    return v == v && v - v != 0 ? (v > 0 ? 1 : -1) : 0;                                            \
  }                                                                                                \
  GPUTENSOR_HALF_FUNCTION H hsqrt(H a) { return H(sqrtf((float)a)); }                              \
  GPUTENSOR_HALF_FUNCTION H hrsqrt(H a) { return H(1.0f / sqrtf((float)a)); }                      \
  GPUTENSOR_HALF_FUNCTION H hrcp(H a) { return H(1.0f / (float)a); }                               \
  GPUTENSOR_HALF_FUNCTION H hexp(H a) { return H(expf((float)a)); }                                \
  GPUTENSOR_HALF_FUNCTION H hexp2(H a) { return H(exp2f((float)a)); }                              \
  GPUTENSOR_HALF_FUNCTION H hlog(H a) { return H(logf((float)a)); }                                \
  GPUTENSOR_HALF_FUNCTION H hlog2(H a) { return H(log2f((float)a)); }                              \
  GPUTENSOR_HALF_FUNCTION H hsin(H a) { return H(sinf((float)a)); }                                \
  GPUTENSOR_HALF_FUNCTION H hcos(H a) { return H(cosf((float)a)); }                                \
  GPUTENSOR_HALF_FUNCTION H hfloor(H a) { return H(floorf((float)a)); }                            \
  GPUTENSOR_HALF_FUNCTION H hceil(H a) { return H(ceilf((float)a)); }                              \
  GPUTENSOR_HALF_FUNCTION H htrunc(H a) { return H(truncf((float)a)); }                            \
  GPUTENSOR_HALF_FUNCTION H hrint(H a) { return H(rintf((float)a)); }                              \
  GPUTENSOR_HALF_FUNCTION H2 __hadd2(H2 a, H2 b) { return a + b; }                                 \
  GPUTENSOR_HALF_FUNCTION H2 __hsub2(H2 a, H2 b) { return a - b; }                                 \
  GPUTENSOR_HALF_FUNCTION H2 __hmul2(H2 a, H2 b) { return a * b; }                                 \
  GPUTENSOR_HALF_FUNCTION H2 __h2div(H2 a, H2 b) { return a / b; }                                 \
  GPUTENSOR_HALF_FUNCTION H2 __hfma2(H2 a, H2 b, H2 c) {                                           \
    return H2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));                                       \
  }                                                                                                \
  GPUTENSOR_HALF_FUNCTION H FROM_FLOAT(float v) { return H(v); }                                   \
  GPUTENSOR_HALF_FUNCTION H FROM_FLOAT##_rn(float v) { return H(v); }                              \
  GPUTENSOR_HALF_FUNCTION H FROM_DOUBLE(double v) { return H(v); }                                 \
  GPUTENSOR_HALF_FUNCTION float TO_FLOAT(H v) { return v; }                                        \
  GPUTENSOR_HALF_FUNCTION H2 MAKE2(H a, H b) { return H2(a, b); }                                  \
  GPUTENSOR_HALF_FUNCTION H2 PAIR2(H a, H b) { return H2(a, b); }                                  \
  GPUTENSOR_HALF_FUNCTION H2 BOTH2(H a) { return H2(a, a); }                                       \
  GPUTENSOR_HALF_FUNCTION H LOW2(H2 v) { return v.x; }                                             \
  GPUTENSOR_HALF_FUNCTION H HIGH2(H2 v) { return v.y; }                                            \
  GPUTENSOR_HALF_FUNCTION float __low2float(H2 v) { return v.x; }                                  \
  GPUTENSOR_HALF_FUNCTION float __high2float(H2 v) { return v.y; }                                 \
  GPUTENSOR_HALF_FUNCTION H2 FROM_FLOATS2(float a, float b) { return H2(H(a), H(b)); }             \
  GPUTENSOR_HALF_FUNCTION H2 FROM_FLOAT2(float a) { return H2(H(a), H(a)); }                       \
  GPUTENSOR_HALF_FUNCTION H2 FROM_FLOAT22(float2 v) { return H2(H(v.x), H(v.y)); }                 \
  GPUTENSOR_HALF_FUNCTION float2 TO_FLOAT2(H2 v) { return make_float2(v.x, v.y); }                 \
  GPUTENSOR_HALF_ATOMICS(H, H2)
