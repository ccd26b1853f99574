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

// Add the byte offsets of position `index` in these dimensions. Returns its index along the first.
template <int N, int M>
DEVICE u32 add_offsets(const dimension<M>* dims, i32 count, u32 index, i64 (&offset)[N]) {
  u32 along = index;
#pragma unroll 1
  for (int d = 0; d < count; ++d) {
    const u32 rest = quotient_of(index, dims[d].by);
    const u32 coordinate = d + 1 < count ? index - rest * dims[d].by.size : index;
    if (d == 0) along = coordinate;
#pragma unroll
    for (int j = 0; j < N; ++j) offset[j] += coordinate * dims[d].stride_bytes[j];
    index = rest;
  }
  return along;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
reduce_chain(const __grid_constant__ reduce_chain_params p) {
  constexpr int N = operands::count, V = operands::unit, U = operands::unroll;
  __shared__ reduce_t shared[THREADS];
  const u32 group = quotient_of(blockIdx.x, p.segments), t = threadIdx.x;
  reduce_position at;
  at.segment = blockIdx.x - group * p.segments.size;
  at.lane = p.lanes_are_adjacent ? t & ((1u << p.lane_bits) - 1) : t >> p.slot_bits;
  at.output = (group << p.slot_bits) +
              (p.lanes_are_adjacent ? t >> p.lane_bits : t & ((1u << p.slot_bits) - 1));
  i64 place[N] = {};
  add_offsets(p.kept, p.kept_dims, at.output < p.outputs ? at.output : 0, place);
  at.out_offset = place[0];
  at.in_offset = 0;
  reduce_t x[CHAINS * V];
#pragma unroll
  for (int e = 0; e < CHAINS * V; ++e) x[e] = op::OP::identity<reduce_t>();
  if (at.output < p.outputs) {
    const chain_body<op::CHAIN, reduce_chain_params> body{p};
    const u32 lanes = 1u << p.lane_bits, begin = at.segment * p.per_segment;
    const u32 end = p.count - begin < p.per_segment ? p.count : begin + p.per_segment;
#pragma unroll 1
    for (u32 c = begin + at.lane; c < end; c += lanes * U) {
      u32 along[U], count = 0;
      i64 offset[U][N];
      bool are_whole = true;
#pragma unroll
      for (int k = 0; k < U; ++k) {
        const bool is_there = c + k * lanes < end;
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
  if (at.lane || at.output >= p.outputs) return;
  i64 offset[reduce_chain_params::all] = {};
  add_offsets(p.kept, p.kept_dims, at.output, offset);
  char* after[ROW_OPERANDS];
#pragma unroll
  for (int j = 0; j < ROW_OPERANDS; ++j) after[j] = p.data[N + j] + offset[N + j];
  typedef op::chain_epilogue::given given_t;
  op::chain_epilogue::run(p.value, after, cast<given_t>(op::OP::finish(total, p.number)));
#else
  reduce_finish<op::OP, partial_t>(p, at, fold<op::OP, CHAINS * V>(x), shared);
#endif
}
