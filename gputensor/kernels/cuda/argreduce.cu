// out[r] = index of op::OP's extreme of in[r, :]                         family: argreduce
// Shapes   rows along one dimension of any stride, the others of any strides, up to DIMS.
// Types    scalar_t storage, compared as acc_t; out is i64.
// Launch   one-dimensional, 256 threads. A row is shared by 2^lane_bits threads and by `segments`
//          blocks. If there are several segments, a second launch compares the blocks' indices,
//          which are in `from`.
// Numbers  the first of equal elements, and the first NaN if there is one, for any order of
//          threads.
#include "math/arithmetic.cuh"
#include "launch.cuh"
#include "lanes.cuh"

namespace op {

struct argmax {
  template <class T> static DEVICE bool is_beyond(T a, T b) { return a > b; }
};

struct argmin {
  template <class T> static DEVICE bool is_beyond(T a, T b) { return a < b; }
};

// Also returns the elements.
struct max : argmax {};
struct min : argmin {};

}  // namespace op

// rows: the number of rows of `count` elements each. If `is_partial`, the index of each segment is
// stored separately.
struct argreduce_walk {
  u32 rows, count, per_segment;
  u32 lane_bits, slot_bits;  // number of threads per row and of rows per block, powers of two
  u32 lanes_are_adjacent, is_partial, ndim;
  divider segments;
};

// argreduce_launch.py packs this struct. values: the elements of the results, or null. from: the
// indices to compare, `count` for each row, or null.
template <int MAX_DIMS> struct argreduce_params {
  static constexpr int dims = MAX_DIMS;
  i64* out;
  char* values;
  const char* in;
  const i64* from;
  i64 along_bytes;
  argreduce_walk walk;
  dimension<3> dim[MAX_DIMS];
};

// An element and its index; the index -1 means none.
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

// The whole kernel. read(i): returns element i of this thread's row. out, values: for the row, if
// it is not partial.
template <class O, class scalar, class acc, class R>
DEVICE void argreduce_rows(const argreduce_walk& p, const lane_place& at, i64* parts,
                           char* out, char* values, const i64* from, acc* value, i64* place,
                           const R& read) {
  typedef candidate<acc> best_t;
  const u32 t = threadIdx.x, lanes = 1u << p.lane_bits;
  best_t best = {cast<acc>(0u), -1};
  if (at.row < p.rows) {
    const segment_units own = units_of(p, at.segment);
#pragma unroll 4
    for (u32 c = own.begin + at.lane; c < own.end; c += lanes) {
      const i64 index = from ? from[(u64)at.row * p.count + c] : c;
      const best_t next = {cast<acc>(read(index)), index};
      if (is_better<O>(next, best)) best = next;
    }
  }
  const u32 apart = p.lanes_are_adjacent ? 1 : 1u << p.slot_bits;
  for (u32 half = lanes >> 1; half > 0; half >>= 1) {
    value[t] = best.value;
    place[t] = best.index;
    __syncthreads();
    if (at.lane < half) {
      const best_t other = {value[t + half * apart], place[t + half * apart]};
      if (is_better<O>(other, best)) best = other;
    }
    __syncthreads();
  }
  if (at.lane || at.row >= p.rows) return;
  if (p.is_partial) {
    parts[(u64)at.row * p.segments.size + at.segment] = best.index;
  } else {
    *(i64*)out = best.index;
    if (values) *(scalar*)values = read(best.index);
  }
}

// ---- body ----
#ifndef OP
#define OP argmax
#endif
#include "defaults.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    argreduce_strided(const argreduce_params<DIMS> p) {
  __shared__ acc_t value[THREADS];
  __shared__ i64 place[THREADS];
  const lane_place at = place_of(p.walk);
  i64 offset[3] = {};
  add_offsets<DIMS>(p.dim, p.walk.ndim, at.row < p.walk.rows ? at.row : 0, offset);
  const char* in = p.in + offset[2];
  argreduce_rows<op::OP, scalar_t>(
      p.walk, at, p.out, (char*)p.out + offset[0], p.values ? p.values + offset[1] : nullptr,
      p.from, value, place, [&](i64 i) { return *(const scalar_t*)(in + i * p.along_bytes); });
}
