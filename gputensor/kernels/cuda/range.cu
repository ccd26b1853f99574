// out[i] = op::OP(i), i counting the layout's elements, fastest dimension first     family: range
// Shapes   any strides, DIMS dimensions.
// Types    any out dtype by code; computed in scalar_t = i64 (integers, eye), f64 or c128.
// Launch   one-dimensional; a block owns blockDim.x * 4 elements.
// Numbers  floating values are computed in f64 and rounded to out's dtype once.
#include "math/arithmetic.cuh"
#include "launch.cuh"
#include "pointwise/strided.cuh"

// a, b, c: the operator's scalars, in the order of binding.bind.
namespace op {

struct arange {  // start, step
  template <class T> static DEVICE T of(u64 i, T a, T b, T) {
    return plus(times(cast<T>(i), b), a);
  }
};

struct eye {  // columns, which are the fastest dimension
  template <class T> static DEVICE T of(u64 i, T a, T, T) {
    const u64 columns = cast<u64>(a);
    return cast<T>((u32)(i / columns == i % columns));
  }
};

struct linspace {  // start, end, steps; computed from both ends, so that both are exact
  template <class T> static DEVICE T of(u64 i, T a, T b, T c) {
    const u64 steps = cast<u64>(c);
    if (steps == 1) return a;
    const T step = ratio(minus(b, a), cast<T>(steps - 1));
    return i < steps / 2 ? plus(a, times(step, cast<T>(i)))
                         : minus(b, times(step, cast<T>(steps - 1 - i)));
  }
};

}  // namespace op

// ---- body ----
#ifndef OP
#define OP arange
#endif
#include "defaults.cuh"
typedef strided_params<1, 4, DIMS> strided_call;

extern "C" __global__ void __launch_bounds__(THREADS) range_strided(const strided_call p) {
  const u32 first = first_element();
  if (first >= p.numel) return;
  i64 offset[1][STRIDED_UNROLL];
  locate(p, first, blockDim.x, offset);
  const u64 before = p.value[3].low;  // elements of earlier launches of a split call
  const acc_t a = number<acc_t>(p.value[0]), b = number<acc_t>(p.value[1]);
  const acc_t c = number<acc_t>(p.value[2]);
  acc_t value[STRIDED_UNROLL];
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) {
    value[k] = op::OP::of(before + first + k * blockDim.x, a, b, c);
  }
  store(p.data[0], offset[0], elements_left(first, p.numel), p.code[0], value);
}
