// Random numbers of distributions, computed from Philox words, for the CUDA kernel and the CPU's
// loops. kernels/cpu/random.py defines their bits. These are equal on all devices, except for the
// last bits of a logarithm, a root or an angle.
#ifndef GPUTENSOR_DRAWS
#define GPUTENSOR_DRAWS

#include "math/arithmetic.cuh"

// The type in which numbers for T are computed.
template <class T> struct computed { typedef f64 type; };
template <> struct computed<f32> { typedef f32 type; };
template <> struct computed<f16> { typedef f32 type; };
template <> struct computed<bf16> { typedef f32 type; };
template <class T> using wide = typename computed<T>::type;

// Convert a number up to 2^53 to f64, exactly.
DEVICE f64 as_f64(u64 x) {
#ifdef GPUTENSOR_LOOPS  // CPUs have no vector instruction for this
  const f64 high = bits_as<f64>(x >> 32 | 0x4530000000000000ull);         // 2^84 + the upper half
  const f64 low = bits_as<f64>((x & 0xffffffff) | 0x4330000000000000ull);  // 2^52 + the lower half
  return high - 19342813118337666422669312.0 + low;  // 2^84 + 2^52
#else
  return (f64)x;
#endif
}

// Numbers in [0, 1), with as many bits as T can represent.
template <class T> DEVICE wide<T> unit_of(u64 bits) {
  if constexpr (same<T, f64>) {
    return as_f64(bits >> 11) * 1.1102230246251565e-16;  // 2^-53
  } else if constexpr (same<T, f32>) {
    return (f32)(i32)(bits >> 40) * 5.9604644775390625e-8f;  // 2^-24
  } else if constexpr (same<T, f16>) {
    return (f32)(i32)(bits >> 53) * 4.8828125e-4f;  // 2^-11
  } else {
    return (f32)(i32)(bits >> 56) * 3.90625e-3f;  // 2^-8
  }
}

// Numbers in (0, 1).
template <class W> DEVICE W inside(u64 bits) {
  if constexpr (same<W, f64>) {
    return as_f64(bits >> 11 | 1) * 1.1102230246251565e-16;  // 2^-53
  } else {
    const f32 made = (f32)(i32)(bits >> 33 | 1) * 4.656612873077393e-10f;  // 2^-31
    return made < 0.99999994f ? made : 0.99999994f;
  }
}

// A pair of normal numbers is size * cos(angle) and size * sin(angle). size is the root of -2 times
// the logarithm of the first word's number; angle comes from the second word. Source: Box and
// Muller (1958).
template <class W> DEVICE W normal_size(u64 bits) {
  W made;
  if constexpr (same<W, f64>) {
    made = as_f64((bits >> 11) + 1) * 1.1102230246251565e-16;
  } else {
    made = (f32)(i32)((bits >> 34) + 1) * 9.313225746154785e-10f;  // 2^-30
  }
  return math_sqrt(math_log(made) * -2);
}

template <class W> DEVICE W normal_angle(u64 bits) {
  if constexpr (same<W, f64>) {
    return as_f64(bits >> 11) * 6.975736996017264e-16;  // 2 pi 2^-53
  } else {
    return (f32)(i32)(bits >> 40) * 3.745070282923847e-7f;  // 2 pi 2^-24
  }
}

template <class W> DEVICE W cauchy_unit(u64 bits) {
  const W angle = (inside<W>(bits) - (W)0.5) * (W)3.141592653589793;
  return near_sin(angle) / near_cos(angle);
}

// scale: 1 / log1p(-p)
template <class W> DEVICE W tries_of(u64 bits, W scale) {
  return -math_floor(-(math_log(inside<W>(bits)) * scale));
}

template <class T> DEVICE T from_integer(u64 made) {
  if constexpr (is_integer<T>) {
    return (T)made;
  } else {
    return cast<T>((wide<T>)(i64)made);
  }
}

#endif
