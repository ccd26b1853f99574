// Loops of family special: the polynomials of kernels/cuda/special.cu.
#include "elementwise.h"

namespace CAPABILITY {
#include "heads/special.h"
#include "loops.h"

static const abi::LoopEntry loops[] = {
#define X(OP, T) entry<op::OP, 2, 0, T>(#OP),
    SPECIAL_LOOPS(X)
#undef X
};
extern const abi::Family special = {"special", loops, sizeof loops / sizeof *loops, nullptr, 0};
}  // namespace CAPABILITY
