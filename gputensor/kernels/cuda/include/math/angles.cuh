// Functions of angles and their inverses. See elementary.cuh.
#ifndef GPUTENSOR_ANGLES
#define GPUTENSOR_ANGLES

#include "math/elementary.cuh"

namespace elementary {

template <class T> constexpr T FAR_ANGLE = same<T, f32> ? (T)0x1p17f : (T)0x1p40;

template <class T> ELEMENTARY bool is_far_angle(T x) {
  return (size_of(x) > FAR_ANGLE<T>) & (size_of(x) < form<T>::infinity);
}

// x = count * pi / 2 + high + low, |high| <= pi / 4. The lowest bits of the result are those of
// count.
template <class T> struct angle {
  bits_of<T> bits;
  T high, low;
};

template <class T> ELEMENTARY angle<T> angle_of(T x) {
  constexpr T first = (T)1.57079632679489661923;
  constexpr T second = same<T, f32> ? (T)-4.371139e-08 : (T)6.123233995736766e-17;
  constexpr T third = same<T, f32> ? (T)-1.7151245e-15 : (T)-1.4973849048591698e-33;
  const T sum = fma(x, (T)0.63661977236758134308, form<T>::magic), count = sum - form<T>::magic;
  const pair<T> product = product_of(count, second);
  const pair<T> rest = sum_of(fma(-count, first, x), -product.high);  // the first step is exact
  return {bits(sum), rest.high, fma(-count, third, rest.low - product.low)};
}

// (sin(r) - r) / r^3 as a function of r^2, |r| <= pi / 4
template <class T> ELEMENTARY T sin_rest(T z) {
  if constexpr (same<T, f32>) {
    static constexpr f32 c[] = {-0.16666655f, 0.008332184f, -0.0001951702f};
    return polynomial(z, c);
  } else {
    static constexpr f64 c[] = {
        -0.16666666666666632, 0.008333333333322382, -0.00019841269829771538, 2.755731367868748e-06,
        -2.5050755954052786e-08, 1.5896665602822353e-10};
    return polynomial(z, c);
  }
}

// (cos(r) - 1 + r^2 / 2) / r^4 as a function of r^2
template <class T> ELEMENTARY T cos_rest(T z) {
  if constexpr (same<T, f32>) {
    static constexpr f32 c[] = {0.041666646f, -0.0013887343f, 2.4438108e-05f};
    return polynomial(z, c);
  } else {
    static constexpr f64 c[] = {
        0.0416666666666666, -0.001388888888887412, 2.4801587289447507e-05, -2.755731434162673e-07,
        2.087572172505264e-09, -1.1359563444210624e-11};
    return polynomial(z, c);
  }
}

template <class T> ELEMENTARY pair<T> sin_near(angle<T> a) {
  const T z = a.high * a.high;
  return {a.high, fma(sin_rest(z), a.high * z, fma((T)-0.5 * z, a.low, a.low))};
}

template <class T> ELEMENTARY pair<T> cos_near(angle<T> a) {
  const T z = a.high * a.high, half = (T)0.5 * z, high = 1 - half;
  return {high, ((1 - high) - half) + fma(cos_rest(z), z * z, -a.high * a.low)};
}

// sin of the angle, or of the angle + turns * pi / 2.
template <class T> ELEMENTARY T sin_after(angle<T> a, int turns) {
  const pair<T> sin = sin_near(a), cos = cos_near(a);
  const bits_of<T> count = a.bits + turns;
  const T made = (count & 1) ? cos.high + cos.low : sin.high + sin.low;
  return bits_as<T>(bits(made) ^ ((count & 2) << (8 * sizeof(T) - 2)));
}

template <class T> ELEMENTARY T sin(T x) {
  const T made = sin_after(angle_of(size_of(x)), 0);
  return bits_as<T>(bits(made) ^ (bits(x) & form<T>::sign));
}

template <class T> ELEMENTARY T cos(T x) { return sin_after(angle_of(x), 1); }

template <class T> ELEMENTARY T tan(T x) {
  const angle<T> a = angle_of(size_of(x));
  const pair<T> sin_parts = sin_near(a), cos_parts = cos_near(a);
  const pair<T> sin = sum_of_ordered(sin_parts.high, sin_parts.low);
  const pair<T> cos = sum_of_ordered(cos_parts.high, cos_parts.low);
  const bool is_odd = a.bits & 1;
  const pair<T> above = {is_odd ? cos.high : sin.high, is_odd ? cos.low : sin.low};
  const pair<T> below = {is_odd ? sin.high : cos.high, is_odd ? sin.low : cos.low};
  const pair<T> made = quotient_of_pairs(above, below);
  const bits_of<T> turned = a.bits << (8 * sizeof(T) - 1);
  return bits_as<T>(bits(made.high + made.low) ^ turned ^ (bits(x) & form<T>::sign));
}

template <class T> constexpr T HALF_TURN = (T)3.14159265358979323846;
template <class T> constexpr T HALF_TURN_REST =
    same<T, f32> ? (T)-8.742278e-08 : (T)1.2246467991473532e-16;

// (atan(t) - t) / t^3 as a function of t^2, |t| <= 1
template <class T> ELEMENTARY T atan_rest(T z) {
  if constexpr (same<T, f32>) {
    static constexpr f32 c[] = {
        -0.33333302f, 0.19998634f, -0.14265203f, 0.10957338f, -0.08418683f, 0.058219917f,
        -0.031439792f, 0.0110551845f, -0.0018249862f};
    return polynomial(z, c);
  } else {
    static constexpr f64 c[] = {
        -0.33333333333333093, 0.19999999999955145, -0.14285714282784762, 0.11111111013113346,
        -0.09090907109318651, 0.07692281065724095, -0.06666413967353166, 0.058805861798316955,
        -0.05253776067821046, 0.04723189462551449, -0.042214354256581745, 0.03668756675632418,
        -0.029975787126246992, 0.0220727169788307, -0.013982883096379805, 0.0072545084894412235,
        -0.0029146421989118287, 0.0008417736129762063, -0.00015441529367022554,
        1.3449926016451912e-05};
    return polynomial(z, c);
  }
}

// atan(a / b) for 0 <= a <= b, if b and 1 / b are finite and not 0.
template <class T> ELEMENTARY pair<T> atan_of_quotient(T a, T b) {
  const pair<T> t = quotient_of_pairs(pair<T>{a, 0}, pair<T>{b, 0});
  const T z = t.high * t.high;
  // The exact factor of t's rounding error is 1 / (1 + z). 1 - z / 2 is a sufficient approximation.
  return {t.high, fma(atan_rest(z) * z, t.high, fma((T)-0.5 * z, t.low, t.low))};
}

// turn - a, or a
template <class T> ELEMENTARY pair<T> turned(bool is_turned, T turn, T turn_rest, pair<T> a) {
  const pair<T> sum = sum_of_ordered(turn, -a.high);
  return {is_turned ? sum.high : a.high, is_turned ? sum.low + (turn_rest - a.low) : a.low};
}

template <class T> ELEMENTARY T atan(T x) {
  const T size = at_most(size_of(x), same<T, f32> ? (T)1e30 : (T)1e300);
  const bool is_steep = size > 1;
  const pair<T> near = atan_of_quotient(is_steep ? (T)1 : size, is_steep ? size : (T)1);
  const pair<T> made = turned(is_steep, HALF_TURN<T> / 2, HALF_TURN_REST<T> / 2, near);
  return signed_as(made.high + made.low, x);
}

template <class T> ELEMENTARY T atan2(T y, T x) {
  typedef bits_of<T> U;
  const T infinity = form<T>::infinity, a = size_of(y), b = size_of(x);
  const bool is_steep = a > b;
  const T most = is_steep ? a : b, least = is_steep ? b : a;
  // 2^-n if most is near 2^n
  constexpr U one = form<T>::bias << form<T>::fraction;
  const U exponent = bits(at_most(most, same<T, f32> ? (T)0x1p126f : (T)0x1p1022)) & bits(infinity);
  const T scale = bits_as<T>(2 * one - exponent);
  pair<T> near = atan_of_quotient(least * scale, most == 0 ? (T)1 : most * scale);
  const T of_infinite = least == infinity ? HALF_TURN<T> / 4 : (T)0;
  near.high = most == infinity ? of_infinite : near.high;
  near.low = most == infinity ? of_infinite * (HALF_TURN_REST<T> / HALF_TURN<T>) : near.low;
  near = turned(is_steep, HALF_TURN<T> / 2, HALF_TURN_REST<T> / 2, near);
  const bool is_back = bits(x) & form<T>::sign;
  const pair<T> made = turned(is_back, HALF_TURN<T>, HALF_TURN_REST<T>, near);
  return (x != x) | (y != y) ? form<T>::nan : signed_as(made.high + made.low, y);
}

// (asin(t) - t) / t^3 as a function of t^2, |t| <= 1/2
template <class T> ELEMENTARY T asin_rest(T z) {
  if constexpr (same<T, f32>) {
    static constexpr f32 c[] = {0.16666754f, 0.07495235f, 0.045478504f, 0.024139643f, 0.042233743f};
    return polynomial(z, c);
  } else {
    static constexpr f64 c[] = {
        0.16666666666665375, 0.07500000000345093, 0.0446428568217049, 0.030381959407610463,
        0.022371751627295024, 0.017359800589940983, 0.01388429914872154, 0.012175294217231175,
        0.006501937263215121, 0.019598828936257078, -0.0163339628343732, 0.03198681901545259};
    return polynomial(z, c);
  }
}

// asin(size) if size < 1/2; otherwise acos(size), computed by asin(sqrt((1 - size) / 2)).
template <class T> ELEMENTARY pair<T> asin_or_acos(T size) {
  const bool is_near = size < (T)0.5;
  const T z = is_near ? size * size : (T)0.5 - (T)0.5 * size, root = sqrt(z);
  const T rest = size == 1 ? (T)0 : fma(-root, root, z) / (root + root);
  const T t = is_near ? size : root, cube = asin_rest(z) * z * t;
  return {is_near ? t : 2 * t, is_near ? cube : 2 * (cube + rest)};
}

template <class T> ELEMENTARY T asin(T x) {
  const T size = size_of(x);
  const pair<T> part = asin_or_acos(size);
  const pair<T> far = sum_of_ordered(HALF_TURN<T> / 2, -part.high);
  const T made = size < (T)0.5 ? part.high + part.low
                               : far.high + (far.low + (HALF_TURN_REST<T> / 2 - part.low));
  return signed_as(made, x);
}

template <class T> ELEMENTARY T acos(T x) {
  const T size = size_of(x);
  const pair<T> part = asin_or_acos(size);
  const bool is_near = size < (T)0.5, is_back = x < 0;
  const T turn = is_near ? HALF_TURN<T> / 2 : is_back ? HALF_TURN<T> : (T)0;
  const T turn_low = turn * (HALF_TURN_REST<T> / HALF_TURN<T>);
  const bool is_added = is_near == is_back;
  const pair<T> sum = sum_of_ordered(turn, is_added ? part.high : -part.high);
  return sum.high + (sum.low + (turn_low + (is_added ? part.low : -part.low)));
}

}  // namespace elementary

#endif
