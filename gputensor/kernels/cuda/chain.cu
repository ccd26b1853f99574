// outputs[i] = op::OP(inputs[i], numbers)                              a chain of operators
// Shapes   rows, turned: all outputs are dense along a dimension; strided: any strides; lists:
//          dense tensors of one dtype, each of any size.
// Types    TYPES, outputs first; each operator computes in its own type.
// Launch   one-dimensional; a block owns blockDim.x * (UNROLL units | 4 elements), or a tile of
//          16 x 16 squares of UNIT x UNIT elements; shared = 4 KiB * UNIT an operand that turns,
//          static.
//          lists: a block owns blockDim.x * UNROLL units of one tensor.
// Design   chain_source.py writes op::OP, which is placed before the body. This file alone defines
//          an identity instead.
#include "pointwise/chain.cuh"

namespace op {

struct chain {
  template <class V, class T> static DEVICE T of(const V&, T x) { return x; }
};

}  // namespace op

// ---- body ----
#ifndef OP
#define OP chain
#endif
#include "pointwise/chain_head.cuh"

#if HAS_LAYOUT(STRIDED)
typedef chain_params<operands::count, NUMBERS, DIMS> strided_call;
extern "C" __global__ void __launch_bounds__(THREADS)
chain_strided(const __grid_constant__ strided_call p) {
  walk_strided<operands>(p, chain_body<op::OP, strided_call>{p});
}
#endif

constexpr int VALUES = NUMBERS;
template <class P> using large_body = chain_body<op::OP, P>;
#include "pointwise/large_body.cuh"

#if HAS_LAYOUT(LISTS)
#ifndef AT
#define AT 0, 0
#endif
#ifndef ADDRESSES
#define ADDRESSES 1
#endif
#ifndef TUPLES_AT_MOST
#define TUPLES_AT_MOST 1
#endif
typedef lists_params<ADDRESSES, NUMBERS, TUPLES_AT_MOST> lists_call;
extern "C" __global__ void __launch_bounds__(THREADS)
chain_lists(const __grid_constant__ lists_call p) {
  constexpr int at[] = {AT};
  walk_lists<operands>(p, chain_body<op::OP, lists_call>{p}, at);
}
#endif
