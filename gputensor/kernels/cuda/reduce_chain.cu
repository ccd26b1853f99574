// out[r] = op::OP over c of op::CHAIN(inputs[r, c], numbers)            a chain that is reduced
// after[r] = op::chain_epilogue(op::OP over c of ..., more[r], numbers)  an optional epilogue
// Shapes   any strides of out and inputs, up to DIMS kept and reduced dimensions.
// Types    TYPES: the chain's result, then its inputs; scalar_t: the type in which op::OP takes the
//          chain's result.
// Launch   as reduce.cu: lanes of a block share an output, and reduce.cu combines segments.
// Order    as reduce.cu, so the bits equal those of storing the chain and then reducing it. There
//          are UNIT elements of a run and CHAINS accumulators for each if reduce.cu reads rows, one
//          accumulator if it reads columns, otherwise four.
// Design   chain_source.py writes op::CHAIN. This file is composed with the part of reduce.cu
//          before its body, which contains op::OP and its functions.
#include "pointwise/chain.cuh"

// ---- body ----
#ifndef OP
#define OP sum
#endif
#include "pointwise/chain_head.cuh"
typedef op::OP::types<scalar_t>::acc reduce_t;
typedef op::OP::types<scalar_t>::partial partial_t;
typedef reduced_by<op::OP, scalar_t, reduce_t> reduced_t;

// reduce_chain_launch.py packs this struct. It is like reduce_params, with strides of all operands,
// out first. inner: from one element of a unit to the next. Operand 0 has stride 0 in `reduced`.
// The last ROW_OPERANDS operands belong to the epilogue, which writes instead of operand 0.
struct reduce_chain_params {
  static constexpr int dims = DIMS, all = operands::count + ROW_OPERANDS;
  char* data[all];
  value_slot value[NUMBERS];
  u64 number;
  u32 outputs, count, per_segment;
  u32 lane_bits, slot_bits;
  u32 lanes_are_adjacent, is_partial;
  i32 out_code, in_code, common;
  i32 kept_dims, reduced_dims;
  u32 run, all_outputs;
  i64 out_step;
  divider segments;
  i64 inner[operands::count];
  dimension<all> kept[DIMS];
  dimension<operands::count> reduced[DIMS];
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
reduce_chain(const __grid_constant__ reduce_chain_params p) {
  constexpr int N = operands::count, V = operands::unit, U = operands::unroll;
  __shared__ reduce_t shared[THREADS];
  reduce_position at = {place_of(p)};
  i64 place[N] = {};
  add_offsets(p.kept, p.kept_dims, at.row < p.outputs ? at.row : 0, place);
  at.out_offset = place[0];
  reduce_t x[CHAINS * V];
#pragma unroll
  for (int e = 0; e < CHAINS * V; ++e) x[e] = op::OP::identity<reduce_t>();
  if (at.row < p.outputs) {
    const chain_body<op::CHAIN, reduce_chain_params> body{p};
    const segment_units own = units_of(p, at.segment);
    const u32 lanes = 1u << p.lane_bits;
#pragma unroll 1
    for (u32 c = own.begin + at.lane; c < own.end; c += lanes * U) {
      u32 along[U], count = 0;
      i64 offset[U][N];
      bool are_whole = true;
#pragma unroll
      for (int k = 0; k < U; ++k) {
        const bool is_there = c + k * lanes < own.end;
        count += is_there;
#pragma unroll
        for (int j = 0; j < N; ++j) offset[k][j] = place[j];
        along[k] = add_offsets(p.reduced, p.reduced_dims, is_there ? c + k * lanes : c, offset[k]);
        are_whole &= V == 1 || along[k] * V + V <= p.run;
      }
      if (are_whole) {
        all_inputs<operands, V, U> inputs;
#pragma unroll
        for (int k = 0; k < U; ++k) {
          inputs.load(k, [&](int j) { return p.data[j] + offset[k][j]; }, p.inner);
        }
#pragma unroll
        for (int k = 0; k < U; ++k) {
          if (k >= count) continue;
#pragma unroll
          for (int e = 0; e < V; ++e) {
            reduce_t& into = x[k % CHAINS * V + e];
            into = op::OP::combine(into, reduced_t::taken(inputs.made(body, k, e)));
          }
        }
        continue;
      }
#pragma unroll
      for (int k = 0; k < U; ++k) {
#pragma unroll
        for (int e = 0; e < V; ++e) {
          if (k >= count || along[k] * V + e >= p.run) continue;
          all_inputs<operands, 1, 1> one;
          one.load(0, [&](int j) { return p.data[j] + offset[k][j] + e * p.inner[j]; }, p.inner);
          reduce_t& into = x[k % CHAINS * V + e];
          into = op::OP::combine(into, reduced_t::taken(one.made(body, 0, 0)));
        }
      }
    }
  }
#if ROW_OPERANDS
  // A launch that writes partial results is a separate variant.
  const reduce_t total = reduce_lanes<op::OP>(p, at, fold<op::OP, CHAINS * V>(x), shared);
  if (at.lane || at.row >= p.outputs) return;
  i64 offset[reduce_chain_params::all] = {};
  add_offsets(p.kept, p.kept_dims, at.row, offset);
  char* after[ROW_OPERANDS];
#pragma unroll
  for (int j = 0; j < ROW_OPERANDS; ++j) after[j] = p.data[N + j] + offset[N + j];
  typedef op::chain_epilogue::given given_t;
  op::chain_epilogue::run(p.value, after, cast<given_t>(op::OP::finish(total, p.number)));
#else
  reduce_finish<op::OP, partial_t>(p, at, fold<op::OP, CHAINS * V>(x), shared);
#endif
}
