// Loops of family activation: kernels/cuda/activation.cu.
#include "elementwise.h"

namespace CAPABILITY {
#include "heads/activation.h"
#include "loops.h"

static const abi::LoopEntry loops[] = {
#define X(OP, T) entry<op::OP, op::OP::inputs, op::OP::scalars, T>(#OP),
    ACTIVATION_LOOPS(X)
#undef X
};
extern const abi::Family activation = {"activation", loops};
}  // namespace CAPABILITY
