// Loops of family comparison: kernels/cuda/comparison.cu.
#include "elementwise.h"

namespace CAPABILITY {
#include "heads/comparison.h"
#include "loops.h"

static const abi::LoopEntry loops[] = {
#define X(OP, T) entry<op::OP, 2, 0, T>(#OP),
    COMPARISON_LOOPS(X)
#undef X
};
extern const abi::Family comparison = {"comparison", loops, true};
}  // namespace CAPABILITY
