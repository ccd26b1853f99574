// Storage types, arithmetic types and the casts between them, for GPUs and for the emulator. This
// file does not depend on -D. `__CUDA_ARCH__` is defined if it is compiled for a GPU.
//
// Note [Casts]: one function `cast` for all devices. Float to integer truncates, saturates to int64
// and keeps the low bits; NaN becomes 0; to u64 the values in [2^63, 2^64) are exact. To bool is x
// != 0. Complex to real keeps the real part. f64 to f16 rounds once, as in NumPy. f64 and integers
// are cast to bf16 through f32, and integers to f16 too, as in NumPy and ml_dtypes.
#ifndef GPUTENSOR_TYPES
#define GPUTENSOR_TYPES

#ifdef __CUDA_ARCH__
#define DEVICE __device__ __forceinline__
#elif defined(GPUTENSOR_LOOPS)
#define DEVICE __attribute__((always_inline)) inline  // a loop with a call does not vectorise
#else
#define DEVICE __device__ inline
#endif

// Unrolls the following loop, whose number of iterations is known and at most 64.
#ifdef GPUTENSOR_LOOPS
#define UNROLLED _Pragma("GCC unroll 64")
#else
#define UNROLLED _Pragma("unroll")
#endif

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef float f32;
typedef double f64;

struct b8 { u8 bits; };  // a bool in memory; any non-zero byte counts as true
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct alignas(16) w128 { u64 low, high; };  // sixteen bytes that are only copied

template <class T> struct alignas(2 * sizeof(T)) complex_of {
  typedef T part;
  T re, im;
};
typedef complex_of<f16> c32;  // computed in c64, as f16 in f32
typedef complex_of<f32> c64;
typedef complex_of<f64> c128;

template <class A, class B> struct same_type { static constexpr bool value = false; };
template <class A> struct same_type<A, A> { static constexpr bool value = true; };
template <class A, class B> constexpr bool same = same_type<A, B>::value;

template <class T> constexpr bool is_complex = same<T, c32> || same<T, c64> || same<T, c128>;
template <class T> constexpr bool is_half = same<T, f16> || same<T, bf16>;
template <class T> constexpr bool is_real = same<T, f32> || same<T, f64>;
template <class T> constexpr bool is_signed_integer =
    same<T, i8> || same<T, i16> || same<T, i32> || same<T, i64>;
template <class T> constexpr bool is_integer =
    is_signed_integer<T> || same<T, u8> || same<T, u16> || same<T, u32> || same<T, u64>;

// acc_of<storage>::type is the arithmetic type of a storage type. Integers narrower than an int are
// computed as 32-bit integers of the same signedness; a store keeps the low bits.
template <class T> struct acc_of { typedef T type; };
template <> struct acc_of<b8> { typedef u32 type; };
template <> struct acc_of<u8> { typedef u32 type; };
template <> struct acc_of<u16> { typedef u32 type; };
template <> struct acc_of<i8> { typedef i32 type; };
template <> struct acc_of<i16> { typedef i32 type; };
template <> struct acc_of<f16> { typedef f32 type; };
template <> struct acc_of<bf16> { typedef f32 type; };
template <> struct acc_of<c32> { typedef c64 type; };

template <class T> struct unsigned_of { typedef T type; };
template <> struct unsigned_of<i32> { typedef u32 type; };
template <> struct unsigned_of<i64> { typedef u64 type; };

template <class T> struct real_of { typedef T type; };
template <class T> struct real_of<complex_of<T>> { typedef T type; };

template <class To, class From> DEVICE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits_as keeps the size");
  union { From from; To to; } both;
  both.from = from;
  return both.to;
}

DEVICE f32 to_float(bf16 x) { return bits_as<f32>((u32)x.bits << 16); }

DEVICE bf16 bf16_from_float(f32 x) {
  const u32 bits = bits_as<u32>(x);
  if (x != x) return bf16{(u16)((bits >> 16) | 0x40)};
  return bf16{(u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

#ifdef __CUDA_ARCH__
DEVICE f32 to_float(f16 x) {
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

DEVICE f16 f16_from_float(f32 x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
#else
DEVICE f32 to_float(f16 x) {
  const u32 sign = (u32)(x.bits & 0x8000) << 16, exponent = (x.bits >> 10) & 31;
  const u32 fraction = x.bits & 0x3ff;
  if (exponent == 31) return bits_as<f32>(sign | 0x7f800000 | (fraction << 13));
  if (exponent) return bits_as<f32>(sign | ((exponent + 112) << 23) | (fraction << 13));
  return bits_as<f32>(sign | bits_as<u32>((f32)fraction * 5.9604644775390625e-8f));  // 2^-24
}

DEVICE f16 f16_from_float(f32 x) {
  const u32 bits = bits_as<u32>(x), sign = (bits >> 16) & 0x8000;
  u32 size = bits & 0x7fffffff;
  if (size > 0x7f800000) return f16{(u16)(sign | 0x7e00 | ((size >> 13) & 0x3ff))};
  if (size >= 0x477ff000) return f16{(u16)(sign | 0x7c00)};  // 65520 and larger
  if (size < 0x38800000) {
    // Below 2^-14: the spacing of floats at 0.5 is that of f16 denormals, so the addition rounds.
    return f16{(u16)(sign | (bits_as<u32>(bits_as<f32>(size) + 0.5f) - 0x3f000000))};
  }
  size += 0xfff + ((size >> 13) & 1);
  return f16{(u16)(sign | ((size - 0x38000000) >> 13))};
}
#endif

// Cast to f32, rounding to odd. A later rounding to fewer bits then gives the same result as
// rounding the exact value.
DEVICE f32 f32_rounded_to_odd(f64 x) {
  const f32 near = (f32)x;
  const f64 back = near;
  u32 bits = bits_as<u32>(near);
  if (x == x && back != x && !(bits & 1)) {
    const f64 size = x < 0 ? -x : x, back_size = back < 0 ? -back : back;
    bits += back_size < size ? 1 : -1;
  }
  return bits_as<f32>(bits);
}

template <class To, class From> DEVICE To float_to_integer(From x) {
  if (x != x) return 0;
  if constexpr (same<To, u64>) {
    if (x >= (From)9223372036854775808.0 && x < (From)18446744073709551616.0) return (u64)x;
  }
  if (x >= (From)9223372036854775808.0) return (To)0x7fffffffffffffffll;
  if (x < (From)-9223372036854775808.0) return (To)(-0x7fffffffffffffffll - 1);
  return (To)(i64)x;
}

template <class To, class From> DEVICE To cast(From x) {
  if constexpr (same<To, From>) {
    return x;
  } else if constexpr (same<From, c32>) {
    return cast<To>(c64{to_float(x.re), to_float(x.im)});
  } else if constexpr (is_half<From>) {
    return cast<To>(to_float(x));
  } else if constexpr (same<From, b8>) {
    return cast<To>((u32)(x.bits != 0));
  } else if constexpr (same<To, b8>) {
    if constexpr (is_complex<From>) {
      return b8{(u8)(x.re != 0 || x.im != 0)};
    } else {
      return b8{(u8)(x != 0)};
    }
  } else if constexpr (is_complex<To>) {
    typedef typename To::part part;
    if constexpr (is_complex<From>) {
      return To{cast<part>(x.re), cast<part>(x.im)};
    } else {
      return To{cast<part>(x), part{}};
    }
  } else if constexpr (is_complex<From>) {
    return cast<To>(x.re);
  } else if constexpr (same<To, f16>) {
    if constexpr (same<From, f64>) {
      return f16_from_float(f32_rounded_to_odd(x));
    } else {
      return f16_from_float((f32)x);
    }
  } else if constexpr (same<To, bf16>) {
    return bf16_from_float((f32)x);
  } else if constexpr (is_integer<To> && is_real<From>) {
    return float_to_integer<To>(x);
  } else {
    return (To)x;
  }
}

#endif
