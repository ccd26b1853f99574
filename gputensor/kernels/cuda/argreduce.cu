// out[r] = index of op::OP's extreme of in[r, :]                         family: argreduce
// Shapes   rows along one dimension of any stride, the others of any strides, up to DIMS.
// Types    scalar_t storage, compared as acc_t; out is i64.
// Launch   one-dimensional, 256 threads; 2^lane_bits of them share a row, and `segments` blocks,
//          whose indices a second launch then compares: `from` holds them.
// Numbers  the first of equal elements, and the first NaN if there is one: whatever the order.
#include "arithmetic.cuh"
#include "launch.cuh"
#include "strided.cuh"

namespace op {

struct argmax {
  template <class T> static DEVICE bool is_beyond(T a, T b) { return a > b; }
};

struct argmin {
  template <class T> static DEVICE bool is_beyond(T a, T b) { return a < b; }
};

// With the elements themselves.
struct max : argmax {};
struct min : argmin {};

}  // namespace op

// argreduce_launch.py packs it. values: null, or where the elements go. from: null, or the indices
// to look at, `count` for each row.
template <int MAX_DIMS> struct argreduce_params {
  static constexpr int dims = MAX_DIMS;
  i64* out;
  char* values;
  const char* in;
  const i64* from;
  i64 along_bytes;
  u32 rows, count, per_segment;
  u32 lane_bits, slot_bits;  // threads per row and rows per block, powers of two
  u32 lanes_are_adjacent, is_partial, ndim;
  divider segments;
  dimension<3> dim[MAX_DIMS];
};

// An element and its index; -1 for none.
template <class T> struct candidate {
  T value;
  i64 index;
};

template <class O, class T> DEVICE bool is_better(const candidate<T>& a, const candidate<T>& b) {
  if (a.index < 0 || b.index < 0) return a.index >= 0;
  if (is_nan(a.value) || is_nan(b.value)) {
    return is_nan(a.value) && (!is_nan(b.value) || a.index < b.index);
  }
  return O::is_beyond(a.value, b.value) || (a.value == b.value && a.index < b.index);
}

// ---- body ----
#ifndef OP
#define OP argmax
#endif
#include "defaults.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    argreduce_strided(const argreduce_params<DIMS> p) {
  typedef candidate<acc_t> best_t;
  __shared__ acc_t value[THREADS];
  __shared__ i64 place[THREADS];
  const u32 group = quotient_of(blockIdx.x, p.segments);
  const u32 segment = blockIdx.x - group * p.segments.size, t = threadIdx.x;
  const u32 lanes = 1u << p.lane_bits, slots = 1u << p.slot_bits;
  const u32 lane = p.lanes_are_adjacent ? t & (lanes - 1) : t >> p.slot_bits;
  const u32 row = group * slots + (p.lanes_are_adjacent ? t >> p.lane_bits : t & (slots - 1));
  const u32 apart = p.lanes_are_adjacent ? 1 : slots;
  i64 out_offset = 0, value_offset = 0;
  const char* in = p.in;
  u32 index = row < p.rows ? row : 0;
#pragma unroll(DIMS <= 8 ? DIMS : 1)
  for (int d = 0; d < DIMS; ++d) {
    if (d >= (int)p.ndim) break;
    const u32 rest = quotient_of(index, p.dim[d].by);
    const u32 coordinate = index - rest * p.dim[d].by.size;
    out_offset += coordinate * p.dim[d].stride_bytes[0];
    value_offset += coordinate * p.dim[d].stride_bytes[1];
    in += coordinate * p.dim[d].stride_bytes[2];
    index = rest;
  }
  best_t best = {cast<acc_t>(0u), -1};
  if (row < p.rows) {
    const u32 begin = segment * p.per_segment;
    const u32 end = p.count - begin < p.per_segment ? p.count : begin + p.per_segment;
#pragma unroll 4
    for (u32 c = begin + lane; c < end; c += lanes) {
      const i64 at = p.from ? p.from[(u64)row * p.count + c] : c;
      const best_t next = {cast<acc_t>(*(const scalar_t*)(in + at * p.along_bytes)), at};
      if (is_better<op::OP>(next, best)) best = next;
    }
  }
  for (u32 half = lanes >> 1; half > 0; half >>= 1) {
    value[t] = best.value;
    place[t] = best.index;
    __syncthreads();
    if (lane < half) {
      const best_t other = {value[t + half * apart], place[t + half * apart]};
      if (is_better<op::OP>(other, best)) best = other;
    }
    __syncthreads();
  }
  if (lane || row >= p.rows) return;
  if (p.is_partial) {
    p.out[(u64)row * p.segments.size + segment] = best.index;
  } else {
    *(i64*)((char*)p.out + out_offset) = best.index;
    if (p.values) {
      *(scalar_t*)(p.values + value_offset) = *(const scalar_t*)(in + best.index * p.along_bytes);
    }
  }
}
