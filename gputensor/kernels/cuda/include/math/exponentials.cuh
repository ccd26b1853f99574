// exp and functions based on it: exp2, expm1, sinh, cosh, tanh, erf, erfc. See elementary.cuh.
#ifndef GPUTENSOR_EXPONENTIALS
#define GPUTENSOR_EXPONENTIALS

#include "math/elementary.cuh"

namespace elementary {

template <class T> constexpr T LOG2E = (T)1.4426950408889634074;
template <class T> constexpr T LN2_HIGH = (T)0.69314718055994530942;
template <class T> constexpr T LN2_REST =
    same<T, f32> ? (T)-1.9046542e-09 : (T)2.3190468138462996e-17;

// x = count ln2 + high + low; |high| <= ln2 / 2. `bits` is count in two's complement.
template <class T> struct exponent {
  bits_of<T> bits;
  T high, low;
};

template <class T> ELEMENTARY exponent<T> exponent_of(T x) {
  const T sum = fma(x, LOG2E<T>, form<T>::magic), count = sum - form<T>::magic;
  const T near = fma(-count, LN2_HIGH<T>, x);  // exact
  const T high = fma(-count, LN2_REST<T>, near);
  return {bits(sum) - bits(form<T>::magic), high, fma(-count, LN2_REST<T>, near - high)};
}

// (exp(r) - 1 - r) / r^2 for |r| <= ln2 / 2
template <class T> ELEMENTARY T exp_rest(T r) {
  if constexpr (same<T, f32>) {
    static constexpr f32 c[] = {0.49999994f, 0.16666521f, 0.04166833f, 0.008368708f, 0.0013814634f};
    return polynomial(r, c);
  } else {
    static constexpr f64 c[] = {
        0.5, 0.16666666666666677, 0.04166666666666652, 0.008333333333321633, 0.0013888888888962875,
        0.00019841269886071905, 2.4801587171717398e-05, 2.7557244255244393e-06,
        2.7557403218988974e-07, 2.51090241588077e-08, 2.087519079420158e-09};
    return polynomial(r, c);
  }
}

// (2^r - 1) / r for |r| <= 1/2
template <class T> ELEMENTARY T exp2_share(T r) {
  if constexpr (same<T, f32>) {
    static constexpr f32 c[] = {
        0.6931472f, 0.24022646f, 0.055503447f, 0.009618545f, 0.0013399068f, 0.00015352748f};
    return polynomial(r, c);
  } else {
    static constexpr f64 c[] = {
        0.6931471805599453, 0.2402265069591013, 0.05550410866482025, 0.009618129107594,
        0.0013333558146776904, 0.0001540353045731009, 1.5252733491779917e-05,
        1.3215435177207191e-06, 1.0178199927914012e-07, 7.073802531502249e-09,
        4.4347466188510884e-10};
    return polynomial(r, c);
  }
}

// y * 2^n, correct even if 2^n overflows or the result is denormal. n is in two's complement.
template <class T> ELEMENTARY T scaled(T y, bits_of<T> n) {
  const bits_of<T> both = n + 2 * form<T>::bias, half = both >> 1;
  return y * power_of_two<T>(half) * power_of_two<T>(both - half);
}

template <class T> ELEMENTARY T exp(T x) {
  const T least = same<T, f32> ? (T)-104 : (T)-746, most = same<T, f32> ? (T)89 : (T)710;
  const T at = at_most(x, most);
  const T sum = fma(at, LOG2E<T>, form<T>::magic), count = sum - form<T>::magic;
  const T r = fma(-count, LN2_REST<T>, fma(-count, LN2_HIGH<T>, at));
  const T made = scaled(fma(exp_rest(r), r * r, r) + 1, bits(sum) - bits(form<T>::magic));
  return x < least ? (T)0 : made;
}

// exp(x) for x <= 0, with the same bits as exp in fewer steps. A factor keeps 2^count normal.
template <class T> ELEMENTARY T exp_below_zero(T x) {
  constexpr bits_of<T> shift = same<T, f32> ? 64 : 512;
  const T back = same<T, f32> ? (T)5.421010862427522e-20 : (T)7.458340731200207e-155;  // 2^-shift
  const T sum = fma(x, LOG2E<T>, form<T>::magic), count = sum - form<T>::magic;
  const T r = fma(-count, LN2_REST<T>, fma(-count, LN2_HIGH<T>, x));
  const T scale = power_of_two<T>(bits(sum) + (form<T>::bias + shift - bits(form<T>::magic)));
  const T made = (fma(exp_rest(r), r * r, r) + 1) * scale * back;
  return x < (same<T, f32> ? (T)-104 : (T)-746) ? (T)0 : made;
}

template <class T> ELEMENTARY T exp2(T x) {
  const T least = same<T, f32> ? (T)-151 : (T)-1076, most = same<T, f32> ? (T)128 : (T)1024;
  const T at = at_most(x, most), sum = at + form<T>::magic, r = at - (sum - form<T>::magic);
  const T made = scaled(fma(exp2_share(r), r, (T)1), bits(sum) - bits(form<T>::magic));
  return x < least ? (T)0 : made;
}

// (exp(x) - 1) / 2, if exp(x) / 2 is finite and x > -18 (f32), -40 (f64).
template <class T> ELEMENTARY pair<T> half_expm1(T x) {
  const exponent<T> e = exponent_of(x);
  const T scale = power_of_two<T>(e.bits + (form<T>::bias - 1));
  const pair<T> sum = sum_of_ordered(scale - (T)0.5, scale * e.high);
  return {sum.high, sum.low + scale * fma(exp_rest(e.high), e.high * e.high, e.low)};
}

template <class T> ELEMENTARY T expm1(T x) {
  const pair<T> half = half_expm1(at_most(x, same<T, f32> ? (T)89 : (T)710));
  const T tiny = same<T, f32> ? (T)1e-8 : (T)1e-17;
  const T made = size_of(x) < tiny ? x : 2 * (half.high + half.low);
  return x < (same<T, f32> ? (T)-18 : (T)-40) ? (T)-1 : made;
}

template <class T> ELEMENTARY T tanh(T x) {
  const T size = size_of(x), most = same<T, f32> ? (T)10 : (T)20;
  pair<T> half = half_expm1(2 * at_most(size, most));
  half = sum_of_ordered(half.high, half.low);
  pair<T> below = sum_of((T)1, half.high);
  below.low += half.low;
  const pair<T> made = quotient_of_pairs(half, below);
  return signed_as(made.high + made.low, x);
}

// (sinh(r) - r) / r^3 and (cosh(r) - 1) / r^2 as functions of r^2, |r| <= ln2 / 2
template <class T> ELEMENTARY T sinh_rest(T z) {
  if constexpr (same<T, f32>) {
    static constexpr f32 c[] = {0.16666667f, 0.008333249f, 0.00019904487f};
    return polynomial(z, c);
  } else {
    static constexpr f64 c[] = {
        0.16666666666666677, 0.00833333333332156, 0.00019841269886264386, 2.755724406173159e-06,
        2.5109090725263748e-08};
    return polynomial(z, c);
  }
}
template <class T> ELEMENTARY T cosh_rest(T z) {
  if constexpr (same<T, f32>) {
    static constexpr f32 c[] = {0.5f, 0.04166635f, 0.0013946289f};
    return polynomial(z, c);
  } else {
    static constexpr f64 c[] = {
        0.5, 0.04166666666666671, 0.0013888888888863612, 2.480158736355295e-05,
        2.7557241692338026e-07, 2.0924466368447726e-09};
    return polynomial(z, c);
  }
}

// a cosh(r) + b sinh(r), if |a| > |b r| or a is 0. a_low: the low part of a.
template <class T> ELEMENTARY T hyperbolic_sum(T a, T a_low, T b, const exponent<T>& r) {
  const T z = r.high * r.high;
  const pair<T> product = product_of(b, r.high), sum = sum_of_ordered(a, product.high);
  const T odd = fma(sinh_rest(z) * z, r.high, r.low);
  return sum.high + (sum.low + fma(b, odd, fma(a, cosh_rest(z) * z, product.low + a_low)));
}

// 2^(count - 2) and 2^(-count - 2). The second one is 0 if it is negligible.
template <class T> ELEMENTARY pair<T> both_powers(T size, bits_of<T> count) {
  const T low = power_of_two<T>(form<T>::bias - 2 - count);
  return {power_of_two<T>(count + (form<T>::bias - 2)), size > 40 ? (T)0 : low};
}

template <class T> ELEMENTARY T sinh(T x) {
  const T size = size_of(x);
  const exponent<T> e = exponent_of(at_most(size, same<T, f32> ? (T)89.7 : (T)710.8));
  const pair<T> power = both_powers(size, e.bits);
  const pair<T> apart = sum_of_ordered(power.high, -power.low);
  const T half = hyperbolic_sum(apart.high, apart.low, power.high + power.low, e);
  return size < (same<T, f32> ? (T)1e-4 : (T)1e-8) ? x : signed_as(2 * half, x);
}

template <class T> ELEMENTARY T cosh(T x) {
  const T size = size_of(x);
  const exponent<T> e = exponent_of(at_most(size, same<T, f32> ? (T)89.7 : (T)710.8));
  const pair<T> power = both_powers(size, e.bits);
  const pair<T> sum = sum_of_ordered(power.high, power.low);
  return 2 * hyperbolic_sum(sum.high, sum.low, power.high - power.low, e);
}

// erf(x) / x - 1, as a function of x^2
template <class T> ELEMENTARY T erf_near(T square) {
  if constexpr (same<T, f32>) {  // |x| <= 0.92
    static constexpr f32 c[] = {
        0.12837915f, -0.37612498f, 0.11281848f, -0.02676773f, 0.0049948376f, -0.00059994037f};
    return polynomial(square, c);
  } else {  // |x| <= 0.95
    static constexpr f64 c[] = {
        0.12837916709551256, -0.3761263890318367, 0.11283791670951068, -0.02686617064430093,
        0.005223977616632253, -0.0008548326470446197, 0.00012055310911269652,
        -1.4925068390554957e-05, 1.6451824605956294e-06, -1.624467778697995e-07,
        1.3888041757549475e-08, -8.13207299305367e-10};
    return polynomial(square, c);
  }
}

// log(1 - erf(x))
template <class T> ELEMENTARY T erf_far(T x) {
  if constexpr (same<T, f32>) {  // 0.92 <= x <= 4
    static constexpr f32 c[] = {
        -0.00019575714f, -1.1276752f, -0.63718307f, -0.10393086f, 0.022226539f, -0.003043104f,
        0.00019592357f};
    return polynomial<3>(x, c);
  } else {  // 0.95 <= x <= 6
    static constexpr f64 c[] = {
        -3.546321752522034e-07, -1.1283754880108134, -0.6366375016036172, -0.10271998399560425,
        0.01902101955700927, 0.0003685214679938392, -0.0018723517931797347, 0.0007356947024193137,
        -0.00011308576596567436, -3.114885305196357e-05, 2.7072347610299124e-05,
        -9.967914008844684e-06, 2.4438628608600696e-06, -4.2863962502606264e-07,
        5.369482279297264e-08, -4.5933218005681624e-09, 2.412790508571291e-10,
        -5.880525905103549e-12};
    return polynomial<3>(x, c);
  }
}

// exp(x), if the result is finite and not denormal.
template <class T> ELEMENTARY T exp_inside(T x) {
  const T sum = fma(x, LOG2E<T>, form<T>::magic), count = sum - form<T>::magic;
  const T r = fma(-count, LN2_HIGH<T>, x);
  const T made = fma(exp_rest(r), r * r, r) + 1;
  return made * power_of_two<T>(bits(sum) - bits(form<T>::magic) + form<T>::bias);
}

template <class T> ELEMENTARY T erf(T x) {
  const T size = size_of(x), most = same<T, f32> ? (T)4 : (T)6;
  const T near = fma(erf_near(x * x), x, x);
  const T far = 1 - exp_inside(erf_far(at_most(size, most)));
  return size < (same<T, f32> ? (T)0.92 : (T)0.95) ? near : signed_as(far, x);
}

// (1 + 2 x) exp(x^2) erfc(x) - 1 as a function of (x - CENTRE) / (x + CENTRE), x >= 0.
// Source   M. M. Shepherd, J. G. Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x
//          in 0 <= x < inf, Math. Comp. 36, 1981.
template <class T> constexpr T ERFC_CENTRE = same<T, f32> ? (T)3.5 : (T)3.75;
template <class T> ELEMENTARY T erfc_share(T t) {
  if constexpr (same<T, f32>) {
    static constexpr f32 c[] = {
        0.24234924f, -0.1400092f, -0.010555143f, 0.09752001f, -0.11509761f, 0.08796772f,
        -0.048776314f, 0.019202776f, -0.0042876992f, -0.0005552556f, 0.000493586f};
    return polynomial(t, c);
  } else {
    static constexpr f64 c[] = {
        0.2375126308378276, -0.14024059858554672, 0.003585415485462406, 0.08227673849011473,
        -0.10880393014163935, 0.0923043211614726, -0.058693398591836816, 0.028362277400788557,
        -0.0097465795371439, 0.0017556260199185927, 0.00029371356656578634, -0.0002901550115343251,
        5.164928266198893e-05, 2.238752281404942e-05, -1.1443818848661251e-05,
        -9.809589873503042e-07, 1.7491781324163317e-06, -4.6815425794668344e-08,
        -2.532254874651798e-07, 1.478416669298071e-08, 3.280006349687574e-08,
        -4.2419765096386887e-10, -2.2521741272319485e-09};
    return polynomial(t, c);
  }
}

template <class T> ELEMENTARY T erfc(T x) {
  const T size = at_most(size_of(x), same<T, f32> ? (T)10.1 : (T)27.3);
  // t.low matters, because the slope at x = 0 is 1.6
  const pair<T> t = sum_of_ordered((T)-1, (size + size) / (size + ERFC_CENTRE<T>));
  static constexpr T slope[] = {(T)-0.15, (T)0.27, (T)0.43, (T)-1.5};
  const T share = fma(polynomial(t.high, slope), t.low, erfc_share(t.high));
  const pair<T> scale =
      quotient_of_pairs(sum_of_ordered((T)1, share), sum_of((T)1, size + size));
  const pair<T> square = product_of(size, size);
  const exponent<T> e = exponent_of(-square.high);
  const pair<T> r = sum_of_ordered(e.high, e.low - square.low);
  const pair<T> power = sum_of_ordered((T)1, r.high);
  const T rest = power.low + fma(exp_rest(r.high), r.high * r.high, r.low);
  const T product = fma(power.high, scale.high, fma(rest, scale.high, power.high * scale.low));
  const T made = scaled(product, e.bits);
  return x < 0 ? 2 - made : made;
}

}  // namespace elementary

#endif
