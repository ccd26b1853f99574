// Included first by every file of loops/. It contains the types and functors of the CUDA kernels,
// in a namespace for the capability that the file is compiled for. So the linker cannot replace a
// function by the same function compiled for another capability.
#ifndef GPUTENSOR_CAPABILITY_H
#define GPUTENSOR_CAPABILITY_H

#include <assert.h>
#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "../engine/abi.h"

#ifndef CAPABILITY
#define CAPABILITY avx2
#endif

#define GPUTENSOR_LOOPS  // include/: elementary functions that vectorise
#define __device__
#define __forceinline__ inline
#define __host__

namespace CAPABILITY {
#include "dtypes.cuh"

using abi::Call;
using abi::Scalar;

// A body of abi::Share whose context has a type. A reference is passed like a pointer.
template <class T> static abi::Body as_body(void (*body)(T& context, i64 first, i64 last)) {
  return (abi::Body)body;
}

// Run body(first, last) over parts of [0, units), `step` units at a time: see abi::Share.
template <class F>
static void in_parts(const Call& call, i64 units, i64 step, const F& body) {
  call.share([](void* f, i64 first, i64 last) { (*(const F*)f)(first, last); }, (void*)&body, units,
             step);
}

// A function of arrays of f32 or f64; the first array has the dtype.
template <abi::Function OF_F32, abi::Function OF_F64> static i64 by_dtype(const Call& call) {
  return call.array[0].dtype == abi::f64 ? OF_F64(call) : OF_F32(call);
}

// dtype -> the code of core/dtype.py.
template <class T> constexpr abi::byte code_of = 255;
template <> constexpr abi::byte code_of<b8> = abi::b8;
template <> constexpr abi::byte code_of<u8> = abi::u8;
template <> constexpr abi::byte code_of<i8> = abi::i8;
template <> constexpr abi::byte code_of<u16> = abi::u16;
template <> constexpr abi::byte code_of<i16> = abi::i16;
template <> constexpr abi::byte code_of<u32> = abi::u32;
template <> constexpr abi::byte code_of<i32> = abi::i32;
template <> constexpr abi::byte code_of<u64> = abi::u64_;
template <> constexpr abi::byte code_of<i64> = abi::i64_;
template <> constexpr abi::byte code_of<f16> = abi::f16;
template <> constexpr abi::byte code_of<bf16> = abi::bf16;
template <> constexpr abi::byte code_of<f32> = abi::f32;
template <> constexpr abi::byte code_of<f64> = abi::f64;
template <> constexpr abi::byte code_of<c64> = abi::c64;
template <> constexpr abi::byte code_of<c128> = abi::c128;
template <> constexpr abi::byte code_of<c32> = abi::c32;

// Convert the first HALVES (or fewer) elements of f16 or bf16 to or from f32. The compiler
// vectorises the conversion of bf16, but not of f16.
constexpr int HALVES = 64;

template <class T> static inline void widen_all(f32* to, const T* from) {
#if defined(__F16C__)
  if constexpr (same<T, f16>) {
#pragma GCC unroll 8
    for (int k = 0; k < HALVES; k += 8)
      _mm256_storeu_ps(to + k, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(from + k))));
    return;
  }
#elif defined(__aarch64__)
  if constexpr (same<T, f16>) {
    for (int k = 0; k < HALVES; k += 4)
      vst1q_f32(to + k, vcvt_f32_f16(vld1_f16((const __fp16*)(from + k))));
    return;
  }
#endif
  for (int k = 0; k < HALVES; ++k) to[k] = to_float(from[k]);
}

template <class T> static inline void narrow_all(T* to, const f32* from) {
#if defined(__F16C__)
  if constexpr (same<T, f16>) {
#pragma GCC unroll 8
    for (int k = 0; k < HALVES; k += 8)
      _mm_storeu_si128((__m128i*)(to + k),
                       _mm256_cvtps_ph(_mm256_loadu_ps(from + k), _MM_FROUND_TO_NEAREST_INT));
    return;
  }
#elif defined(__aarch64__)
  if constexpr (same<T, f16>) {
    for (int k = 0; k < HALVES; k += 4)
      vst1_f16((__fp16*)(to + k), vcvt_f16_f32(vld1q_f32(from + k)));
    return;
  }
#endif
  for (int k = 0; k < HALVES; ++k) to[k] = cast<T>(from[k]);
}

// Convert the first `n` elements, in groups.
template <class T> static inline void widen_some(f32* to, const T* from, i64 n) {
  i64 i = 0;
  for (; i + HALVES <= n; i += HALVES) widen_all(to + i, from + i);
  for (; i < n; ++i) to[i] = to_float(from[i]);
}
template <class T> static inline void narrow_some(T* to, const f32* from, i64 n) {
  i64 i = 0;
  for (; i + HALVES <= n; i += HALVES) narrow_all(to + i, from + i);
  for (; i < n; ++i) to[i] = cast<T>(from[i]);
}

}  // namespace CAPABILITY

#endif
