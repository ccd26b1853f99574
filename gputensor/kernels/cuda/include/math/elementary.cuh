// Elementary functions of f32 and f64 that the compiler vectorises: no branches, tables or calls.
// In the CPU library (GPUTENSOR_LOOPS) math_exp, math_sin, … of arithmetic.cuh and functions.cuh
// call these functions; on a GPU and on the emulator they call the C library's functions. NaN,
// infinities, signed zeros and denormals follow C99. docs/measurements/numbers.md has the largest
// errors, which bench/accuracy/ulp.py measures.
// Note [Rare elements]: sin, cos and tan are accurate for |x| <= FAR_ANGLE. Larger elements are
// rare and computed by a function call. A functor F of one angle has F::is_rare and F::rare, for
// f32 or f64. F::rare is accurate for all elements. A loop over a block of inputs x (out may be x):
//   if (any F::is_rare(x[i])) for each i: out[i] = F::is_rare(x[i]) ? F::rare(x[i]) : F::of(x[i]);
//   else for each i: out[i] = F::of(x[i]);
//
// Numbers  compile with -ffp-contract=off, so that a sum and its rounding error stay separate.
// Source   coefficients are minimax polynomials, made by bench/accuracy/minimax.py.
#ifndef GPUTENSOR_ELEMENTARY
#define GPUTENSOR_ELEMENTARY

#include "types.cuh"

#define ELEMENTARY __attribute__((always_inline)) inline

namespace elementary {

// magic: if it is added to a number, the lowest bits of the sum are the nearest integer.
template <class T> struct form;
template <> struct form<f32> {
  typedef u32 bits;
  static constexpr int fraction = 23;
  static constexpr u32 bias = 127, sign = 0x80000000u;
  static constexpr f32 magic = 12582912.0f, infinity = __builtin_inff(), nan = __builtin_nanf("");
};
template <> struct form<f64> {
  typedef u64 bits;
  static constexpr int fraction = 52;
  static constexpr u64 bias = 1023, sign = 0x8000000000000000ull;
  static constexpr f64 magic = 6755399441055744.0, infinity = __builtin_inf(),
                       nan = __builtin_nan("");
};
template <class T> using bits_of = typename form<T>::bits;

ELEMENTARY f32 fma(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
ELEMENTARY f64 fma(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
ELEMENTARY f32 sqrt(f32 x) { return __builtin_sqrtf(x); }
ELEMENTARY f64 sqrt(f64 x) { return __builtin_sqrt(x); }
ELEMENTARY f32 size_of(f32 x) { return __builtin_fabsf(x); }
ELEMENTARY f64 size_of(f64 x) { return __builtin_fabs(x); }
ELEMENTARY f32 signed_as(f32 x, f32 y) { return __builtin_copysignf(x, y); }
ELEMENTARY f64 signed_as(f64 x, f64 y) { return __builtin_copysign(x, y); }

template <class T> ELEMENTARY bits_of<T> bits(T x) { return bits_as<bits_of<T>>(x); }
// The power of 2 with these exponent bits, including the bias.
template <class T> ELEMENTARY T power_of_two(bits_of<T> exponent) {
  return bits_as<T>(exponent << form<T>::fraction);
}

// c[FROM] + c[FROM + 1] x + …, COUNT terms, by Estrin's scheme, in which few steps depend on each
// other.
template <int FROM, int COUNT, class T, int N>
ELEMENTARY T terms(const T (&c)[N], T x, T x2, T x4, T x8) {
  if constexpr (COUNT == 1) {
    return c[FROM];
  } else {
    constexpr int HALF = COUNT > 8 ? 8 : COUNT > 4 ? 4 : COUNT > 2 ? 2 : 1;
    const T power = HALF == 8 ? x8 : HALF == 4 ? x4 : HALF == 2 ? x2 : x;
    return fma(terms<FROM + HALF, COUNT - HALF>(c, x, x2, x4, x8), power,
               terms<FROM, HALF>(c, x, x2, x4, x8));
  }
}
// c[0] + c[1] x + …. The last STEPS steps use Horner's scheme, because their rounding errors matter
// most.
template <int STEPS = 1, int FROM = 0, class T, int N>
ELEMENTARY T polynomial(T x, const T (&c)[N]) {
  if constexpr (FROM < STEPS) {
    return fma(polynomial<STEPS, FROM + 1>(x, c), x, c[FROM]);
  } else {
    const T x2 = x * x, x4 = x2 * x2;
    return terms<FROM, N - FROM>(c, x, x2, x4, x4 * x4);
  }
}

// The number high + low, where low is about as small as a rounding error of high.
template <class T> struct pair { T high, low; };

// min(x, most); NaN stays.
template <class T> ELEMENTARY T at_most(T x, T most) { return most < x ? most : x; }

// a + b with its rounding error; |a| >= |b| or a is 0.
template <class T> ELEMENTARY pair<T> sum_of_ordered(T a, T b) {
  const T sum = a + b;
  return {sum, b - (sum - a)};
}
template <class T> ELEMENTARY pair<T> sum_of(T a, T b) {
  const T sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}
template <class T> ELEMENTARY pair<T> product_of(T a, T b) {
  const T product = a * b;
  return {product, fma(a, b, -product)};
}
template <class T> ELEMENTARY pair<T> quotient_of_pairs(pair<T> a, pair<T> b) {
  const T share = 1 / b.high, quotient = a.high * share;
  return {quotient, share * (fma(-quotient, b.high, a.high) + fma(-quotient, b.low, a.low))};
}

}  // namespace elementary

#include "math/angles.cuh"
#include "math/exponentials.cuh"
#include "math/logarithms.cuh"
#include "math/powers.cuh"

#endif
