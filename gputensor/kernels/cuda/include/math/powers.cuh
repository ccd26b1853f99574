// Functions of two numbers: pow, hypot, fmod, nextafter. See elementary.cuh.
#ifndef GPUTENSOR_POWERS
#define GPUTENSOR_POWERS

#include "math/logarithms.cuh"

namespace elementary {

// x clamped to [-most, most]; NaN stays.
template <class T> ELEMENTARY T within(T x, T most) {
  return signed_as(at_most(size_of(x), most), x);
}

// |x|^y is 2^(y log2 |x|). The factor y multiplies the logarithm's error by up to 1100. So the
// logarithm is computed in f64 for f32, and as a sum of two numbers for f64.
ELEMENTARY f32 power_of_size(f32 x, f32 y) {
  static constexpr f64 log2_terms[] = {
      2.8853900817902027, 0.9617966732061922, 0.577083610707686, 0.4116711716428975,
      0.34075888068906324};
  static constexpr f64 exp2_terms[] = {
      0.6931471807048416, 0.24022651067587436, 0.055504103653734635, 0.009618037959622683,
      0.0013333935188207802, 0.00015466817357888909, 1.5196224442406471e-05};
  const parted<f32> p = parts_of_any(x);
  const f64 f = (f64)p.fraction - 1, s = f / (2 + f);
  const f64 power = within(y * fma(polynomial(s * s, log2_terms), s, (f64)p.count), 300.0);
  const f64 sum = power + form<f64>::magic, r = power - (sum - form<f64>::magic);
  const f64 scale = power_of_two<f64>(bits(sum) - bits(form<f64>::magic) + form<f64>::bias);
  return (f32)(fma(polynomial(r, exp2_terms), r, 1.0) * scale);
}

ELEMENTARY f64 power_of_size(f64 x, f64 y) {
  static constexpr f64 c[] = {
      0.3999999999999998, 0.2857142857144512, 0.22222222217510543, 0.18181818873498154,
      0.1538455665318918, 0.1333632581964131, 0.1167464759982982, 0.11990439411848372};
  constexpr f64 third = 0.66666666666666663, third_low = 3.700743415417188e-17;
  constexpr f64 log2e_low = 2.0355273740931033e-17;
  const parted<f64> p = parts_of_any(x);
  const f64 f = p.fraction - 1;
  const pair<f64> below = sum_of_ordered(2.0, f);
  const pair<f64> s = quotient_of_pairs(pair<f64>{f, 0}, below);
  pair<f64> z = product_of(s.high, s.high);
  z.low = fma(2 * s.high, s.low, z.low);
  // log(fraction) = 2 s + s z (2/3 + z …)
  pair<f64> sum = sum_of_ordered(third, z.high * polynomial(z.high, c));
  sum.low += third_low;
  pair<f64> u = product_of(z.high, sum.high);
  u.low += fma(z.high, sum.low, z.low * sum.high);
  pair<f64> v = product_of(s.high, u.high);
  v.low += fma(s.high, u.low, s.low * u.high);
  pair<f64> log = sum_of_ordered(2 * s.high, v.high);
  log.low += fma(2.0, s.low, v.low);
  pair<f64> log2 = product_of(log.high, LOG2E<f64>);
  log2.low += fma(log.high, log2e_low, log.low * LOG2E<f64>);
  const pair<f64> whole = sum_of_ordered(p.count, log2.high);
  const f64 log2_low = whole.low + log2.low;

  pair<f64> power = product_of(y, whole.high);
  power.low = size_of(power.high) < 1100 ? fma(y, log2_low, power.low) : 0;
  power.high = within(power.high, 1100.0);
  const f64 nearest = power.high + form<f64>::magic;
  const f64 r = power.high - (nearest - form<f64>::magic);
  pair<f64> e = product_of(r, LN2_HIGH<f64>);
  e = sum_of_ordered(e.high, fma(r, LN2_REST<f64>, fma(power.low, LN2_HIGH<f64>, e.low)));
  const f64 made = fma(exp_rest(e.high), e.high * e.high, e.low) + e.high;
  return scaled(1 + made, bits(nearest) - bits(form<f64>::magic));
}

ELEMENTARY f32 nearest(f32 x) { return __builtin_rintf(x); }
ELEMENTARY f64 nearest(f64 x) { return __builtin_rint(x); }

ELEMENTARY f32 truncated(f32 x) { return __builtin_truncf(x); }
ELEMENTARY f64 truncated(f64 x) { return __builtin_trunc(x); }

template <class T> ELEMENTARY T pow(T x, T y) {
  const T size = size_of(x), infinity = form<T>::infinity;
  T made = power_of_size(size, within(y, same<T, f32> ? (T)1e30 : (T)1e300));
  const T edge = (size == 0) == (y < 0) ? infinity : (T)0;
  made = (size == 0) | (size == infinity) ? edge : made;
  const T half = y * (T)0.5;
  const bool is_whole = nearest(y) == y, is_odd = is_whole & (nearest(half) != half);
  made = is_odd ? signed_as(made, x) : made;
  made = (x < 0) & (size < infinity) & !is_whole ? form<T>::nan : made;
  made = (x != x) | (y != y) ? form<T>::nan : made;
  return (y == 0) | (x == 1) ? (T)1 : made;
}

// sqrt(x^2 + y^2). f32 is computed in f64, so that squares do not overflow or lose bits.
ELEMENTARY f32 size_of_both(f32 x, f32 y) { return (f32)sqrt((f64)x * x + (f64)y * y); }

ELEMENTARY f64 size_of_both(f64 x, f64 y) {
  const f64 most = x < y ? y : x, least = x < y ? x : y;
  const bool is_large = most > 0x1p500, is_small = most < 0x1p-400;
  const f64 scale = is_large ? 0x1p-600 : is_small ? 0x1p600 : 1.0;
  const f64 back = is_large ? 0x1p600 : is_small ? 0x1p-600 : 1.0;
  const pair<f64> a = product_of(most * scale, most * scale);
  const pair<f64> b = product_of(least * scale, least * scale);
  const pair<f64> sum = sum_of_ordered(a.high, b.high);
  const f64 root = sqrt(sum.high);
  const f64 rest = fma(-root, root, sum.high) + (sum.low + (a.low + b.low));
  const f64 made = root + rest / (root + root);
  return most == 0 ? most : made * back;
}

template <class T> ELEMENTARY T hypot(T x, T y) {
  const T infinity = form<T>::infinity;
  T made = size_of_both(size_of(x), size_of(y));
  made = (x != x) | (y != y) ? form<T>::nan : made;
  return (size_of(x) == infinity) | (size_of(y) == infinity) ? infinity : made;
}

// True if the integer part of the rounded quotient may be wrong by more than 1.
template <class T> ELEMENTARY bool is_far_quotient(T x, T y) {
  const T most = same<T, f32> ? (T)0x1p22f : (T)0x1p51;
  return (size_of(x) > most * size_of(y)) & (y != 0);
}

template <class T> ELEMENTARY T fmod(T x, T y) {
  const T a = size_of(x), b = size_of(y);
  T rest = fma(-truncated(a / b), b, a);  // exact; the quotient may be too large by one
  rest = rest < 0 ? rest + b : rest;
  const T made = b == form<T>::infinity ? a - (a - a) : rest;
  return signed_as(made, x);
}

// The next number after x towards y. As integers, the bits of |x| count the numbers from 0 on.
template <class T> ELEMENTARY T nextafter(T x, T y) {
  typedef bits_of<T> U;
  const U one = 1, sign = bits(y) & form<T>::sign;
  const bool is_away = (y > x) == (x > 0);
  const T made = bits_as<T>(is_away ? bits(x) + one : bits(x) - one);
  const T step = x == 0 ? bits_as<T>(sign | one) : made;
  const T stay = x == y ? y : step;
  return (x != x) | (y != y) ? form<T>::nan : stay;
}

}  // namespace elementary

#endif
