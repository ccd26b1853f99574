// out[i] = op::OP(x[i], target[i], scalars), or its gradient with grad[i] first   family: criterion
// Numbers  f16 and bf16 are computed in f32 and rounded once. share: 1 / (number of elements) for a
//          mean, otherwise 1. A value that is not a probability fails an assertion on the device.
#include "math/arithmetic.cuh"
#include "pointwise/computed.cuh"
#include "math/functions.cuh"

namespace op {

template <class T> DEVICE T at_least(T x, T low) { return x < low ? low : x; }

struct binary_cross_entropy : takes<2, 0> {
  template <class T> static DEVICE T of(T x, T target) {
    assert(x >= 0 && x <= 1 && "a probability is outside [0, 1]");
    const T rest = at_least(math_log1p(-x), (T)-100);
    return (target - 1) * rest - target * at_least(math_log(x), (T)-100);
  }
};

struct binary_cross_entropy_backward : takes<3, 1> {
  template <class T> static DEVICE T of(T grad, T x, T target, T share) {
    return share * grad * (x - target) / at_least((1 - x) * x, (T)1e-12);
  }
};

// Weights that are not given are 1.
struct binary_cross_entropy_with_logits : takes<4, 0> {
  template <class T> static DEVICE T of(T x, T target, T weight, T pos_weight) {
    const T log = (x > 0 ? 0 : x) - math_log1p(math_exp(-math_abs(x)));  // of the sigmoid
    return ((1 - target) * x - log * ((pos_weight - 1) * target + 1)) * weight;
  }
};

struct binary_cross_entropy_with_logits_backward : takes<5, 1> {
  template <class T> static DEVICE T of(T grad, T x, T target, T weight, T pos_weight, T share) {
    const T sigmoid = 1 / (1 + math_exp(-x));
    const T slope = sigmoid - target - (pos_weight - 1) * target * (1 - sigmoid);
    return share * grad * weight * slope;
  }
};

struct huber_loss : takes<2, 1> {
  template <class T> static DEVICE T of(T x, T target, T delta) {
    const T apart = math_abs(x - target);
    return apart <= delta ? (T)0.5 * apart * apart : delta * (apart - (T)0.5 * delta);
  }
};

struct huber_loss_backward : takes<3, 2> {
  template <class T> static DEVICE T of(T grad, T x, T target, T share, T delta) {
    const T apart = x - target, whole = share * grad;
    return whole * (apart < -delta ? -delta : apart > delta ? delta : apart);
  }
};

struct mse_loss : takes<2, 0> {
  template <class T> static DEVICE T of(T x, T target) { return (x - target) * (x - target); }
};

struct mse_loss_backward : takes<3, 1> {
  template <class T> static DEVICE T of(T grad, T x, T target, T share) {
    return 2 * share * (x - target) * grad;
  }
};

struct smooth_l1_loss : takes<2, 1> {
  template <class T> static DEVICE T of(T x, T target, T beta) {
    const T apart = math_abs(x - target);
    return apart < beta ? (T)0.5 * apart * apart / beta : apart - (T)0.5 * beta;
  }
};

struct smooth_l1_loss_backward : takes<3, 2> {
  template <class T> static DEVICE T of(T grad, T x, T target, T share, T beta) {
    const T apart = x - target, whole = share * grad;
    return apart <= -beta ? -whole : apart >= beta ? whole : whole * apart / beta;
  }
};

}  // namespace op

// ---- body ----
#ifndef OP
#define OP mse_loss
#define TYPES scalar_t, scalar_t, scalar_t
#endif
typedef op::OP functor;
#include "pointwise/computed_body.cuh"
