// Special functions of real numbers, computed in f64 for all dtypes. f32 results are rounded once.
#ifndef GPUTENSOR_SPECIAL
#define GPUTENSOR_SPECIAL

#include "math/functions.cuh"
#include "math/special_series.cuh"

// Values that are computed once for all elements of a thread.
#ifdef __CUDA_ARCH__
#define APART __device__ __noinline__
#else
#define APART DEVICE
#endif

#define PI 3.141592653589793

DEVICE f64 infinite() { return 1.7976931348623157e308 * 10; }
DEVICE f64 not_a_number() { return infinite() - infinite(); }
DEVICE bool is_finite(f64 x) { return x - x == 0; }

// --- the error function and its relatives --------------------------------------------------------

// exp(x * x), corrected for the rounding error of x * x.
DEVICE f64 exp_square(f64 x) {
  const f64 square = x * x;
  if (!is_finite(square)) return square;
  return exp(square) * (1 + fma(x, x, -square));
}

DEVICE f64 scaled_erfc(f64 x) {
  if (x < 8) return x < -27 ? infinite() : exp_square(x) * erfc(x);
  f64 fraction = 0;  // Laplace's continued fraction, evaluated from its end
  for (int k = 30; k > 0; --k) fraction = 0.5 * k / (x + fraction);
  return 0.5641895835477563 / (x + fraction);  // 1 / sqrt(pi)
}

// y with erfc(y) = q, for 0 < q <= 1, by Newton's method on the logarithm.
DEVICE f64 inverse_erfc(f64 q) {
  const f64 wanted = log(q);
  f64 y = sqrt(-wanted);
  for (int k = 0; k < 8; ++k) {
    const f64 scaled = scaled_erfc(y);
    y += (log(scaled) - y * y - wanted) * scaled * 0.886226925452758;  // sqrt(pi) / 2
    if (y < 0) y = 0;
  }
  return y;
}

// c[0] + c[1] x + …, by Horner's scheme.
template <int N> DEVICE f64 polynomial(const f64 (&c)[N], f64 x) {
  f64 sum = c[N - 1];
  UNROLLED for (int k = N - 2; k >= 0; --k) sum = math_fma(sum, x, c[k]);
  return sum;
}

// erfinv(x) with a relative error of 2^-29, from minimax polynomials in -log(1 - x^2) or in its
// square root; then for T = f64 one step of Halley's method. Without branches, so that it
// vectorises. Source: bench/accuracy/minimax.py.
template <class T> DEVICE f64 inverse_erf(f64 x) {
  const f64 near[] = {
      0.8862269259235911,     0.23201364115557443,    0.011549563617825002,
      -0.002335838371947844,  -0.00012682926024389554, 4.55140353742689e-05,
      2.5551903453971006e-06, -1.1064434805717342e-06, -7.833651305993608e-08,
      5.314256789569484e-08,  -7.56927503443798e-09,  4.962846358915714e-10,
      -1.3092925197234104e-11,
  };
  const f64 far[] = {
      -0.3122452800795694,   1.8427974978371282,    -1.2827853068901656,    0.9985786873295702,
      -0.48409992325437784,  0.15880098177414598,   -0.036477194911945655,  0.00590606426055744,
      -0.0006627992934065655, 4.9192580260298286e-05, -2.175566825958394e-06, 4.346328135698133e-08,
  };
  const f64 size = math_abs(x), w = -math_log1p(-x * x);
  const f64 from_w = size * polynomial(near, w), from_root = polynomial(far, math_sqrt(w));
  f64 y = w < 6.25 ? from_w : from_root;
  if constexpr (sizeof(T) == sizeof(f64)) {
    const f64 below = math_erf(y) - size, above = (1 - size) - math_erfc(y);
    const f64 step = (size > 0.5 ? above : below) * 0.886226925452758 * math_exp(y * y);
    y -= step / (1 + y * step);
  }
  const f64 beyond = size == 1 ? infinite() : not_a_number();
  return math_copysign(size < 1 ? y : beyond, x);
}

// log(x / (1 - x)). The logarithm of the odds or of their inverse, whichever is at least 1, has no
// cancellation near 1/2.
template <class T> DEVICE T log_odds(T x) {
  const T least = x < (T)0.5 ? x + (T)0 : 1 - x;  // the sum is 0 if x is -0
  const bool overflows = math_abs(least) < (sizeof(T) < sizeof(f64) ? (T)1e-36 : (T)1e-300);
  const T odds = math_abs(2 * x - 1) / (overflows ? least * (T)18446744073709551616.0 : least);
  const T log_of_scale = overflows ? (T)44.3614195558365 : (T)0;  // log(2^64)
  return math_copysign(math_log1p(odds) + log_of_scale, x - (T)0.5);
}

DEVICE f64 normal_below(f64 x) { return 0.5 * math_erfc(-x * 0.7071067811865476); }

DEVICE f64 log_normal_below(f64 x) {
  if (x < -1) return log(scaled_erfc(-x * 0.7071067811865476) / 2) - x * x / 2;
  return log1p(-erfc(x * 0.7071067811865476) / 2);
}

DEVICE f64 normal_quantile(f64 p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -infinite() : p == 1 ? infinite() : not_a_number();
  if (fabs(p - 0.5) < 0.4) return 1.4142135623730951 * inverse_erf<f64>(2 * p - 1);
  const f64 size = 1.4142135623730951 * inverse_erfc(2 * (p < 0.5 ? p : 1 - p));
  return p < 0.5 ? -size : size;
}

// --- the gamma function's family -----------------------------------------------------------------

// log(gamma(x)) for x > 0, with an absolute error of 1e-14: Stirling's series for x + 8 or, from
// x = 8 on, for x. Without branches, so that it vectorises.
DEVICE f64 log_gamma(f64 x) {
  const bool is_small = x < 8;
  const f64 product = x * (x + 1) * (x + 2) * (x + 3) * ((x + 4) * (x + 5) * (x + 6) * (x + 7));
  const f64 y = is_small ? x + 8 : x, z = 1 / (y * y);
  const f64 tail = (1. / 12 - z * (1. / 360 - z * (1. / 1260 - z * (1. / 1680 - z * (1. / 1188 -
                   z * (691. / 360360 - z * (1. / 156))))))) / y;
  const f64 made = (y - 0.5) * math_log(y) - y + 0.9189385332046727 + tail;
  const f64 shifted = made - math_log(is_small ? product : 1.0);
  return x == 1 || x == 2 ? 0 : shifted;
}

// log(|gamma(x)|) for x <= 0, by the reflection formula.
DEVICE f64 log_gamma_below(f64 x) {
  const f64 rest = x - floor(x);
  return rest == 0 ? infinite() : log(PI / sin(PI * rest)) - log_gamma(1 - x);
}

DEVICE f64 digamma_of(f64 x) {
  if (x == 0) return copysign(infinite(), -x);
  f64 made = 0;
  if (x < 0) {
    const f64 rest = x - trunc(x);
    if (rest == 0 || !is_finite(x)) return not_a_number();
    made = -PI / tan(PI * rest);
    x = 1 - x;
  }
  while (x < 10) {
    made -= 1 / x;
    x += 1;
  }
  const f64 z = 1 / (x * x);
  const f64 tail = z * (1. / 12 - z * (1. / 120 - z * (1. / 252 - z * (1. / 240 - z * (1. / 132 -
                   z * (691. / 32760 - z * (1. / 12)))))));
  return made + (is_finite(x) ? log(x) - 0.5 / x - tail : x);
}

// Hurwitz's zeta function for x > 1 and q > 0, by the Euler-Maclaurin formula.
static APART f64 zeta_above(f64 x, f64 q) {
  f64 sum = 0;
  for (int n = 0; n < 10; ++n) {
    const f64 term = pow(q + n, -x);
    sum += term;
    if (term <= sum * 1e-17) return sum;
  }
  const f64 w = q + 10;
  f64 power = pow(w, -x), factor = x;
  sum += power * w / (x - 1) + power / 2;
  // Bernoulli's numbers B_2k / (2k)!
  const f64 b[] = {
      0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07,
      2.08767569878681e-08, -5.284190138687493e-10, 1.3382536530684679e-11,
      -3.3896802963225827e-13, 8.586062056277845e-15, -2.174868698558062e-16,
  };
  power /= w;
  for (int k = 0; k < 10; ++k) {
    sum += b[k] * factor * power;
    factor *= (x + 2 * k + 1) * (x + 2 * k + 2);
    power /= w * w;
  }
  return sum;
}

// Hurwitz's zeta function. For q < 0 and a whole x, the terms with negative bases are a difference
// of two series, so that the number of steps does not depend on q.
DEVICE f64 zeta_of(f64 x, f64 q) {
  if (x == 1) return infinite();
  if (x < 1) return not_a_number();
  if (q <= 0) {
    if (q == floor(q)) return infinite();
    if (x != floor(x)) return not_a_number();
  }
  if (!is_finite(x) || q != q) return not_a_number();
  if (q > 0) return zeta_above(x, q);
  const f64 negative = zeta_above(x, ceil(q) - q) - zeta_above(x, 1 - q);
  return zeta_above(x, q - floor(q)) + (fmod(x, 2.0) == 0 ? negative : -negative);
}

DEVICE f64 polygamma_of(f64 x, f64 n) {
  if (n == 0) return digamma_of(x);
  if (n == 1 && x < 0 && x != floor(x)) {
    const f64 sine = sin(PI * (x - trunc(x)));
    return PI * PI / (sine * sine) - zeta_of(2, 1 - x);
  }
  const f64 sign = fmod(n, 2.0) == 0 ? -1 : 1;
  return sign * tgamma(n + 1) * zeta_of(n + 1, x);
}

// The regularised incomplete gamma function: the lower one by its series, the upper one by Lentz's
// continued fraction.
DEVICE f64 gamma_part(f64 a, f64 x, bool is_upper) {
  if (!(a >= 0) || !(x >= 0)) return not_a_number();
  if (a == 0) return x == 0 ? not_a_number() : is_upper ? 0 : 1;
  if (x == 0) return is_upper ? 1 : 0;
  if (!is_finite(a)) return is_finite(x) ? (is_upper ? 1 : 0) : not_a_number();
  if (!is_finite(x)) return is_upper ? 0 : 1;
  if (is_upper && x < 1.1 && a < 1) {
    // 1 - x^a / Gamma(a + 1), computed without cancellation, minus the series of the other terms.
    const f64 near = a * (-0.5772156649015329 + a * (0.8224670334241132 - a * 0.4006856343865314));
    const f64 power = a * log(x) - (a < 1e-4 ? near : lgamma(1 + a));
    f64 term = 1, sum = 0;
    for (int n = 1; n < 40; ++n) sum += (term *= -x / n) / (a + n);
    return -expm1(power) - exp(power) * a * sum;
  }
  const f64 front = exp(a * log(x) - x - lgamma(a));
  if (x < 1 || x < a) {
    f64 term = 1 / a, sum = term;
    for (int n = 1; n < 4000 && term > sum * 1e-17; ++n) sum += term *= x / (a + n);
    const f64 lower = sum * front;
    return is_upper ? 1 - lower : lower;
  }
  f64 b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int n = 1; n < 4000; ++n) {
    const f64 over = n * (a - n);
    b += 2;
    d = over * d + b;
    c = b + over / c;
    if (fabs(d) < 1e-300) d = 1e-300;
    if (fabs(c) < 1e-300) c = 1e-300;
    d = 1 / d;
    h *= d * c;
    if (fabs(d * c - 1) < 1e-16) break;
  }
  const f64 upper = h * front;
  return is_upper ? upper : 1 - upper;
}

// --- Bessel and Airy functions -------------------------------------------------------------------

template <class T> DEVICE f64 scaled_i0(f64 x) {
  const f64 size = math_abs(x);
  const f64 made =
      size <= 8 ? i0_near<T>(size / 4 - 1) : i0_far<T>(16 / size - 1) / math_sqrt(size);
  return size == 0 ? 1 : made;
}

template <class T> DEVICE f64 scaled_i1(f64 x) {
  const f64 size = math_abs(x);
  const f64 made =
      size <= 8 ? i1_near<T>(size / 4 - 1) * size : i1_far<T>(16 / size - 1) / math_sqrt(size);
  return math_copysign(made, x);
}

// exp(|x|) * scaled, correct even if exp(|x|) overflows.
DEVICE f64 grown(f64 x, f64 scaled) {
  const f64 half = math_exp(math_abs(x) / 2);
  return half * scaled * half;
}

template <class T> DEVICE f64 i0_of(f64 x) { return grown(x, scaled_i0<T>(x)); }
template <class T> DEVICE f64 i1_of(f64 x) { return grown(x, scaled_i1<T>(x)); }

DEVICE f64 k_of(f64 x, int order, bool is_scaled) {
  if (!(x > 0)) return x == 0 ? infinite() : not_a_number();
  if (x <= 2) {
    const f64 t = x * x / 2 - 1;
    const f64 made = order ? log(x / 2) * i1_of<f64>(x) + k1_near(t) / x
                           : k0_near(t) - log(x / 2) * i0_of<f64>(x);
    return is_scaled ? exp(x) * made : made;
  }
  const f64 t = 4 / x - 1;
  const f64 made = (order ? k1_far(t) : k0_far(t)) / sqrt(x);
  return is_scaled ? made : exp(-x) * made;
}

DEVICE f64 airy_of(f64 x) {
  if (!is_finite(x)) return not_a_number();
  const f64 size = fabs(x), z = size * sqrt(size) * (2. / 3);
  if (x > 0 && z > 2) {
    return airy_decay(4 / z - 1) * exp(-z) * 0.28209479177387814 / sqrt(sqrt(x));
  }
  if (x < 0 && z > 4) {
    const f64 t = 8 / z - 1, phase = z - PI / 4;
    return (cos(phase) * airy_cos(t) + sin(phase) * airy_sin(t)) * 0.5641895835477563 /
           sqrt(sqrt(size));
  }
  // Maclaurin's series of the two solutions.
  const f64 cube = x * x * x;
  f64 f = 1, g = x, even = 1, odd = x;
  for (int k = 1; k < 40; ++k) {
    even *= cube / ((3 * k - 1) * (3 * k));
    odd *= cube / ((3 * k) * (3 * k + 1));
    f += even;
    g += odd;
  }
  return 0.3550280538878172 * f - 0.2588194037928068 * g;
}

// --- orthogonal polynomials ----------------------------------------------------------------------

// The highest degree that is computed, so that every kernel terminates.
static const i64 HIGHEST_DEGREE = 1 << 20;

// p_(k+1) = of(k, p_k, p_(k-1)), from p_0 = 1 and p_1.
template <class F> DEVICE f64 recurrence(f64 n, f64 first, F of) {
  if (!(n > -1) || !is_finite(n)) return 0;  // degrees are truncated towards 0
  if (n >= HIGHEST_DEGREE + 1) return not_a_number();
  const i64 last = (i64)n;
  if (last == 0) return 1;
  f64 before = 1, here = first;
  for (i64 k = 1; k < last && here == here; ++k) {
    const f64 next = of((f64)k, here, before);
    before = here;
    here = next;
  }
  return here;
}

// The four kinds of Chebyshev polynomials have one recurrence with different first terms.
DEVICE f64 chebyshev(f64 x, f64 n, f64 first) {
  return recurrence(n, first, [x](f64, f64 p, f64 q) { return 2 * x * p - q; });
}

#undef PI
#endif
