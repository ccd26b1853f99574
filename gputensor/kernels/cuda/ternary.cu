// out[i] = op::OP(self[i], second[i], third[i], scalars)                 family: ternary
// Numbers  f16 and bf16 are computed in f32 and rounded once. Integer division by zero gives 0.
#include "math/arithmetic.cuh"
#include "pointwise/computed.cuh"

namespace op {

struct addcdiv : takes<3, 1> {
  template <class T> static DEVICE T of(T self, T a, T b, T value) {
    return plus(self, times(value, ratio(a, b)));
  }
};

struct addcmul : takes<3, 1> {
  template <class T> static DEVICE T of(T self, T a, T b, T value) {
    return plus(self, times(times(value, a), b));
  }
};

struct clamp : takes<3, 0> {
  // Source: ATen/native/cpu/TensorCompareKernel.cpp, clamp_kernel_impl. A NaN in any operand gives
  // NaN.
  template <class T> static DEVICE T of(T x, T low, T high) {
    if (is_nan(low)) return low;
    if (is_nan(high)) return high;
    const T raised = x < low ? low : x;  // returns x if it is NaN
    return high < raised ? high : raised;
  }
};

struct clamp_max : takes<2, 0> {
  template <class T> static DEVICE T of(T x, T high) { return x < high || is_nan(x) ? x : high; }
};

struct clamp_min : takes<2, 0> {
  template <class T> static DEVICE T of(T x, T low) { return x > low || is_nan(x) ? x : low; }
};

struct larger_backward : takes<3, 0> {
  template <class T> static DEVICE T of(T grad, T self, T other) {
    return self < other ? (T)0 : self == other ? ratio(grad, (T)2) : grad;
  }
};

struct lerp : takes<3, 0> {
  // Source: ATen/native/Lerp.h, lerp. It starts from the nearer end.
  template <class T> static DEVICE T of(T self, T end, T weight) {
    const T length = minus(end, self);
    if constexpr (is_complex<T>) {
      if (weight.re * weight.re + weight.im * weight.im < (typename T::part)0.25) {
        return plus(self, times(weight, length));
      }
      return minus(end, times(length, minus(T{1, 0}, weight)));
    } else {
      if (math_abs(weight) < (T)0.5) return self + weight * length;
      return end - length * ((T)1 - weight);
    }
  }
};

struct nan_to_num : takes<1, 3> {
  template <class T> static DEVICE T of(T x, T nan, T high, T low) {
    if constexpr (is_complex<T>) {
      return T{of(x.re, nan.re, high.re, low.re), of(x.im, nan.re, high.re, low.re)};
    } else if constexpr (is_integer<T>) {
      return x;
    } else {
      if (x - x == 0) return x;
      return is_nan(x) ? nan : x > 0 ? high : low;
    }
  }
};

}  // namespace op

// ---- body ----
#ifndef OP
#define OP clamp
#define TYPES scalar_t, scalar_t, scalar_t, scalar_t
#endif
typedef op::OP functor;
#include "pointwise/computed_body.cuh"
