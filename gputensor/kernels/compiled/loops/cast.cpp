// Casts between all dtypes, Note [Casts] of kernels/cuda/include/types.cuh; and the copies that
// pack strided operands into dense memory and back.
#include "capability.h"

namespace CAPABILITY {

template <class To, class From> static void cast_dense(char* to, const char* from, i64 n);

constexpr int BLOCK = 256;  // elements cast at a time through another type

static inline i64 least(i64 a, i64 b) { return a < b ? a : b; }

// --- floats to integers -------------------------------------------------------------------------

static inline f32 number(f32 x) { return x; }
static inline f64 number(f64 x) { return x; }
static inline f32 number(bf16 x) { return to_float(x); }
static inline f32 number(c64 x) { return x.re; }
static inline f64 number(c128 x) { return x.re; }

// Casts by the CPU's vector cast to i32. A block with values out of range is cast again, by the
// rules. For values out of range x86 returns the smallest i32, other CPUs return other values. An
// f64 may also be cast to an i64 whose low bits are kept.
template <class To, class From> static inline void truncate_all(To* to, const From* from, i64 n) {
  alignas(64) i32 block[BLOCK];
  const bool is_direct = sizeof(To) == sizeof(i32) && (const void*)to != (const void*)from;
  for (i64 i = 0; i < n; i += BLOCK) {
    const i64 left = least(n - i, BLOCK);
    i32* __restrict whole = is_direct ? (i32*)(to + i) : block;
    int others = 0;
    for (i64 k = 0; k < left; ++k) {
      const auto x = number(from[i + k]);
      typedef decltype(number(*from)) N;
      whole[k] = (i32)x;
#if defined(__x86_64__)
      others |= whole[k] == (i32)0x80000000;
#else
      others |= !((x > (N)-0x1p31) & (x < (N)0x7fffffff));
#endif
    }
    if (others) {
      for (i64 k = 0; k < left; ++k) to[i + k] = cast<To>(from[i + k]);
    } else if (!is_direct) {
      for (i64 k = 0; k < left; ++k) to[i + k] = (To)whole[k];
    }
  }
}

// --- 64 bits ------------------------------------------------------------------------------------

// Each half of an integer becomes the fraction of an f64. The sum of the two f64 is the integer,
// rounded once. Few CPUs have a vector instruction for this cast.
static inline f64 to_double(u64 x, bool is_signed) {
  const u64 low = (x & 0xffffffffull) | 0x4330000000000000ull;               // 2^52 + low
  const u64 high = (x >> 32) ^ (is_signed ? 0x4530000080000000ull : 0x4530000000000000ull);
  const f64 bias = 0x1p84 + 0x1p52 + (is_signed ? 0x1p63 : 0);
  return (bits_as<f64>(high) - bias) + bits_as<f64>(low);
}

// To f32 with one rounding: through f64 if f64 represents each number of the block exactly.
template <class From> static inline void to_singles(f32* to, const From* from, i64 n) {
  constexpr u64 EXACT = 1ull << 53;
  for (i64 i = 0; i < n; i += BLOCK) {
    const i64 left = least(n - i, BLOCK);
    u64 others = 0;  // the bits of each magnitude, perhaps without its sign
    for (i64 k = 0; k < left; ++k) others |= (u64)(from[i + k] < 0 ? ~from[i + k] : from[i + k]);
    if (others < EXACT) {
      for (i64 k = 0; k < left; ++k) to[i + k] = (f32)to_double((u64)from[i + k], true);
    } else {
      for (i64 k = 0; k < left; ++k) to[i + k] = (f32)from[i + k];
    }
  }
}

// An f32 that a cast to f16 rounds only once. It has 12 bits of the fraction, and its last bit is
// set if a later bit was set.
static inline f32 to_sticky(f64 x) {
  constexpr u64 REST = (1ull << 40) - 1;
  const u64 bits = bits_as<u64>(x);
  return (f32)bits_as<f64>((bits | ((bits & REST) + REST)) & ~REST);
}

// --- through another type -----------------------------------------------------------------------

// `fill(block, first, n)` writes n elements of type Via for each block.
template <class To, class Via, class Fill> static inline void through(To* to, i64 n, Fill fill) {
  alignas(64) Via block[BLOCK];
  for (i64 i = 0; i < n; i += BLOCK) {
    const i64 left = least(n - i, BLOCK);
    fill(block, i, left);
    cast_dense<To, Via>((char*)(to + i), (const char*)block, left);
  }
}

template <class To, class From> static void cast_dense(char* dst, const char* src, i64 n) {
  const From* x = (const From*)src;
  To* y = (To*)dst;
  if constexpr (same<To, From>) {
    memcpy(dst, src, n * sizeof(To));
  } else if constexpr (same<From, c32> && !is_complex<To> && !same<To, b8>) {
    through<To, f16>(y, n, [=](f16* block, i64 first, i64 m) {
      for (i64 k = 0; k < m; ++k) block[k] = x[first + k].re;
    });
  } else if constexpr (same<From, f16> && same<To, f32>) {
    for (i64 i = 0; i < n; i += HALVES) {
      const i64 left = least(n - i, HALVES);
      if (left == HALVES) {
        widen_all(y + i, x + i);
      } else {
        alignas(64) f32 wide[HALVES];
        widen_some(wide, x + i, left);
        memcpy(y + i, wide, left * sizeof(f32));
      }
    }
  } else if constexpr (same<From, f32> && same<To, f16>) {
    for (i64 i = 0; i < n; i += HALVES) {
      const i64 left = least(n - i, HALVES);
      if (left == HALVES) {
        narrow_all(y + i, x + i);
      } else {
        alignas(64) f32 wide[HALVES] = {};
        memcpy(wide, x + i, left * sizeof(f32));
        narrow_some(y + i, wide, left);
      }
    }
  } else if constexpr (same<From, f16>) {
    through<To, f32>(y, n, [=](f32* block, i64 first, i64 m) {
      cast_dense<f32, From>((char*)block, (const char*)(x + first), m);
    });
  } else if constexpr (same<To, f16>) {
    through<To, f32>(y, n, [=](f32* block, i64 first, i64 m) {
      if constexpr (same<From, f64> || same<From, c128>) {
        for (i64 k = 0; k < m; ++k) block[k] = to_sticky(number(x[first + k]));
      } else if constexpr (is_integer<From> && sizeof(From) == 8) {
        to_singles(block, x + first, m);
      } else {
        for (i64 k = 0; k < m; ++k) block[k] = cast<f32>(x[first + k]);
      }
    });
  } else if constexpr (is_integer<To> && (is_real<From> || is_complex<From> || same<From, bf16>)) {
    truncate_all(y, x, n);
  } else if constexpr (same<To, f32> && is_integer<From> && sizeof(From) == 8) {
    to_singles(y, x, n);
  } else if constexpr (same<To, f64> && is_integer<From> && sizeof(From) == 8) {
    for (i64 i = 0; i < n; ++i) y[i] = to_double((u64)x[i], same<From, i64>);
  } else {
    for (i64 i = 0; i < n; ++i) y[i] = cast<To>(x[i]);
  }
}

// The types in the order of their codes.
#define GPUTENSOR_ALL_TYPES(X) \
  X(b8) X(u8) X(i8) X(u16) X(i16) X(u32) X(i32) X(u64) X(i64) X(f16) X(bf16) X(f32) X(f64) \
  X(c64) X(c128) X(c32)

#define TO(T) cast_dense<T, From>,
template <class From> struct row {
  static constexpr abi::Cast to[] = {GPUTENSOR_ALL_TYPES(TO)};
};
#undef TO

extern const abi::Cast casts[abi::N_DTYPES][abi::N_DTYPES] = {
#define FROM(T) \
  {row<T>::to[0], row<T>::to[1], row<T>::to[2], row<T>::to[3], row<T>::to[4], row<T>::to[5], \
   row<T>::to[6], row<T>::to[7], row<T>::to[8], row<T>::to[9], row<T>::to[10], row<T>::to[11], \
   row<T>::to[12], row<T>::to[13], row<T>::to[14], row<T>::to[15]},
    GPUTENSOR_ALL_TYPES(FROM)
#undef FROM
};

// An element in the type of the computation.
template <class T> static void widen(char* to, const char* from, i64) {
  const auto value = cast<typename acc_of<T>::type>(*(const T*)from);
  memcpy(to, &value, sizeof value);
}

extern const abi::Cast widens[abi::N_DTYPES] = {
#define WIDEN(T) widen<T>,
    GPUTENSOR_ALL_TYPES(WIDEN)
#undef WIDEN
};

// Every STEP-th element: the compiler vectorises loops with constant steps.
template <class W, int STEP> static void pack_every(W* to, const W* from, i64 n) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) to[i] = from[i * STEP];
}

template <class W>
static void pack(char* dense, char* strided, i64 n, i64 step, i64 rows, i64 row_step) {
  W* to = (W*)dense;
  for (i64 r = 0; r < rows; ++r, to += n) {
    const char* from = strided + r * row_step;
    if (step == (i64)sizeof(W)) {
      memcpy(to, from, n * sizeof(W));
    } else if (step == 0) {
      const W value = *(const W*)from;
      for (i64 i = 0; i < n; ++i) to[i] = value;
    } else if (step == 2 * (i64)sizeof(W)) {
      pack_every<W, 2>(to, (const W*)from, n);
    } else if (step == 3 * (i64)sizeof(W)) {
      pack_every<W, 3>(to, (const W*)from, n);
    } else if (step == 4 * (i64)sizeof(W)) {
      pack_every<W, 4>(to, (const W*)from, n);
    } else {
      for (i64 i = 0; i < n; ++i) to[i] = *(const W*)(from + i * step);
    }
  }
}

template <class W>
static void unpack(char* dense, char* strided, i64 n, i64 step, i64 rows, i64 row_step) {
  const W* from = (const W*)dense;
  for (i64 r = 0; r < rows; ++r, from += n) {
    char* to = strided + r * row_step;
    if (step == (i64)sizeof(W)) {
      memcpy(to, from, n * sizeof(W));
    } else {
      for (i64 i = 0; i < n; ++i) *(W*)(to + i * step) = from[i];
    }
  }
}

extern const abi::Move packs[] = {pack<u8>, pack<u16>, pack<u32>, pack<u64>, pack<w128>};
extern const abi::Move unpacks[] = {unpack<u8>, unpack<u16>, unpack<u32>, unpack<u64>,
                                    unpack<w128>};

}  // namespace CAPABILITY
