// log and functions based on it: log2, log10, log1p, asinh, acosh, atanh. See elementary.cuh.
#ifndef GPUTENSOR_LOGARITHMS
#define GPUTENSOR_LOGARITHMS

#include "math/exponentials.cuh"

namespace elementary {

// The first part has trailing zeros, so its product with an exponent is exact.
template <class T> constexpr T LN2_SHORT = same<T, f32> ? (T)0.69314575 : (T)0.6931471805598903;
template <class T> constexpr T LN2_AFTER =
    same<T, f32> ? (T)1.4286068e-06 : (T)5.497923018708371e-14;

// x = 2^count * fraction, fraction in [sqrt(1/2), sqrt(2)). x must be positive and not denormal.
template <class T> struct parted { T count, fraction; };

template <class T> ELEMENTARY parted<T> parts_of(T x) {
  typedef bits_of<T> U;
  constexpr int SHIFT = form<T>::fraction;
  const U root = same<T, f32> ? (U)0x3f3504f3 : (U)0x3fe6a09e667f3bcdull;
  const U from_root = bits(x) - root + (form<T>::bias << SHIFT), exponent = from_root >> SHIFT;
  const T fraction = bits_as<T>((from_root & (((U)1 << SHIFT) - 1)) + root);
  // Convert the exponent to floating point, by the lowest bits of 1.5 * 2^SHIFT.
  const T count = bits_as<T>(exponent + bits(form<T>::magic)) - (form<T>::magic + (T)form<T>::bias);
  return {count, fraction};
}

// log(1 + f + f_low), for 1 + f in [sqrt(1/2), sqrt(2))
template <class T> ELEMENTARY pair<T> log_of_fraction(T f, T f_low) {
  const T half_square = (T)0.5 * f * f, high = f - half_square;
  const T rest = (f - high) - half_square;
  if constexpr (same<T, f32>) {
    static constexpr f32 c[] = {
        0.33333313f, -0.25000012f, 0.20002119f, -0.1666797f, 0.14219317f, -0.124052554f,
        0.11889346f, -0.11678212f, 0.06747015f};
    const T slope = fma(f, f, 1 - f);  // 1 / (1 + f)
    return {high, fma(polynomial(f, c) * f, f * f, fma(slope, f_low, rest))};
  } else {
    static constexpr f64 c[] = {
        0.6666666666666735, 0.3999999999941105, 0.28571428743258526, 0.22222198475738072,
        0.18183569779623654, 0.1531390168039795, 0.1479752772679401};
    const T share = 1 / (2 + f), s = f * share, z = s * s;
    const T made = s * fma(polynomial(z, c), z, half_square);
    return {high, made + fma(fma(f, f, 1 - f), f_low, rest)};
  }
}

template <class T> ELEMENTARY T log_at_edges(T x, T made) {
  made = x < form<T>::infinity ? made : x;  // NaN, too
  made = x == 0 ? -form<T>::infinity : made;
  return x < 0 ? form<T>::nan : made;
}

template <class T> ELEMENTARY T log_from(T count, pair<T> rest) {
  const pair<T> sum = sum_of_ordered(count * LN2_SHORT<T>, rest.high);
  return sum.high + (sum.low + fma(count, LN2_AFTER<T>, rest.low));
}

// parts_of for x that may be denormal: x is scaled first.
template <class T> ELEMENTARY parted<T> parts_of_any(T x) {
  const T least = same<T, f32> ? (T)1.17549435e-38 : (T)2.2250738585072014e-308;
  const T raise = same<T, f32> ? (T)16777216 : (T)18014398509481984;  // 2^24, 2^54
  parted<T> made = parts_of(x < least ? x * raise : x);
  made.count -= x < least ? (same<T, f32> ? (T)24 : (T)54) : (T)0;
  return made;
}

template <class T> ELEMENTARY T log(T x) {
  const parted<T> p = parts_of_any(x);
  return log_at_edges(x, log_from(p.count, log_of_fraction(p.fraction - 1, (T)0)));
}

template <class T> ELEMENTARY T log2(T x) {
  constexpr T rest = same<T, f32> ? (T)1.925963e-08 : (T)2.0355273740931033e-17;  // of LOG2E
  const parted<T> p = parts_of_any(x);
  const pair<T> log = log_of_fraction(p.fraction - 1, (T)0);
  const pair<T> product = product_of(log.high, LOG2E<T>);
  const T low = fma(log.low, LOG2E<T>, fma(log.high, rest, product.low));
  const pair<T> sum = sum_of_ordered(p.count, product.high);
  return log_at_edges(x, sum.high + (sum.low + low));
}

template <class T> ELEMENTARY T log10(T x) {
  constexpr T log10e = (T)0.43429448190325182765;
  constexpr T rest = same<T, f32> ? (T)-1.010305e-08 : (T)1.098319650216765e-17;
  // log10(2) in two parts, like LN2_SHORT and LN2_AFTER
  constexpr T two = same<T, f32> ? (T)0.30103302 : (T)0.30102999566395283;
  constexpr T two_rest = same<T, f32> ? (T)-3.0243555e-06 : (T)2.8363394551044964e-14;
  const parted<T> p = parts_of_any(x);
  const pair<T> log = log_of_fraction(p.fraction - 1, (T)0);
  const pair<T> product = product_of(log.high, log10e);
  const T low = fma(log.low, log10e, fma(log.high, rest, product.low));
  const pair<T> sum = sum_of_ordered(p.count * two, product.high);
  return log_at_edges(x, sum.high + (sum.low + fma(p.count, two_rest, low)));
}

// log(2^raise (1 + x + x_low)) for x > -1
template <class T> ELEMENTARY T log1p_of(T x, T x_low, T raise) {
  const pair<T> sum = sum_of((T)1, x);
  const parted<T> p = parts_of(sum.high);
  // 2^-count. It overflows only for the largest counts, for which the low part does not matter.
  const T scale = bits_as<T>(bits((T)1) + bits(p.fraction) - bits(sum.high));
  const T low = p.count > 80 ? (T)0 : (sum.low + x_low) * scale;
  const pair<T> f = sum_of_ordered(p.fraction - 1, low);
  return log_from(p.count + raise, log_of_fraction(f.high, f.low));
}

template <class T> ELEMENTARY T log1p(T x) {
  T made = log1p_of(x, (T)0, (T)0);
  made = x < form<T>::infinity ? made : x;  // NaN, too
  made = size_of(x) < (same<T, f32> ? (T)1e-8 : (T)1e-17) ? x : made;
  made = x == -1 ? -form<T>::infinity : made;
  return x < -1 ? form<T>::nan : made;
}

// For larger x, x^2 + 1 rounds to x^2, in asinh and acosh.
template <class T> constexpr T LARGE_ROOT = same<T, f32> ? (T)16384 : (T)1073741824;
// Below this an odd function x + c x^3 + …, |c| <= 1/3, rounds to x.
template <class T> constexpr T SMALL_CUBE = same<T, f32> ? (T)1e-4 : (T)1e-8;

template <class T> ELEMENTARY T asinh(T x) {
  const T size = size_of(x), square = size * size;
  const pair<T> sum = sum_of_ordered(size, square / (1 + sqrt(1 + square)));
  // log(x + sqrt(x^2 + 1)), or log(2 x) as log(2 (1 + x - 1))
  const bool is_large = size > LARGE_ROOT<T>;
  T made = log1p_of(is_large ? size : sum.high, is_large ? (T)-1 : sum.low, is_large ? (T)1 : (T)0);
  made = size < form<T>::infinity ? made : size;  // NaN, too
  return size < SMALL_CUBE<T> ? x : signed_as(made, x);
}

template <class T> ELEMENTARY T acosh(T x) {
  const T t = x - 1;
  const pair<T> product = product_of(t, t);
  pair<T> square = sum_of(t + t, product.high);
  square.low += product.low;
  const T root = sqrt(square.high);
  const T root_low = (fma(-root, root, square.high) + square.low) / (root + root);
  pair<T> sum = sum_of_ordered(root, t);
  sum.low += t == 0 ? (T)0 : root_low;
  const bool is_large = x > LARGE_ROOT<T>;
  T made = log1p_of(is_large ? x : sum.high, is_large ? (T)-1 : sum.low, is_large ? (T)1 : (T)0);
  made = x < form<T>::infinity ? made : x;
  return x < 1 ? form<T>::nan : made;
}

template <class T> ELEMENTARY T atanh(T x) {
  const T size = size_of(x);
  const pair<T> below = sum_of_ordered((T)1, -size);
  const pair<T> share = quotient_of_pairs(pair<T>{2 * size, 0}, below);
  T made = (T)0.5 * log1p_of(share.high, share.low, (T)0);
  made = size == 1 ? form<T>::infinity : made;
  made = size <= 1 ? made : form<T>::nan;
  return size < SMALL_CUBE<T> ? x : signed_as(made, x);
}

}  // namespace elementary

#endif
