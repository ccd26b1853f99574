// Loops of family unary: kernels/cuda/unary.cu.
#include "elementwise.h"

namespace CAPABILITY {
#include "heads/unary.h"
#include "loops.h"

static const abi::LoopEntry loops[] = {
#define X(OP, T) entry<op::OP, 1, 0, T>(#OP),
    UNARY_LOOPS(X)
#undef X
};
extern const abi::Family unary = {"unary", loops};
}  // namespace CAPABILITY
