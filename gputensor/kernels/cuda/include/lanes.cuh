// Positions of the threads, or lanes, that share a row, and the combination of their values.
#ifndef GPUTENSOR_LANES
#define GPUTENSOR_LANES

#include "launch.cuh"
#include "pointwise/strided.cuh"

// The position of a thread: `lane` of row `row`, of which its block has `segment`.
struct lane_place { u32 lane, row, segment; };

// The position in the rows of group `group` of blocks.
template <class P> DEVICE lane_place place_in(const P& p, u32 group) {
  const u32 t = threadIdx.x;
  const u32 lane = p.lanes_are_adjacent ? t & ((1u << p.lane_bits) - 1) : t >> p.slot_bits;
  const u32 slot = p.lanes_are_adjacent ? t >> p.lane_bits : t & ((1u << p.slot_bits) - 1);
  return {lane, (group << p.slot_bits) + slot, 0};
}

// The position if `segments` blocks form a group.
template <class P> DEVICE lane_place place_of(const P& p) {
  const u32 group = quotient_of(blockIdx.x, p.segments);
  lane_place at = place_in(p, group);
  at.segment = blockIdx.x - group * p.segments.size;
  return at;
}

// The units [begin, end) of a segment.
struct segment_units { u32 begin, end; };

template <class P> DEVICE segment_units units_of(const P& p, u32 segment) {
  const u32 begin = segment * p.per_segment;
  return {begin, p.count - begin < p.per_segment ? p.count : begin + p.per_segment};
}

// Combine the values of all lanes. Each lane gets the result. All threads of the block must call
// it.
template <class acc, class C>
DEVICE acc across_lanes(acc x, u32 lane_bits, acc* shared, const C& combine) {
  const u32 lanes = 1u << lane_bits;
  const u32 near = lanes < 32 ? lanes : 32;
  for (u32 apart = near >> 1; apart > 0; apart >>= 1) {
    x = combine(x, __shfl_xor_sync(0xffffffffu, x, apart));
  }
  if (lanes > 32) {  // the whole block: one value per warp
    __syncthreads();
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = x;
    __syncthreads();
    acc part[THREADS / 32];
#pragma unroll
    for (int w = 0; w < THREADS / 32; ++w) part[w] = shared[w];
#pragma unroll
    for (int half = THREADS / 64; half > 0; half >>= 1) {
#pragma unroll
      for (int w = 0; w < half; ++w) part[w] = combine(part[w], part[w + half]);
    }
    x = part[0];
  }
  return x;
}

// The same, if the lanes of a row are `apart` threads apart.
template <class acc, class C>
DEVICE acc across_block(acc x, u32 lane, u32 lanes, u32 apart, acc* shared, const C& combine) {
  if (lanes == 1) return x;
  for (u32 half = lanes >> 1; half > 0; half >>= 1) {
    shared[threadIdx.x] = x;
    __syncthreads();
    if (lane < half) x = combine(x, shared[threadIdx.x + half * apart]);
    __syncthreads();
  }
  shared[threadIdx.x] = x;
  __syncthreads();
  x = shared[threadIdx.x - lane * apart];
  __syncthreads();
  return x;
}

#endif
