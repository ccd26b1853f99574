// out[i] = op::OP(x[i], scalars), or op::OP(grad[i], x[i], scalars)       family: activation
// Numbers  f16 and bf16 are computed in f32 and rounded once; exp and similar functions may differ
//          between devices.
#include "math/arithmetic.cuh"
#include "pointwise/computed.cuh"
#include "math/functions.cuh"

namespace op {

template <class T> DEVICE T number_of(int x) {
  if constexpr (is_complex<T>) {
    return T{(typename T::part)x, 0};
  } else {
    return (T)x;
  }
}

template <class T> DEVICE T conjugate(T x) {
  if constexpr (is_complex<T>) {
    return T{x.re, -x.im};
  } else {
    return x;
  }
}

template <class T> DEVICE T clamped(T x, T low, T high) {
  if (is_nan(x)) return x;
  const T raised = x < low ? low : x;
  return high < raised ? high : raised;
}

template <class T> DEVICE T normal_share(T x) {
  return (T)0.5 * (1 + math_erf(x * (T)0.707106781186547524401));
}

template <class T> DEVICE T gelu_inner(T x) {
  return math_tanh((T)0.797884560802865355880 * (x + (T)0.044715 * x * x * x));
}

struct _gated : takes<2, 0> {
  template <class T> static DEVICE T of(T x, T gate) { return times(x, logistic(gate)); }
};

struct _prelu_kernel : takes<2, 0> {
  template <class T> static DEVICE T of(T x, T weight) { return x > 0 ? x : weight * x; }
};

struct elu : takes<1, 3> {
  template <class T> static DEVICE T of(T x, T alpha, T scale, T input_scale) {
    return x < 0 ? math_expm1(x * input_scale) * (alpha * scale) : x * scale;
  }
};

struct elu_backward : takes<2, 4> {
  template <class T> static DEVICE T of(T grad, T x, T alpha, T scale, T input_scale, T is_result) {
    if (!(x <= 0)) return grad * scale;
    if (is_result != 0) return grad * (input_scale * (x + alpha * scale));
    return grad * (input_scale * alpha * scale * math_exp(x * input_scale));
  }
};

struct gelu : takes<1, 0> {
  template <class T> static DEVICE T of(T x) { return x * normal_share(x); }
};

struct gelu_backward : takes<2, 0> {
  template <class T> static DEVICE T of(T grad, T x) {
    const T density = math_exp((T)-0.5 * x * x) * (T)0.398942280401432677940;
    return grad * (normal_share(x) + x * density);
  }
};

struct gelu_tanh : takes<1, 0> {
  template <class T> static DEVICE T of(T x) { return (T)0.5 * x * (1 + gelu_inner(x)); }
};

struct gelu_tanh_backward : takes<2, 0> {
  template <class T> static DEVICE T of(T grad, T x) {
    const T inner = gelu_inner(x);
    const T slope = (T)0.797884560802865355880 * (1 + (T)(3 * 0.044715) * x * x);
    return grad * ((T)0.5 * (1 + inner) + (T)0.5 * x * (1 - inner * inner) * slope);
  }
};

struct hardshrink : takes<1, 1> {
  template <class T> static DEVICE T of(T x, T by) { return x >= -by && x <= by ? 0 : x; }
};

struct hardshrink_backward : takes<2, 1> {
  template <class T> static DEVICE T of(T grad, T x, T by) {
    return x >= -by && x <= by ? 0 : grad;
  }
};

struct hardsigmoid : takes<1, 0> {
  template <class T> static DEVICE T of(T x) { return clamped(x + 3, (T)0, (T)6) / 6; }
};

struct hardsigmoid_backward : takes<2, 0> {
  template <class T> static DEVICE T of(T grad, T x) { return x > -3 && x < 3 ? grad / 6 : 0; }
};

struct hardswish : takes<1, 0> {
  template <class T> static DEVICE T of(T x) { return x * clamped(x + 3, (T)0, (T)6) / 6; }
};

struct hardswish_backward : takes<2, 0> {
  template <class T> static DEVICE T of(T grad, T x) {
    return x <= -3 ? 0 : x < 3 ? grad * (x / 3 + (T)0.5) : grad;
  }
};

struct hardtanh : takes<1, 2> {
  template <class T> static DEVICE T of(T x, T low, T high) { return clamped(x, low, high); }
};

struct hardtanh_backward : takes<2, 2> {
  template <class T> static DEVICE T of(T grad, T x, T low, T high) {
    return x <= low || x >= high ? 0 : grad;
  }
};

struct leaky_relu : takes<1, 1> {
  template <class T> static DEVICE T of(T x, T slope) { return x > 0 ? x : x * slope; }
};

struct leaky_relu_backward : takes<2, 2> {
  template <class T> static DEVICE T of(T grad, T x, T slope, T self_is_result) {
    return x > 0 ? grad : grad * slope;
  }
};

struct log_sigmoid_backward : takes<3, 0> {
  template <class T> static DEVICE T of(T grad, T x, T buffer) {
    const T share = buffer / (1 + buffer);
    return grad * (x < 0 ? 1 - share : share);
  }
};

struct mish : takes<1, 0> {
  template <class T> static DEVICE T of(T x) { return x * math_tanh(math_log1p(math_exp(x))); }
};

struct mish_backward : takes<2, 0> {
  template <class T> static DEVICE T of(T grad, T x) {
    const T inner = math_tanh(math_log1p(math_exp(x))), share = 1 / (1 + math_exp(-x));
    return grad * (inner + x * share * (1 - inner * inner));
  }
};

struct sigmoid_backward : takes<2, 0> {
  template <class T> static DEVICE T of(T grad, T y) {
    return times(grad, conjugate(times(minus(number_of<T>(1), y), y)));
  }
};

struct silu : takes<1, 0> {
  template <class T> static DEVICE T of(T x) { return times(x, logistic(x)); }
};

struct silu_backward : takes<2, 0> {
  template <class T> static DEVICE T of(T grad, T x) {
    const T one = number_of<T>(1), share = logistic(x);
    return times(times(grad, share), plus(one, times(x, minus(one, share))));
  }
};

struct softplus : takes<1, 2> {
  template <class T> static DEVICE T of(T x, T beta, T threshold) {
    return x * beta > threshold ? x : math_log1p(math_exp(x * beta)) / beta;
  }
};

struct softplus_backward : takes<2, 2> {
  template <class T> static DEVICE T of(T grad, T x, T beta, T threshold) {
    const T z = math_exp(x * beta);
    return x * beta > threshold ? grad : grad * z / (z + 1);
  }
};

struct softshrink : takes<1, 1> {
  template <class T> static DEVICE T of(T x, T by) {
    return x > by ? x - by : x < -by ? x + by : x * 0;
  }
};

struct softshrink_backward : takes<2, 1> {
  template <class T> static DEVICE T of(T grad, T x, T by) {
    return x >= -by && x <= by ? 0 : grad;
  }
};

struct tanh_backward : takes<2, 0> {
  template <class T> static DEVICE T of(T grad, T y) {
    return times(grad, conjugate(minus(number_of<T>(1), times(y, y))));
  }
};

struct threshold : takes<1, 2> {
  template <class T> static DEVICE T of(T x, T threshold, T value) {
    return x <= threshold ? value : x;
  }
};

}  // namespace op

// ---- body ----
#ifndef OP
#define OP silu
#define TYPES scalar_t, scalar_t
#endif
typedef op::OP functor;
#include "pointwise/computed_body.cuh"
