// out[i] = op::OP(x[i]) or op::OP(a[i], b[i])                             family: special
// Numbers  computed in f64 for all dtypes, then rounded (include/math/special.cuh); logit in the
//          type of its input.
#include "math/arithmetic.cuh"
#include "pointwise/computed.cuh"
#include "math/special.cuh"

// The functor OP of an operator that OP::of_f64 computes in f64 for all dtypes.
template <class OP> struct in_f64 {
  template <class T, class... X> static DEVICE T of(T x, X... rest) {
    return (T)OP::of_f64((f64)x, (f64)rest...);
  }
};

namespace op {

struct airy_ai : takes<1, 0>, in_f64<airy_ai> {
  static APART f64 of_f64(f64 x) { return airy_of(x); }
};

struct bessel_j0 : takes<1, 0>, in_f64<bessel_j0> {
  static APART f64 of_f64(f64 x) { return is_finite(x) ? ::j0(x) : not_a_number(); }
};

struct bessel_j1 : takes<1, 0>, in_f64<bessel_j1> {
  static APART f64 of_f64(f64 x) { return is_finite(x) ? ::j1(x) : not_a_number(); }
};

struct bessel_y0 : takes<1, 0>, in_f64<bessel_y0> {
  static APART f64 of_f64(f64 x) { return x >= 0 && is_finite(x) ? ::y0(x) : not_a_number(); }
};

struct bessel_y1 : takes<1, 0>, in_f64<bessel_y1> {
  static APART f64 of_f64(f64 x) { return x >= 0 && is_finite(x) ? ::y1(x) : not_a_number(); }
};

struct chebyshev_polynomial_t : takes<2, 0>, in_f64<chebyshev_polynomial_t> {
  static APART f64 of_f64(f64 a, f64 b) { return chebyshev(a, b, a); }
};

struct chebyshev_polynomial_u : takes<2, 0>, in_f64<chebyshev_polynomial_u> {
  static APART f64 of_f64(f64 a, f64 b) { return chebyshev(a, b, 2 * a); }
};

struct chebyshev_polynomial_v : takes<2, 0>, in_f64<chebyshev_polynomial_v> {
  static APART f64 of_f64(f64 a, f64 b) { return chebyshev(a, b, 2 * a - 1); }
};

struct chebyshev_polynomial_w : takes<2, 0>, in_f64<chebyshev_polynomial_w> {
  static APART f64 of_f64(f64 a, f64 b) { return chebyshev(a, b, 2 * a + 1); }
};

struct digamma : takes<1, 0>, in_f64<digamma> {
  static APART f64 of_f64(f64 x) { return digamma_of(x); }
};

struct entr : takes<1, 0>, in_f64<entr> {
  static APART f64 of_f64(f64 x) {
    return x > 0 ? -x * log(x) : x == 0 ? 0 : x < 0 ? -infinite() : x;
  }
};

struct erfcx : takes<1, 0>, in_f64<erfcx> {
  static APART f64 of_f64(f64 x) { return scaled_erfc(x); }
};

struct erfinv : takes<1, 0> {
  template <class T> static DEVICE T of(T x) { return (T)for_t<T>((f64)x); }
  template <class T> static APART f64 for_t(f64 x) { return inverse_erf<T>(x); }
};

struct hermite_polynomial_h : takes<2, 0>, in_f64<hermite_polynomial_h> {
  static APART f64 of_f64(f64 a, f64 b) {
    return recurrence(b, 2 * a, [a](f64 k, f64 p, f64 q) { return 2 * (a * p - k * q); });
  }
};

struct hermite_polynomial_he : takes<2, 0>, in_f64<hermite_polynomial_he> {
  static APART f64 of_f64(f64 a, f64 b) {
    return recurrence(b, a, [a](f64 k, f64 p, f64 q) { return a * p - k * q; });
  }
};

struct i0 : takes<1, 0> {
  template <class T> static DEVICE T of(T x) { return (T)for_t<T>((f64)x); }
  template <class T> static APART f64 for_t(f64 x) { return i0_of<T>(x); }
};

struct i0e : takes<1, 0> {
  template <class T> static DEVICE T of(T x) { return (T)for_t<T>((f64)x); }
  template <class T> static APART f64 for_t(f64 x) { return scaled_i0<T>(x); }
};

struct i1 : takes<1, 0> {
  template <class T> static DEVICE T of(T x) { return (T)for_t<T>((f64)x); }
  template <class T> static APART f64 for_t(f64 x) { return i1_of<T>(x); }
};

struct i1e : takes<1, 0> {
  template <class T> static DEVICE T of(T x) { return (T)for_t<T>((f64)x); }
  template <class T> static APART f64 for_t(f64 x) { return scaled_i1<T>(x); }
};

struct igamma : takes<2, 0>, in_f64<igamma> {
  static APART f64 of_f64(f64 a, f64 b) { return gamma_part(a, b, false); }
};

struct igammac : takes<2, 0>, in_f64<igammac> {
  static APART f64 of_f64(f64 a, f64 b) { return gamma_part(a, b, true); }
};

struct laguerre_polynomial_l : takes<2, 0>, in_f64<laguerre_polynomial_l> {
  static APART f64 of_f64(f64 a, f64 b) {
    return recurrence(
        b, 1 - a, [a](f64 k, f64 p, f64 q) { return ((2 * k + 1 - a) * p - k * q) / (k + 1); });
  }
};

struct legendre_polynomial_p : takes<2, 0>, in_f64<legendre_polynomial_p> {
  static APART f64 of_f64(f64 a, f64 b) {
    return recurrence(
        b, a, [a](f64 k, f64 p, f64 q) { return ((2 * k + 1) * a * p - k * q) / (k + 1); });
  }
};

struct lgamma : takes<1, 0> {
#ifdef GPUTENSOR_LOOPS
  template <class T> static DEVICE T of(T x) { return (T)log_gamma((f64)x); }
  // See Note [Rare elements] in math/elementary.cuh.
  template <class T> static DEVICE bool is_rare(T x) { return !(x > 0) || !is_finite(x); }
  template <class T> static DEVICE T rare(T x) {
    return is_finite(x) ? (T)log_gamma_below((f64)x) : x * x;
  }
#else
  template <class T> static DEVICE T of(T x) { return (T)of_f64((f64)x); }
  static APART f64 of_f64(f64 x) { return is_finite(x) ? ::lgamma(x) : x * x; }
#endif
};

struct log_ndtr : takes<1, 0>, in_f64<log_ndtr> {
  static APART f64 of_f64(f64 x) { return log_normal_below(x); }
};

struct logit : takes<1, 1> {
  template <class T> static DEVICE T of(T x, T eps) {
    const T low = eps, high = (T)1 - eps, inside = x < low ? low : x > high ? high : x;
    return log_odds(eps >= 0 ? inside : x);
  }
};

struct modified_bessel_k0 : takes<1, 0>, in_f64<modified_bessel_k0> {
  static APART f64 of_f64(f64 x) { return k_of(x, 0, false); }
};

struct modified_bessel_k1 : takes<1, 0>, in_f64<modified_bessel_k1> {
  static APART f64 of_f64(f64 x) { return k_of(x, 1, false); }
};

struct ndtr : takes<1, 0>, in_f64<ndtr> {
  static APART f64 of_f64(f64 x) { return normal_below(x); }
};

struct ndtri : takes<1, 0>, in_f64<ndtri> {
  static APART f64 of_f64(f64 x) { return normal_quantile(x); }
};

struct polygamma : takes<1, 1>, in_f64<polygamma> {
  static APART f64 of_f64(f64 x, f64 n) { return polygamma_of(x, n); }
};

struct scaled_modified_bessel_k0 : takes<1, 0>, in_f64<scaled_modified_bessel_k0> {
  static APART f64 of_f64(f64 x) { return k_of(x, 0, true); }
};

struct scaled_modified_bessel_k1 : takes<1, 0>, in_f64<scaled_modified_bessel_k1> {
  static APART f64 of_f64(f64 x) { return k_of(x, 1, true); }
};

struct shifted_chebyshev_polynomial_t : takes<2, 0>, in_f64<shifted_chebyshev_polynomial_t> {
  static APART f64 of_f64(f64 a, f64 b) { return chebyshev(2 * a - 1, b, 2 * a - 1); }
};

struct shifted_chebyshev_polynomial_u : takes<2, 0>, in_f64<shifted_chebyshev_polynomial_u> {
  static APART f64 of_f64(f64 a, f64 b) { return chebyshev(2 * a - 1, b, 2 * (2 * a - 1)); }
};

struct shifted_chebyshev_polynomial_v : takes<2, 0>, in_f64<shifted_chebyshev_polynomial_v> {
  static APART f64 of_f64(f64 a, f64 b) { return chebyshev(2 * a - 1, b, 2 * (2 * a - 1) - 1); }
};

struct shifted_chebyshev_polynomial_w : takes<2, 0>, in_f64<shifted_chebyshev_polynomial_w> {
  static APART f64 of_f64(f64 a, f64 b) { return chebyshev(2 * a - 1, b, 2 * (2 * a - 1) + 1); }
};

struct spherical_bessel_j0 : takes<1, 0>, in_f64<spherical_bessel_j0> {
  static APART f64 of_f64(f64 x) { return x == 0 ? 1 : is_finite(x) ? sin(x) / x : x == x ? 0 : x; }
};

struct xlog1py : takes<2, 0>, in_f64<xlog1py> {
  static APART f64 of_f64(f64 a, f64 b) { return b != b ? b : a == 0 ? 0 : a * log1p(b); }
};

struct xlogy : takes<2, 0>, in_f64<xlogy> {
  static APART f64 of_f64(f64 a, f64 b) { return b != b ? b : a == 0 ? 0 : a * log(b); }
};

struct zeta : takes<2, 0>, in_f64<zeta> {
  static APART f64 of_f64(f64 a, f64 b) { return zeta_of(a, b); }
};

}  // namespace op

// ---- body ----
#ifndef OP
#define OP i0
#define TYPES scalar_t, scalar_t
#endif
typedef op::OP functor;
#include "pointwise/computed_body.cuh"
