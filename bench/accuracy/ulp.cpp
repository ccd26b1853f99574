// Elementary functions of the CPU library beside others of more precision. bench/accuracy/ulp.py
// builds and calls it. For each function NAME and T of f32, f64:
//   NAME_T(n, out, x[, y])          what a loop of the library computes
//   NAME_worst_T(n, at, x[, y])     the greatest error of these, in ulp, and the arguments where,
//                                   beside the C library's function of f64, or of long double
//   NAME_worst_bits(n, at, first)   the same of the n f32 whose bits are first, first + 1, …,
//                                   beside the library's f64, and the C library's for some of them
// A NaN, an infinity or a zero of the other sign, where the reference has none, is an infinite
// error.
#include <math.h>
#include <string.h>

#define GPUTENSOR_LOOPS
#define __device__
#define __forceinline__ inline
#include "math/functions.cuh"

typedef long double f80;
constexpr long BLOCK = 2048;

// One of the last place of a result: of f32 from the exponent of the exact one.
static inline f64 error_of(f32 got, f64 exact) {
  const f32 near = (f32)exact;
  if (isnan(near) || isnan(got)) return isnan(near) == isnan(got) ? 0 : INFINITY;
  if (signbit(near) != signbit(got)) return INFINITY;
  if (isinf(near) && isinf(got)) return 0;
  if (isinf(exact) || (isinf(got) && fabs(exact) < 0x1.fffffep127)) return INFINITY;
  const f64 finite = isinf(got) ? 0x1p128 : fabs((f64)got);
  const u64 exponent = bits_as<u64>(fabs(exact)) >> 52, least = 1023 - 126, most = 1023 + 127;
  const u64 used = exponent < least ? least : exponent > most ? most : exponent;
  return fabs(finite - fabs(exact)) * bits_as<f64>((2046 + 23 - used) << 52);
}

// Of f64 from the number below the exact result, which has its exponent.
static inline f64 error_of(f64 got, f80 exact) {
  const f64 near = (f64)exact;
  if (isnan(near) || isnan(got)) return isnan(near) == isnan(got) ? 0 : INFINITY;
  if (signbit(near) != signbit(got)) return INFINITY;
  if (isinf(near) && isinf(got)) return 0;
  if (isinf(exact) || (isinf(got) && fabsl(exact) < 0x1.fffffffffffffp1023)) return INFINITY;
  const f80 finite = isinf(got) ? 0x1p1024L : fabs((f80)got);
  u64 bits = bits_as<u64>(fabs(near));
  bits -= fabsl(exact) < fabs(near);
  const u64 exponent = bits >> 52;
  const int used = exponent < 1 ? 1 : exponent > 2046 ? 2046 : (int)exponent;
  return (f64)(scalbnl(fabsl(finite - fabsl(exact)), 1075 - used));
}

template <class F, class = void> constexpr bool has_rare = false;
template <class F> constexpr bool has_rare<F, decltype((void)&F::template is_rare<f32>)> = true;

// As the library's loops run: see Note [Rare elements].
template <class F, class T, class... P> static void run(long n, T* out, const P*... x) {
  if constexpr (has_rare<F>) {
    int found = 0;
    for (long i = 0; i < n; ++i) found |= F::is_rare(x[i]...);
    if (found) {
      for (long i = 0; i < n; ++i) out[i] = F::is_rare(x[i]...) ? F::rare(x[i]...) : F::of(x[i]...);
      return;
    }
  }
#pragma GCC ivdep
  for (long i = 0; i < n; ++i) out[i] = F::of(x[i]...);
}

template <class F, class T, class... P> static f64 worst(long n, T* at, const P*... x) {
  T got[BLOCK];
  f64 most = -1;
  for (long first = 0; first < n; first += BLOCK) {
    const long count = n - first < BLOCK ? n - first : BLOCK;
    run<F>(count, got, x + first...);
    for (long i = 0; i < count; ++i) {
      const f64 error = error_of(got[i], F::exact(x[first + i]...));
      if (error <= most) continue;
      most = error;
      const T place[] = {x[first + i]...};
      memcpy(at, place, sizeof(place));
    }
  }
  return most;
}

// Whether no error of these is above `most`; false where a result is NaN or infinite alone. It
// vectorises.
static bool are_near(long n, const f32* got, const f64* exact, f64 most) {
  i32 found = 0;
#pragma GCC ivdep
  for (long i = 0; i < n; ++i) {
    const f32 near = (f32)exact[i];
    const f64 size = fabs(exact[i]), used = size < 0x1p-126 ? 0x1p-126 : size;
    const u64 exponent = bits_as<u64>(used) & 0x7ff0000000000000;
    const f64 scale = bits_as<f64>(((u64)(2046 + 23) << 52) - exponent);
    const f32 error = (f32)(fabs((f64)got[i] - exact[i]) * scale);
    const bool is_same = (bits_as<u32>(near) == bits_as<u32>(got[i]));
    const bool are_nan = (near != near) & (got[i] != got[i]);
    const bool has_sign = (bits_as<u32>(near) ^ bits_as<u32>(got[i])) >> 31;
    const f32 half = is_same ? (error <= 1 ? error : 0.0f) : has_sign ? INFINITY : error;
    const f32 used_error = are_nan ? 0.0f : half;
    const i32 bits = bits_as<i32>(used_error) & 0x7fffffff;  // of NaN above all others
    found = found < bits ? bits : found;
  }
  return bits_as<f32>(found) <= most;
}

template <class F> static f64 worst_bits(long n, f32* at, u32 first) {
  constexpr long SOME = 32;  // of a block are compared with the C library
  f32 x[BLOCK], got[BLOCK], place;
  f64 wide[BLOCK], exact[BLOCK], most = -1;
  for (long begin = 0; begin < n; begin += BLOCK) {
    const long count = n - begin < BLOCK ? n - begin : BLOCK;
    for (long i = 0; i < count; ++i) x[i] = bits_as<f32>((u32)(first + begin + i));
    for (long i = 0; i < count; ++i) wide[i] = x[i];
    run<F>(count, got, x);
    run<F>(count, exact, wide);
    const bool is_worse = !are_near(count, got, exact, most);
    const f64 error = worst<F>(is_worse || count < SOME ? count : SOME, &place, x);
    if (error > most) most = error, *at = place;
  }
  return most;
}

#define OF_ONE(name)                                                              \
  extern "C" void name##_f32(long n, f32* out, const f32* x) {                    \
    run<of::name>(n, out, x);                                                     \
  }                                                                               \
  extern "C" void name##_f64(long n, f64* out, const f64* x) {                    \
    run<of::name>(n, out, x);                                                     \
  }                                                                               \
  extern "C" f64 name##_worst_f32(long n, f32* at, const f32* x) {                \
    return worst<of::name>(n, at, x);                                             \
  }                                                                               \
  extern "C" f64 name##_worst_f64(long n, f64* at, const f64* x) {                \
    return worst<of::name>(n, at, x);                                             \
  }                                                                               \
  extern "C" f64 name##_worst_bits(long n, f32* at, u32 first) {                  \
    return worst_bits<of::name>(n, at, first);                                    \
  }
#define OF_TWO(name)                                                              \
  extern "C" void name##_f32(long n, f32* out, const f32* x, const f32* y) {      \
    run<of::name>(n, out, x, y);                                                  \
  }                                                                               \
  extern "C" void name##_f64(long n, f64* out, const f64* x, const f64* y) {      \
    run<of::name>(n, out, x, y);                                                  \
  }                                                                               \
  extern "C" f64 name##_worst_f32(long n, f32* at, const f32* x, const f32* y) {  \
    return worst<of::name>(n, at, x, y);                                          \
  }                                                                               \
  extern "C" f64 name##_worst_f64(long n, f64* at, const f64* x, const f64* y) {  \
    return worst<of::name>(n, at, x, y);                                          \
  }

#define EXACT(name)                                                               \
  static f64 exact(f32 x) { return ::name((f64)x); }                              \
  static f80 exact(f64 x) { return ::name##l((f80)x); }
#define FUNCTION(name)                                                            \
  namespace of {                                                                  \
  struct name {                                                                   \
    template <class T> static DEVICE T of(T x) { return math_##name(x); }         \
    EXACT(name)                                                                   \
  };                                                                              \
  }                                                                               \
  OF_ONE(name)
#define FUNCTION_OF_ANGLE(name)                                                   \
  namespace of {                                                                  \
  struct name {                                                                   \
    template <class T> static DEVICE T of(T x) { return near_##name(x); }         \
    template <class T> static DEVICE bool is_rare(T x) { return is_far_angle(x); } \
    template <class T> static DEVICE T rare(T x) { return math_##name(x); }       \
    EXACT(name)                                                                   \
  };                                                                              \
  }                                                                               \
  OF_ONE(name)
#define FUNCTION_OF_TWO(name)                                                     \
  namespace of {                                                                  \
  struct name {                                                                   \
    template <class T> static DEVICE T of(T x, T y) { return math_##name(x, y); } \
    static f64 exact(f32 x, f32 y) { return ::name((f64)x, (f64)y); }             \
    static f80 exact(f64 x, f64 y) { return ::name##l((f80)x, (f80)y); }          \
  };                                                                              \
  }                                                                               \
  OF_TWO(name)

FUNCTION(acos)
FUNCTION(acosh)
FUNCTION(asin)
FUNCTION(asinh)
FUNCTION(atan)
FUNCTION(atanh)
FUNCTION(cosh)
FUNCTION(erf)
FUNCTION(erfc)
FUNCTION(exp)
FUNCTION(exp2)
FUNCTION(expm1)
FUNCTION(log)
FUNCTION(log10)
FUNCTION(log1p)
FUNCTION(log2)
FUNCTION(sinh)
FUNCTION(tanh)
FUNCTION_OF_ANGLE(cos)
FUNCTION_OF_ANGLE(sin)
FUNCTION_OF_ANGLE(tan)
FUNCTION_OF_TWO(atan2)
FUNCTION_OF_TWO(hypot)
FUNCTION_OF_TWO(pow)

// The remainder is exact: its reference is the C library's of the same type.
namespace of {
struct fmod {
  template <class T> static DEVICE T of(T x, T y) { return math_fmod(x, y); }
  static f64 exact(f32 x, f32 y) { return ::fmodf(x, y); }
  static f80 exact(f64 x, f64 y) { return ::fmod(x, y); }
};
struct nextafter {
  template <class T> static DEVICE T of(T x, T y) { return math_nextafter(x, y); }
  static f64 exact(f32 x, f32 y) { return ::nextafterf(x, y); }
  static f80 exact(f64 x, f64 y) { return ::nextafter(x, y); }
};
}  // namespace of
OF_TWO(fmod)
OF_TWO(nextafter)
