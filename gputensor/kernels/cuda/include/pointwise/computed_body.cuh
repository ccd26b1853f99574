// The body of a family that computes each element by `functor`, which is like those of
// pointwise/computed.cuh. It has no include guard, because it is included once per variant. FAMILY
// is the name of the including `.cu` file (module.py).
// Shapes   contiguous: all operands dense in one order, or numbers; rows, turned: out runs along a
//          dimension, inputs also stay, step or turn; strided: any strides.
// Types    contiguous: scalar_t for all, or bool for the result; rows, turned: TYPES, computed as
//          scalar_t is; strided: any dtypes by code, computed in scalar_t.
// Launch   one-dimensional; a block owns blockDim.x * (packs | UNROLL units | 4 elements), where
//          packs are 4 for one input and 2 for several, or a tile of 16 x 16 squares of UNIT x UNIT
//          elements; shared = 4 KiB * UNIT an operand that turns, static.
#include "defaults.cuh"

#if HAS_LAYOUT(CONTIGUOUS)
typedef contiguous_call_of<functor> contiguous_call;
extern "C" __global__ void __launch_bounds__(THREADS, LEAST_BLOCKS)
FAMILY_contiguous(const contiguous_call p) {
  compute_contiguous<functor, scalar_t>(p);
}
#endif

#if HAS_LAYOUT(STRIDED)
typedef strided_call_of<functor, DIMS> strided_call;
extern "C" __global__ void __launch_bounds__(THREADS, LEAST_BLOCKS)
FAMILY_strided(const strided_call p) {
  compute_strided<functor, acc_t, DIMS>(p);
}
#endif

#if HAS_LAYOUT(ROWS) || HAS_LAYOUT(TURNED)
#include "pointwise/operand_defines.cuh"
constexpr int VALUES = functor::values;
template <class P> using large_body = computed_body<functor, scalar_t, P>;
#include "pointwise/large_body.cuh"
#endif
