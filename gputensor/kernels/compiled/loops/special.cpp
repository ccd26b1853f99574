// Loops of family special: those functors of kernels/cuda/special.cu that codegen/emit/loops.py
// selects.
#include "elementwise.h"

namespace CAPABILITY {
#include "heads/special.h"
#include "loops.h"

static const abi::LoopEntry loops[] = {
#define X(OP, T) entry<op::OP, op::OP::inputs, op::OP::scalars, T>(#OP),
    SPECIAL_LOOPS(X)
#undef X
};
extern const abi::Family special = {"special", loops};
}  // namespace CAPABILITY
