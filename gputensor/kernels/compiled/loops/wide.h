// Registers of the capability that the file is compiled for.
#ifndef GPUTENSOR_WIDE
#define GPUTENSOR_WIDE

#include "capability.h"

namespace CAPABILITY {

// A register of T. `fma` returns a * b + c. ROWS x COLUMNS registers of sums use most of the CPU's
// registers.
template <class T> struct wide;
#if defined(__AVX512F__)
#define WIDE(T, TYPE, END)                                                            \
  template <> struct wide<T> {                                                        \
    typedef TYPE type;                                                                \
    static constexpr int LANES = 64 / sizeof(T), ROWS = 8, COLUMNS = 3;               \
    static type zero() { return _mm512_setzero_##END(); }                             \
    static type all(T x) { return _mm512_set1_##END(x); }                             \
    static type load(const T* x) { return _mm512_loadu_##END(x); }                    \
    static void store(T* to, type x) { _mm512_storeu_##END(to, x); }                  \
    static type fma(type a, type b, type c) { return _mm512_fmadd_##END(a, b, c); }   \
  };
WIDE(f32, __m512, ps)
WIDE(f64, __m512d, pd)
#elif defined(__AVX2__)
#define WIDE(T, TYPE, END)                                                            \
  template <> struct wide<T> {                                                        \
    typedef TYPE type;                                                                \
    static constexpr int LANES = 32 / sizeof(T), ROWS = 4, COLUMNS = 3;               \
    static type zero() { return _mm256_setzero_##END(); }                             \
    static type all(T x) { return _mm256_set1_##END(x); }                             \
    static type load(const T* x) { return _mm256_loadu_##END(x); }                    \
    static void store(T* to, type x) { _mm256_storeu_##END(to, x); }                  \
    static type fma(type a, type b, type c) { return _mm256_fmadd_##END(a, b, c); }   \
  };
WIDE(f32, __m256, ps)
WIDE(f64, __m256d, pd)
#else
#define WIDE(T, TYPE, END)                                                            \
  template <> struct wide<T> {                                                        \
    typedef TYPE type;                                                                \
    static constexpr int LANES = 16 / sizeof(T), ROWS = 8, COLUMNS = 3;               \
    static type zero() { return vdupq_n_##END(0); }                                   \
    static type all(T x) { return vdupq_n_##END(x); }                                 \
    static type load(const T* x) { return vld1q_##END(x); }                           \
    static void store(T* to, type x) { vst1q_##END(to, x); }                          \
    static type fma(type a, type b, type c) { return vfmaq_##END(c, a, b); }          \
  };
WIDE(f32, float32x4_t, f32)
WIDE(f64, float64x2_t, f64)
#endif
#undef WIDE

}  // namespace CAPABILITY

#endif
