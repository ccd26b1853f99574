// CUDA C on a CPU: the words of the language, one block at a time, one thread at a time.
// Included once, before the text of a kernel. It includes no system header, since every build pays
// for it; libm and libc are declared by hand. What threads do together goes to the engine.
// Not covered: memory model and races, textures, cooperative groups, half intrinsics, inline PTX.
#pragma once
#include "engine.h"

#define GPUTENSOR_EMULATOR 1
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __builtin_assume(x) ((void)0)
// The `#` begins a comment for the assembler: the section has a name with start and stop symbols,
// yet takes no room in the file, which a named section otherwise does.
#define __shared__ __attribute__((section(GPUTENSOR_SHARED ",\"aw\",@nobits#"), aligned(16))) static

extern "C" {
int printf(const char*, ...);
void* memcpy(void*, const void*, __SIZE_TYPE__);
void* memset(void*, int, __SIZE_TYPE__);
}
typedef __SIZE_TYPE__ size_t;

typedef gputensor::index3 uint3;
struct dim3 : gputensor::index3 {
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : index3{a, b, c} {}
};

// --- who runs ------------------------------------------------------------------------------------

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

namespace gputensor {

static const engine* the_engine;
static entry* entries;
static constexpr unsigned MAX_SHARED = 227 * 1024;
alignas(1024) static unsigned char dynamic_shared[MAX_SHARED + 1024];
static module this_module = {&threadIdx, &blockIdx, &blockDim, &gridDim,
                             dynamic_shared, MAX_SHARED, nullptr};

constexpr unsigned first_of(unsigned first = 0, ...) { return first; }

template <class F>
struct parameter;
template <class P>
struct parameter<void (*)(P)> {
  typedef P type;
};

template <auto kernel>
struct run {
  typedef typename parameter<decltype(kernel)>::type P;
  static void thread(const void* params) { kernel(*(const P*)params); }
  static void block(const void* params) {
    const P& p = *(const P*)params;
    uint3& t = threadIdx;
    const unsigned nx = blockDim.x, ny = blockDim.y, nz = blockDim.z;
    for (unsigned z = 0; z < nz; ++z)
      for (unsigned y = 0; y < ny; ++y)
        for (unsigned x = 0; x < nx; ++x) {
          t = {x, y, z};
          kernel(p);
        }
  }
};

struct registered {
  entry e;
  registered(entry given) : e(given) {
    e.next = entries;
    entries = &e;
  }
};

[[noreturn]] inline void fail(const char* what, const char* file, unsigned line) {
  the_engine->fail(what, file, line);
  __builtin_unreachable();
}

template <class T>
inline unsigned long long as_word(T value) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  unsigned long long word = 0;
  __builtin_memcpy(&word, &value, sizeof(T));
  return word;
}
template <class T>
inline T from_word(unsigned long long word) {
  T value;
  __builtin_memcpy(&value, &word, sizeof(T));
  return value;
}
template <class T>
inline T shuffle(collective what, unsigned mask, T value, int argument, int width, const char* file,
                 unsigned line) {
  return from_word<T>(the_engine->meet(what, mask, as_word(value), argument, width, file, line));
}
template <class To, class From>
inline To bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To result;
  __builtin_memcpy(&result, &value, sizeof(To));
  return result;
}

// The project's load and store functions call this for the width that they use.
inline void check_aligned(const void* pointer, unsigned alignment, const char* file, unsigned line) {
  if ((__UINTPTR_TYPE__)pointer % alignment) fail("misaligned address", file, line);
}

}  // namespace gputensor

#define GPUTENSOR_CHECK_ALIGNED(pointer, alignment) \
  ::gputensor::check_aligned(pointer, alignment, __FILE__, __LINE__)

// Placed before each `__global__` function by the source assembly.
#define GPUTENSOR_ENTRY(name, collectives, ...) GPUTENSOR_ENTRY_(name, collectives, __VA_ARGS__)
#define GPUTENSOR_ENTRY_(name, collectives, ...)                                                   \
  static ::gputensor::registered gputensor_entry_##name({                                          \
      #name, GPUTENSOR_VARIANT, collectives, ::gputensor::first_of(__VA_ARGS__),                   \
      (unsigned)sizeof(::gputensor::run<&name>::P), &::gputensor::run<&name>::thread,              \
      &::gputensor::run<&name>::block, GPUTENSOR_SHARED_BEGIN, GPUTENSOR_SHARED_END, nullptr});

extern "C" __attribute__((visibility("default"))) gputensor::module* gputensor_attach(
    const gputensor::engine* engine) {
  gputensor::the_engine = engine;
  gputensor::this_module.first = gputensor::entries;
  return &gputensor::this_module;
}

// --- together ------------------------------------------------------------------------------------

#define GPUTENSOR_MEET(what, mask, value) \
  ::gputensor::the_engine->meet(::gputensor::what, mask, value, 0, 32, __FILE__, __LINE__)
#define __syncthreads() ((void)GPUTENSOR_MEET(SYNC_BLOCK, 0, 0))
#define __syncthreads_count(p) ((int)GPUTENSOR_MEET(SYNC_COUNT, 0, !!(p)))
#define __syncthreads_and(p) ((int)GPUTENSOR_MEET(SYNC_AND, 0, !!(p)))
#define __syncthreads_or(p) ((int)GPUTENSOR_MEET(SYNC_OR, 0, !!(p)))
#define GPUTENSOR_SYNC_WARP(mask, ...) ((void)GPUTENSOR_MEET(SYNC_WARP, mask, 0))
#define __syncwarp(...) GPUTENSOR_SYNC_WARP(__VA_ARGS__ __VA_OPT__(,) 0xffffffffu)
#define __ballot_sync(mask, p) ((unsigned)GPUTENSOR_MEET(BALLOT, mask, !!(p)))
#define __any_sync(mask, p) (GPUTENSOR_MEET(BALLOT, mask, !!(p)) != 0)
#define __all_sync(mask, p) (GPUTENSOR_MEET(BALLOT, mask, !(p)) == 0)
#define __match_any_sync(mask, value) \
  ((unsigned)GPUTENSOR_MEET(MATCH_ANY, mask, ::gputensor::as_word(value)))
#define GPUTENSOR_SHUFFLE(what, mask, value, argument, width, ...) \
  ::gputensor::shuffle(::gputensor::what, mask, value, (int)(argument), width, __FILE__, __LINE__)
#define __shfl_sync(mask, value, ...) GPUTENSOR_SHUFFLE(SHUFFLE_INDEX, mask, value, __VA_ARGS__, 32)
#define __shfl_up_sync(mask, value, ...) GPUTENSOR_SHUFFLE(SHUFFLE_UP, mask, value, __VA_ARGS__, 32)
#define __shfl_down_sync(mask, value, ...) \
  GPUTENSOR_SHUFFLE(SHUFFLE_DOWN, mask, value, __VA_ARGS__, 32)
#define __shfl_xor_sync(mask, value, ...) \
  GPUTENSOR_SHUFFLE(SHUFFLE_XOR, mask, value, __VA_ARGS__, 32)
#define __trap() ::gputensor::fail("__trap()", __FILE__, __LINE__)
#undef assert
#define assert(...) \
  ((__VA_ARGS__) ? (void)0 : ::gputensor::fail("assertion failed: " #__VA_ARGS__, __FILE__, __LINE__))

inline unsigned __activemask() { return gputensor::the_engine->active_mask(); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) {}
inline long long clock64() { return 0; }

template <class T> inline T atomicAdd(T* p, T v) { T old = *p; *p = old + v; return old; }
template <class T> inline T atomicSub(T* p, T v) { T old = *p; *p = old - v; return old; }
template <class T> inline T atomicMin(T* p, T v) { T old = *p; if (v < old) *p = v; return old; }
template <class T> inline T atomicMax(T* p, T v) { T old = *p; if (old < v) *p = v; return old; }
template <class T> inline T atomicAnd(T* p, T v) { T old = *p; *p = old & v; return old; }
template <class T> inline T atomicOr(T* p, T v) { T old = *p; *p = old | v; return old; }
template <class T> inline T atomicXor(T* p, T v) { T old = *p; *p = old ^ v; return old; }
template <class T> inline T atomicExch(T* p, T v) { T old = *p; *p = v; return old; }
template <class T> inline T atomicCAS(T* p, T expected, T v) {
  T old = *p;
  if (gputensor::bits<T>(old) == expected) *p = v;
  return old;
}
inline unsigned atomicInc(unsigned* p, unsigned m) { unsigned o = *p; *p = o >= m ? 0 : o + 1; return o; }
inline unsigned atomicDec(unsigned* p, unsigned m) { unsigned o = *p; *p = !o || o > m ? m : o - 1; return o; }

// --- vectors -------------------------------------------------------------------------------------

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

inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
inline int __mul24(int a, int b) { return (int)((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8)); }
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

// --- floating point ------------------------------------------------------------------------------

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

// Float to integer as the hardware does it: saturating, NaN -> 0 (the minimum for 64 bits).
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

// --- what g++ checks -----------------------------------------------------------------------------
// The entry points of -fsanitize=undefined, answered here instead of by libubsan, so that a finding
// has a block and a thread. Each gets a record that begins with the place in the source.

namespace gputensor {
struct source_place {
  const char* file;
  unsigned line, column;
};
struct type_mismatch {
  source_place place;
  const void* type;
  unsigned char log2_alignment, kind;
};
}  // namespace gputensor
#define GPUTENSOR_FINDING(name, what, ...)                                                         \
  extern "C" __attribute__((visibility("hidden"), noreturn, used)) void                            \
      __ubsan_handle_##name##_abort(const gputensor::source_place* at, ##__VA_ARGS__) {            \
    gputensor::fail(what, at->file, at->line);                                                     \
  }
extern "C" __attribute__((visibility("hidden"), noreturn, used)) void
__ubsan_handle_type_mismatch_v1_abort(const gputensor::type_mismatch* at, __UINTPTR_TYPE__ address) {
  gputensor::fail(address ? "misaligned address" : "null pointer", at->place.file, at->place.line);
}
GPUTENSOR_FINDING(out_of_bounds, "index out of the bounds of its array", __UINTPTR_TYPE__)
GPUTENSOR_FINDING(shift_out_of_bounds, "shift by more bits than the type has", __UINTPTR_TYPE__, __UINTPTR_TYPE__)
GPUTENSOR_FINDING(pointer_overflow, "pointer arithmetic overflows", __UINTPTR_TYPE__, __UINTPTR_TYPE__)
GPUTENSOR_FINDING(load_invalid_value, "load of a bool that is neither 0 nor 1", __UINTPTR_TYPE__)
GPUTENSOR_FINDING(vla_bound_not_positive, "array of no elements", __UINTPTR_TYPE__)
extern "C" __attribute__((visibility("hidden"), noreturn, used)) void
__ubsan_handle_missing_return(const gputensor::source_place* at) {
  gputensor::fail("end of a function that returns a value", at->file, at->line);
}
extern "C" __attribute__((visibility("hidden"), noreturn, used)) void
__ubsan_handle_builtin_unreachable(const gputensor::source_place* at) {
  gputensor::fail("__builtin_unreachable() was reached", at->file, at->line);
}
