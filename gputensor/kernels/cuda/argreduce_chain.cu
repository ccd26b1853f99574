// out[r] = index of op::OP's extreme over c of op::CHAIN(inputs[r, c], numbers)
// Shapes   as argreduce.cu, any strides of out, values and inputs, up to DIMS.
// Types    TYPES: the chain's result, then its inputs; scalar_t: the type of the chain's result.
// Launch   as argreduce.cu. A second launch over the segments' indices computes these elements
//          again.
// Design   chain_source.py writes op::CHAIN. This file is composed with the part of argreduce.cu
//          before its body, which contains op::OP and its functions.
#include "pointwise/chain.cuh"

// ---- body ----
#ifndef OP
#define OP argmax
#endif
#include "pointwise/chain_head.cuh"

// argreduce_chain_launch.py packs this struct. data: indices; values, or null; indices to compare,
// or null; inputs. along_bytes: from one element of a row to the next.
struct argreduce_chain_params {
  static constexpr int inputs = operands::count - 1;
  char* data[3 + inputs];
  value_slot value[NUMBERS];
  argreduce_walk walk;
  i64 along_bytes[inputs];
  dimension<2 + inputs> dim[DIMS];
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
argreduce_chain(const __grid_constant__ argreduce_chain_params p) {
  constexpr int N = operands::count;
  __shared__ acc_t value[THREADS];
  __shared__ i64 place[THREADS];
  const lane_place at = place_of(p.walk);
  i64 offset[1 + N] = {};
  add_offsets(p.dim, p.walk.ndim, at.row < p.walk.rows ? at.row : 0, offset);
  const chain_body<op::CHAIN, argreduce_chain_params> body{p};
  const auto read = [&](i64 i) {
    const i64 inner[N] = {};
    all_inputs<operands, 1, 1> one;
    one.load(0, [&](int j) {
      return p.data[2 + j] + offset[1 + j] + i * p.along_bytes[j - 1];
    }, inner);
    return one.made(body, 0, 0);
  };
  argreduce_rows<op::OP, scalar_t>(
      p.walk, at, (i64*)p.data[0], p.data[0] + offset[0],
      p.data[1] ? p.data[1] + offset[1] : nullptr, (const i64*)p.data[2], value, place, read);
}
