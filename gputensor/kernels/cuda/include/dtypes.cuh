// Operands whose dtype is known only at run time: fetch-and-cast and cast-and-store by dtype code.
// The codes are those of core/dtype.py.
//
// Note [Common dtype]: a value is computed in an arithmetic type (i64 u64 f32 f64 c64 c128) that
// may be wider than the common dtype of the call. If an operand's dtype differs from the common
// dtype, loaded and stored values are narrowed to the common dtype. So `u8 + int64 scalar` wraps
// around and `f16 + f32 scalar` rounds as if the operand had been converted first.
#ifndef GPUTENSOR_DTYPES
#define GPUTENSOR_DTYPES

#include "types.cuh"

enum dtype_code {
  code_b8, code_u8, code_i8, code_u16, code_i16, code_u32, code_i32, code_u64, code_i64,
  code_f16, code_bf16, code_f32, code_f64, code_c64, code_c128, code_c32
};

template <class acc_t> DEVICE acc_t narrow(acc_t x, int common) {
  if constexpr (same<acc_t, i64>) {
    switch (common) {
      case code_b8: return x != 0;
      case code_u8: return (u8)x;
      case code_i8: return (i8)x;
      case code_u16: return (u16)x;
      case code_i16: return (i16)x;
      case code_u32: return (u32)x;
      case code_i32: return (i32)x;
    }
  } else if constexpr (is_complex<acc_t>) {
    typedef typename acc_t::part part;
    if (common == code_c32) return cast<acc_t>(cast<c32>(x));
    if (common != code_c64 && common != code_c128) return acc_t{narrow<part>(x.re, common), 0};
    if (common == code_c64) {
      return acc_t{narrow<part>(x.re, code_f32), narrow<part>(x.im, code_f32)};
    }
  } else if constexpr (is_real<acc_t>) {
    switch (common) {
      case code_f16: return cast<acc_t>(cast<f16>(x));
      case code_bf16: return cast<acc_t>(cast<bf16>(x));
      case code_f32: return cast<acc_t>(cast<f32>(x));
    }
  }
  return x;
}

#define GPUTENSOR_INTEGER_CASES(CASE) \
  CASE(b8) CASE(u8) CASE(i8) CASE(u16) CASE(i16) CASE(u32) CASE(i32) CASE(u64) CASE(i64)
#define GPUTENSOR_REAL_CASES(CASE) CASE(f16) CASE(bf16) CASE(f32) CASE(f64)
#define GPUTENSOR_COMPLEX_CASES(CASE) CASE(c64) CASE(c128) CASE(c32)

// out[k] = the element of dtype `code` at base + offset[k]. One branch serves all N elements, so
// that their loads are in flight together. Unless FROM_ANY, the category of the dtype is never
// above the category of the arithmetic type, because of promotion.
template <bool FROM_ANY = false, int N, class acc_t>
DEVICE void fetch(const char* base, const i64 (&offset)[N], int code, int common, acc_t (&out)[N]) {
#define GPUTENSOR_FETCH(T)                               \
  case code_##T:                                         \
    _Pragma("unroll") for (int k = 0; k < N; ++k) {      \
      out[k] = cast<acc_t>(*(const T*)(base + offset[k])); \
    }                                                    \
    break;
  if constexpr (is_integer<acc_t> && !FROM_ANY) {
    switch (code) { GPUTENSOR_INTEGER_CASES(GPUTENSOR_FETCH) }
  } else if constexpr (is_real<acc_t> && !FROM_ANY) {
    switch (code) {
      GPUTENSOR_INTEGER_CASES(GPUTENSOR_FETCH)
      GPUTENSOR_REAL_CASES(GPUTENSOR_FETCH)
    }
  } else {
    switch (code) {
      GPUTENSOR_INTEGER_CASES(GPUTENSOR_FETCH)
      GPUTENSOR_REAL_CASES(GPUTENSOR_FETCH)
      GPUTENSOR_COMPLEX_CASES(GPUTENSOR_FETCH)
    }
  }
#undef GPUTENSOR_FETCH
  if (code != common) {
#pragma unroll
    for (int k = 0; k < N; ++k) out[k] = narrow(out[k], common);
  }
}

// Write the first `count` of the N values to base + offset[k] as dtype `code`.
template <int N, class value_t>
DEVICE void store(char* base, const i64 (&offset)[N], int count, int code,
                  const value_t (&value)[N]) {
#define GPUTENSOR_STORE(T)                                                            \
  case code_##T:                                                                      \
    _Pragma("unroll") for (int k = 0; k < N; ++k) {                                   \
      if (k < count) *(T*)(base + offset[k]) = cast<T>(value[k]);                     \
    }                                                                                 \
    break;
  switch (code) {
    GPUTENSOR_INTEGER_CASES(GPUTENSOR_STORE)
    GPUTENSOR_REAL_CASES(GPUTENSOR_STORE)
    GPUTENSOR_COMPLEX_CASES(GPUTENSOR_STORE)
  }
#undef GPUTENSOR_STORE
}

#endif
