// out[i] = op::OP over c of op::CHAIN(in[i][c], numbers)   a chain over many tensors, reduced
// Shapes   dense tensors of one dtype, each of any size.
// Types    as reduce_chain.cu.
// Launch   one-dimensional; `lanes` threads of a block share a segment of a tensor. A tensor of
//          several segments gets partial results, which a second launch reduces.
// Order    that of reduce.cu over each tensor alone, so the bits are the same.
// Design   op::OP and its functions are in the part of reduce.cu before its body, with which this
//          file is composed.
#include "pointwise/chain.cuh"

// ---- body ----
#ifndef OP
#define OP sum
#endif
#ifndef TUPLES_AT_MOST
#define TUPLES_AT_MOST 4
#endif
#include "pointwise/chain_head.cuh"
typedef op::OP::types<scalar_t>::acc reduce_t;
typedef op::OP::types<scalar_t>::partial partial_t;
typedef reduced_by<op::OP, scalar_t, reduce_t> reduced_t;

// reduce_lists_launch.py packs it. run: elements of a tensor. per_segment: its units of UNIT
// elements in a segment. first: its first block; one more entry is the number of blocks.
struct reduce_lists_params {
  value_slot value[NUMBERS];
  char* out[TUPLES_AT_MOST];
  char* in[TUPLES_AT_MOST];
  u32 run[TUPLES_AT_MOST], per_segment[TUPLES_AT_MOST], lane_bits[TUPLES_AT_MOST];
  u32 first[TUPLES_AT_MOST + 1];
  u32 count;
  i32 out_code;
  u32 unused;
};

// The lanes of a block with one output.
struct reduce_lists_lanes {
  u32 lanes_are_adjacent, lane_bits, slot_bits;
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
reduce_lists(const __grid_constant__ reduce_lists_params p) {
  constexpr int V = operands::unit, U = operands::unroll;
  constexpr i64 size = sizeof(operands::type<1>), inner[2] = {size, size};
  __shared__ reduce_t shared[THREADS];
  const u32 list = list_of(p.first, p.count), segment = blockIdx.x - p.first[list];
  const u32 run = p.run[list], per_segment = p.per_segment[list], units = (run + V - 1) / V;
  const u32 lane_bits = p.lane_bits[list], lanes = 1u << lane_bits;
  char* in = p.in[list];
  reduce_position at = {threadIdx.x & (lanes - 1), threadIdx.x >> lane_bits, segment, 0, 0};
  reduce_t x[CHAINS * V];
#pragma unroll
  for (int e = 0; e < CHAINS * V; ++e) x[e] = op::OP::identity<reduce_t>();
  if (at.row == 0) {
    const chain_body<op::CHAIN, reduce_lists_params> body{p};
    const bool is_aligned = ((u64)in & 15) == 0;
    const u32 begin = segment * per_segment;
    const u32 end = units - begin < per_segment ? units : begin + per_segment;
#pragma unroll 1
    for (u32 c = begin + at.lane; c < end; c += lanes * U) {
      const u32 last = c + (U - 1) * lanes;
      if (is_aligned && last < end && last * V + V <= run) {
        all_inputs<operands, V, U> inputs;
#pragma unroll
        for (int k = 0; k < U; ++k) {
          inputs.load(k, [&](int) { return in + (c + k * lanes) * V * size; }, inner);
        }
#pragma unroll
        for (int e = 0; e < U * V; ++e) {
          reduce_t& into = x[e / V % CHAINS * V + e % V];
          into = op::OP::combine(into, reduced_t::taken(inputs.made(body, e / V, e % V)));
        }
        continue;
      }
#pragma unroll
      for (int e = 0; e < U * V; ++e) {
        const u32 unit = c + e / V * lanes, element = unit * V + e % V;
        if (unit >= end || element >= run) continue;
        all_inputs<operands, 1, 1> one;
        one.load(0, [&](int) { return in + element * size; }, inner);
        reduce_t& into = x[e / V % CHAINS * V + e % V];
        into = op::OP::combine(into, reduced_t::taken(one.made(body, 0, 0)));
      }
    }
  }
  const reduce_lists_lanes of = {1, lane_bits, 0};
  const reduce_t total = reduce_lanes<op::OP>(of, at, fold<op::OP, CHAINS * V>(x), shared);
  if (threadIdx.x) return;
  if (p.first[list + 1] - p.first[list] > 1) {
    ((partial_t*)p.out[list])[segment] = cast<partial_t>(total);
  } else {
    const i64 offset[1] = {0};
    const reduce_t result[1] = {op::OP::finish(total, run)};
    store(p.out[list], offset, 1, p.out_code, result);
  }
}
