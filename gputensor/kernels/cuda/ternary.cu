// out[i] = op::OP(self[i], second[i], third[i], scalars)                 family: ternary
// Shapes   contiguous: all operands dense in one order, or numbers; rows, turned: out runs along a
//          dimension, inputs also stay, step or turn; strided: any strides.
// Types    contiguous: scalar_t for all; rows, turned: TYPES, computed as scalar_t is; strided:
//          any dtypes by code, computed in scalar_t.
// Launch   one-dimensional; a block owns blockDim.x * (2 packs | UNROLL units | 4 elements), or a
//          tile of 16 x 16 squares of UNIT x UNIT elements; shared = 4 KiB * UNIT an operand that
//          turns, static.
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
#endif
#include "defaults.cuh"
typedef contiguous_call_of<op::OP> contiguous_call;
typedef strided_call_of<op::OP, DIMS> strided_call;

#if HAS_LAYOUT(CONTIGUOUS)
extern "C" __global__ void __launch_bounds__(THREADS) ternary_contiguous(const contiguous_call p) {
  compute_contiguous<op::OP, scalar_t>(p);
}
#endif

#if HAS_LAYOUT(STRIDED)
extern "C" __global__ void __launch_bounds__(THREADS) ternary_strided(const strided_call p) {
  compute_strided<op::OP, acc_t, DIMS>(p);
}
#endif

#if HAS_LAYOUT(ROWS) || HAS_LAYOUT(TURNED)
#ifndef TYPES
#define TYPES scalar_t, scalar_t, scalar_t, scalar_t
#endif
#include "pointwise/operand_defines.cuh"
#endif

#if HAS_LAYOUT(ROWS)
typedef rows_call_of<op::OP, DIMS> rows_call;
extern "C" __global__ void __launch_bounds__(THREADS)
ternary_rows(const __grid_constant__ rows_call p) {
  walk_rows<operands>(p, computed_body<op::OP, scalar_t, rows_call>{p});
}
#endif

#if HAS_LAYOUT(TURNED)
typedef turned_call_of<op::OP, DIMS> turned_call;
extern "C" __global__ void __launch_bounds__(THREADS, 1)
ternary_turned(const __grid_constant__ turned_call p) {
  __shared__ uint4 shared[TILE_CELLS<operands>];
  walk_tiles<operands>(p, computed_body<op::OP, scalar_t, turned_call>{p}, shared);
}
#endif
