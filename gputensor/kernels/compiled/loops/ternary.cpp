// Loops of family ternary: kernels/cuda/ternary.cu.
#include "elementwise.h"

namespace CAPABILITY {
#include "heads/ternary.h"
#include "loops.h"

static const abi::LoopEntry loops[] = {
#define X(OP, T) entry<op::OP, op::OP::inputs, op::OP::scalars, T>(#OP),
    TERNARY_LOOPS(X)
#undef X
};
extern const abi::Family ternary = {"ternary", loops};
}  // namespace CAPABILITY
