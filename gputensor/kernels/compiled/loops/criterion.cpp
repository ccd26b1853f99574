// Loops of family criterion: kernels/cuda/criterion.cu.
#include "elementwise.h"

namespace CAPABILITY {
#include "heads/criterion.h"
#include "loops.h"

static const abi::LoopEntry loops[] = {
#define X(OP, T) entry<op::OP, op::OP::inputs, op::OP::scalars, T>(#OP),
    CRITERION_LOOPS(X)
#undef X
};
extern const abi::Family criterion = {"criterion", loops};
}  // namespace CAPABILITY
