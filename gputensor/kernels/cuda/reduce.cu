// out[r] = op::OP over c of in[r, c]                                     family: reduce
// Shapes   rows: the one reduced dimension is dense; strided, cast: kept and reduced dimensions of
//          any strides, up to DIMS of each.
// Types    rows, strided: scalar_t as stored; cast: any dtype by code, narrowed to the common dtype
//          and reduced in scalar_t (i64 f32 f64 c64 c128). Out of any dtype by code.
// Launch   one-dimensional; `lanes` threads of a block share an output, and `segments` blocks, each
//          of which then writes a partial result that a second launch reduces.
// Order    fixed tree, a function of the shape alone: element c of a segment goes to lane
//          (c / pack) % lanes and there to accumulator c % pack, in ascending order; accumulators,
//          lanes, and segments are then combined pairwise. Same bits on every run and device.
//          Error bound of a sum of n: (c + log2(n / c)) * eps * sum |x|, where one accumulator
//          adds c values (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
#include "arithmetic.cuh"
#include "contiguous.cuh"
#include "launch.cuh"

// Sums of integers are int64; everything else is summed in its arithmetic type.
template <class T> struct sum_type { typedef typename acc_of<T>::type type; };
template <> struct sum_type<b8> { typedef i64 type; };
template <> struct sum_type<u8> { typedef i64 type; };
template <> struct sum_type<i8> { typedef i64 type; };
template <> struct sum_type<u16> { typedef i64 type; };
template <> struct sum_type<i16> { typedef i64 type; };
template <> struct sum_type<u32> { typedef i64 type; };
template <> struct sum_type<i32> { typedef i64 type; };
template <> struct sum_type<u64> { typedef i64 type; };

template <class T> struct lowest;  // below or equal to every value
template <> struct lowest<i32> { static constexpr i32 value = -0x7fffffff - 1; };
template <> struct lowest<u32> { static constexpr u32 value = 0; };
template <> struct lowest<i64> { static constexpr i64 value = -0x7fffffffffffffffll - 1; };
template <> struct lowest<u64> { static constexpr u64 value = 0; };
template <class T> struct highest;
template <> struct highest<i32> { static constexpr i32 value = 0x7fffffff; };
template <> struct highest<u32> { static constexpr u32 value = 0xffffffff; };
template <> struct highest<i64> { static constexpr i64 value = 0x7fffffffffffffffll; };
template <> struct highest<u64> { static constexpr u64 value = ~0ull; };

// scalar: the stored type. acc: what is combined. partial: what a segment leaves behind, such that
// reducing partials by the same functor gives the result.
namespace op {

struct all {
  template <class scalar> struct types { typedef u32 acc; typedef b8 partial; };
  template <class acc, class scalar> static DEVICE acc take(scalar x) {
    return nonzero(cast<typename acc_of<scalar>::type>(x));
  }
  template <class acc> static DEVICE acc identity() { return 1; }
  template <class acc> static DEVICE acc combine(acc a, acc b) { return a & b; }
  template <class acc> static DEVICE acc finish(acc x, u64) { return x; }
};

struct amax {
  template <class scalar> struct types {
    typedef typename acc_of<scalar>::type acc;
    typedef scalar partial;
  };
  template <class acc, class scalar> static DEVICE acc take(scalar x) { return cast<acc>(x); }
  template <class acc> static DEVICE acc identity() {
    if constexpr (is_real<acc>) {
      return (acc)-1 / (acc)0;
    } else {
      return lowest<acc>::value;
    }
  }
  template <class acc> static DEVICE acc combine(acc a, acc b) {
    return a > b || is_nan(a) ? a : b;
  }
  template <class acc> static DEVICE acc finish(acc x, u64) { return x; }
};

struct amin : amax {
  template <class acc> static DEVICE acc identity() {
    if constexpr (is_real<acc>) {
      return (acc)1 / (acc)0;
    } else {
      return highest<acc>::value;
    }
  }
  template <class acc> static DEVICE acc combine(acc a, acc b) {
    return a < b || is_nan(a) ? a : b;
  }
};

struct any : all {
  template <class acc> static DEVICE acc identity() { return 0; }
  template <class acc> static DEVICE acc combine(acc a, acc b) { return a | b; }
};

struct sum {
  template <class scalar> struct types {
    typedef typename sum_type<scalar>::type acc;
    typedef acc partial;
  };
  template <class acc, class scalar> static DEVICE acc take(scalar x) { return cast<acc>(x); }
  template <class acc> static DEVICE acc identity() { return cast<acc>(0u); }
  template <class acc> static DEVICE acc combine(acc a, acc b) { return plus(a, b); }
  template <class acc> static DEVICE acc finish(acc x, u64) { return x; }
};

struct mean : sum {
  template <class acc> static DEVICE acc finish(acc x, u64 count) {
    typedef typename real_of<acc>::type real;
    if constexpr (is_complex<acc>) {
      return acc{x.re / (real)count, x.im / (real)count};
    } else {
      return x / (real)count;
    }
  }
};

}  // namespace op

// launch.py packs it (`ReduceLaunch`). data: out, or the partial results; in. count: reduced
// elements. per_segment: packs of a segment. divide_by: what `mean` divides by. kept has the
// strides of out and in; the strides of `reduced` are in's.
template <int MAX_DIMS> struct reduce_params {
  static constexpr int dims = MAX_DIMS;
  char* data[2];
  u64 divide_by;
  u32 outputs, count, per_segment;
  u32 lane_bits, slot_bits;  // threads per output and outputs per block, powers of two
  u32 lanes_are_adjacent, is_partial;
  i32 out_code, in_code, common;
  i32 kept_dims, reduced_dims;
  divider segments;
  dimension<2> kept[MAX_DIMS];
  dimension<1> reduced[MAX_DIMS];
};

// Where a thread stands: `lane` of the output `output` in `segment`.
struct reduce_position {
  u32 lane, output, segment;
  i64 out_offset, in_offset;
};

template <class P> DEVICE reduce_position reduce_locate(const P& p) {
  constexpr int dims = P::dims;
  const u32 group = quotient_of(blockIdx.x, p.segments);
  const u32 t = threadIdx.x;
  reduce_position at;
  at.segment = blockIdx.x - group * p.segments.size;
  at.lane = p.lanes_are_adjacent ? t & ((1u << p.lane_bits) - 1) : t >> p.slot_bits;
  at.output = (group << p.slot_bits) +
              (p.lanes_are_adjacent ? t >> p.lane_bits : t & ((1u << p.slot_bits) - 1));
  at.out_offset = at.in_offset = 0;
  u32 index = at.output < p.outputs ? at.output : 0;
#pragma unroll(dims <= 8 ? dims : 1)
  for (int d = 0; d < dims; ++d) {
    if (d >= p.kept_dims) break;
    const u32 rest = quotient_of(index, p.kept[d].by);
    const u32 coordinate = index - rest * p.kept[d].by.size;
    at.out_offset += coordinate * p.kept[d].stride_bytes[0];
    at.in_offset += coordinate * p.kept[d].stride_bytes[1];
    index = rest;
  }
  return at;
}

template <class P> DEVICE i64 reduce_offset(const P& p, u32 index) {
  if (p.reduced_dims == 1) return index * p.reduced[0].stride_bytes[0];
  i64 offset = 0;
#pragma unroll 1
  for (int d = 0; d < p.reduced_dims; ++d) {
    const u32 rest = quotient_of(index, p.reduced[d].by);
    offset += (index - rest * p.reduced[d].by.size) * p.reduced[d].stride_bytes[0];
    index = rest;
  }
  return offset;
}

// Combines x[0 .. N - 1] pairwise, N a power of two. Recursive, so that x stays in registers.
template <class O, int N, class acc> DEVICE acc fold(const acc* x) {
  if constexpr (N == 1) {
    return x[0];
  } else {
    return O::combine(fold<O, N / 2>(x), fold<O, N / 2>(x + N / 2));
  }
}

// Combines the lanes of each output and lets lane 0 write it. Every thread of the block comes here.
template <class O, class partial, class P, class acc>
DEVICE void reduce_finish(const P& p, const reduce_position& at, acc x, acc* shared) {
  const u32 apart = p.lanes_are_adjacent ? 1 : 1u << p.slot_bits;
  for (u32 half = 1u << p.lane_bits >> 1; half > 0; half >>= 1) {
    shared[threadIdx.x] = x;
    __syncthreads();
    if (at.lane < half) x = O::combine(x, shared[threadIdx.x + half * apart]);
    __syncthreads();
  }
  if (at.lane || at.output >= p.outputs) return;
  if (p.is_partial) {
    ((partial*)p.data[0])[(u64)at.segment * p.outputs + at.output] = cast<partial>(x);
  } else {
    const i64 offset[1] = {at.out_offset};
    const acc result[1] = {O::finish(x, p.divide_by)};
    store(p.data[0], offset, 1, p.out_code, result);
  }
}

// ---- body ----
#ifndef OP
#define OP sum
#endif
#include "defaults.cuh"
typedef op::OP::types<scalar_t>::acc reduce_t;
typedef op::OP::types<scalar_t>::partial partial_t;

#if HAS_LAYOUT(ROWS)
extern "C" __global__ void __launch_bounds__(THREADS) reduce_rows(const reduce_params<DIMS> p) {
  constexpr int PACK = 16 / sizeof(scalar_t);
  __shared__ reduce_t shared[THREADS];
  const reduce_position at = reduce_locate(p);
  const char* row = p.data[1] + at.in_offset;
  reduce_t x[PACK];
#pragma unroll
  for (int e = 0; e < PACK; ++e) x[e] = op::OP::identity<reduce_t>();
  if (at.output < p.outputs) {
    const u32 whole = p.count / PACK, lanes = 1u << p.lane_bits;
    const u32 begin = at.segment * p.per_segment;
    const u32 end = whole - begin < p.per_segment ? whole : begin + p.per_segment;
    const bool is_aligned = ((u64)row & 15) == 0;
#pragma unroll 4
    for (u32 k = begin + at.lane; k < end; k += lanes) {
      pack<scalar_t, PACK> loaded;
      if (is_aligned) {
        loaded = load_streaming<scalar_t, PACK>(row, k * PACK);
      } else {
#pragma unroll
        for (int e = 0; e < PACK; ++e) loaded.at[e] = load_one<scalar_t>(row, k * PACK + e);
      }
#pragma unroll
      for (int e = 0; e < PACK; ++e) {
        x[e] = op::OP::combine(x[e], op::OP::take<reduce_t>(loaded.at[e]));
      }
    }
    // The elements after the last whole pack go where that pack would have gone.
    if (at.segment + 1 == p.segments.size && at.lane == ((whole - begin) & (lanes - 1))) {
#pragma unroll
      for (int e = 0; e < PACK; ++e) {
        if (whole * PACK + e < p.count) {
          const scalar_t last = load_one<scalar_t>(row, whole * PACK + e);
          x[e] = op::OP::combine(x[e], op::OP::take<reduce_t>(last));
        }
      }
    }
  }
  reduce_finish<op::OP, partial_t>(p, at, fold<op::OP, PACK>(x), shared);
}
#endif

#if HAS_LAYOUT(STRIDED)
extern "C" __global__ void __launch_bounds__(THREADS) reduce_strided(const reduce_params<DIMS> p) {
  __shared__ reduce_t shared[THREADS];
  const reduce_position at = reduce_locate(p);
  reduce_t x[STRIDED_UNROLL];
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) x[k] = op::OP::identity<reduce_t>();
  if (at.output < p.outputs) {
    const char* in = p.data[1] + at.in_offset;
    const u32 lanes = 1u << p.lane_bits, begin = at.segment * p.per_segment;
    const u32 end = p.count - begin < p.per_segment ? p.count : begin + p.per_segment;
    for (u32 c = begin + at.lane; c < end; c += lanes * STRIDED_UNROLL) {
      scalar_t loaded[STRIDED_UNROLL];
#pragma unroll
      for (int k = 0; k < STRIDED_UNROLL; ++k) {
        const u32 index = c + k * lanes;
        loaded[k] = *(const scalar_t*)(in + reduce_offset(p, index < end ? index : c));
      }
#pragma unroll
      for (int k = 0; k < STRIDED_UNROLL; ++k) {
        if (c + k * lanes < end) x[k] = op::OP::combine(x[k], op::OP::take<reduce_t>(loaded[k]));
      }
    }
  }
  reduce_finish<op::OP, partial_t>(p, at, fold<op::OP, STRIDED_UNROLL>(x), shared);
}
#endif

// The reduced values are scalar_t here, so only the arithmetic types have this entry.
// One block per SM is asked for, since ptxas would rather spill on sm_90 than take 50 registers.
#if HAS_LAYOUT(CAST)
extern "C" __global__ void __launch_bounds__(THREADS, 1) reduce_cast(const reduce_params<DIMS> p) {
  __shared__ reduce_t shared[THREADS];
  const reduce_position at = reduce_locate(p);
  reduce_t x[STRIDED_UNROLL];
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) x[k] = op::OP::identity<reduce_t>();
  if (at.output < p.outputs) {
    const char* in = p.data[1] + at.in_offset;
    const u32 lanes = 1u << p.lane_bits, begin = at.segment * p.per_segment;
    const u32 end = p.count - begin < p.per_segment ? p.count : begin + p.per_segment;
    for (u32 c = begin + at.lane; c < end; c += lanes * STRIDED_UNROLL) {
      i64 offset[STRIDED_UNROLL];
      scalar_t loaded[STRIDED_UNROLL];
#pragma unroll
      for (int k = 0; k < STRIDED_UNROLL; ++k) {
        const u32 index = c + k * lanes;
        offset[k] = reduce_offset(p, index < end ? index : c);
      }
      fetch<true>(in, offset, p.in_code, p.common, loaded);
#pragma unroll
      for (int k = 0; k < STRIDED_UNROLL; ++k) {
        if (c + k * lanes < end) x[k] = op::OP::combine(x[k], op::OP::take<reduce_t>(loaded[k]));
      }
    }
  }
  reduce_finish<op::OP, partial_t>(p, at, fold<op::OP, STRIDED_UNROLL>(x), shared);
}
#endif
