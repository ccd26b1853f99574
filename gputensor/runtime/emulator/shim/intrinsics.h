// Vector types, cached loads, and bit and integer functions of CUDA C. Part of cuda_on_cpu.h.
#pragma once

#define GPUTENSOR_VECTORS(T, name, a2, a4)                                                         \
  struct name##1 { T x; };                                                                         \
  struct alignas(a2) name##2 { T x, y; };                                                          \
  struct name##3 { T x, y, z; };                                                                   \
  struct alignas(a4) name##4 { T x, y, z, w; };                                                    \
  inline name##1 make_##name##1(T x) { return {x}; }                                               \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                       \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                               \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define uint3 gputensor_uint3
#define make_uint3 gputensor_make_uint3
GPUTENSOR_VECTORS(signed char, char, 2, 4)
GPUTENSOR_VECTORS(unsigned char, uchar, 2, 4)
GPUTENSOR_VECTORS(short, short, 4, 8)
GPUTENSOR_VECTORS(unsigned short, ushort, 4, 8)
GPUTENSOR_VECTORS(int, int, 8, 16)
GPUTENSOR_VECTORS(unsigned, uint, 8, 16)
GPUTENSOR_VECTORS(long, long, 16, 16)
GPUTENSOR_VECTORS(unsigned long, ulong, 16, 16)
GPUTENSOR_VECTORS(long long, longlong, 16, 16)
GPUTENSOR_VECTORS(unsigned long long, ulonglong, 16, 16)
GPUTENSOR_VECTORS(float, float, 8, 16)
GPUTENSOR_VECTORS(double, double, 16, 16)
#undef uint3
#undef make_uint3
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

namespace gputensor {
template <class T> inline T load(const char* file, unsigned line, const T* p) {
  check_aligned(p, alignof(T), file, line);
  return *p;
}
template <class T> inline void store(const char* file, unsigned line, T* p, T v) {
  check_aligned(p, alignof(T), file, line);
  *p = v;
}
}  // namespace gputensor
#define __ldg(...) ::gputensor::load(__FILE__, __LINE__, __VA_ARGS__)
#define __ldcs __ldg
#define __ldcg __ldg
#define __ldca __ldg
#define __ldlu __ldg
#define __ldcv __ldg
#define __stcs(...) ::gputensor::store(__FILE__, __LINE__, __VA_ARGS__)
#define __stcg __stcs
#define __stwb __stcs
#define __stwt __stcs

// --- bits and integers ---------------------------------------------------------------------------

inline unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)((unsigned long long)a * b >> 32);
}
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
inline int __mul24(int a, int b) {
  return (int)((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8));
}
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long pair = (unsigned long long)b << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned s = selector >> 4 * i;
    const unsigned byte = (unsigned)(pair >> 8 * (s & 7)) & 255;
    result |= (s & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
  }
  return result;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) {
  return (unsigned)((((unsigned long long)hi << 32 | lo) << (s & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) {
  return (unsigned)(((unsigned long long)hi << 32 | lo) >> (s & 31));
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (x >> i & 1) << (31 - i);
  return r;
}
inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
inline unsigned __float_as_uint(float x) { return gputensor::bits<unsigned>(x); }
inline int __float_as_int(float x) { return gputensor::bits<int>(x); }
inline float __uint_as_float(unsigned x) { return gputensor::bits<float>(x); }
inline float __int_as_float(int x) { return gputensor::bits<float>(x); }
inline long long __double_as_longlong(double x) { return gputensor::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return gputensor::bits<double>(x); }
inline int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return (int)__double_as_longlong(x); }
inline double __hiloint2double(int hi, int lo) {
  return __longlong_as_double((long long)hi << 32 | (unsigned)lo);
}
