// out[r] = op::OP over c of in[r, c]                                                family: reduce
// Shapes   rows: the fastest reduced dimension is dense, a run; columns: the fastest kept dimension
//          is dense; strided, cast: kept and reduced dimensions of any strides. Up to DIMS of each.
// Types    rows, columns, strided: scalar_t as stored; cast: any dtype by code, narrowed to the
//          common dtype and reduced in scalar_t (i64 f32 f64 c64 c128). out has any dtype by code.
// Launch   one-dimensional; `lanes` threads of a block share an output (columns: 16 bytes of
//          outputs). If `segments` blocks share it, each writes a partial result, and a second
//          launch reduces the partial results.
// Design   a thread issues four loads (of 16 bytes in rows and columns) before their first use.
// Order    a fixed tree, which depends only on shape and strides. Unit c of a segment (a pack of a
//          run, a row of columns, an element of strided) is added by lane c % lanes, whose
//          accumulators take its units in turn. Then accumulators, lanes and segments are combined
//          in pairs. So the bits do not depend on run, device or alignment.
// Error    bound of a sum of n: (c + log2(n / c)) * eps * sum |x|, where one accumulator adds c
//          values (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
#include "math/arithmetic.cuh"
#include "pointwise/contiguous.cuh"
#include "launch.cuh"

// Sums of integers are int64. Other types are summed in their arithmetic type.
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

// scalar: the stored type. acc: the type of the accumulators. partial: the type of a segment's
// result. This functor also reduces partial results to the result.
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

// Its segments are combined by `sum`, so a NaN among them gives NaN.
struct nansum : sum {
  template <class acc, class scalar> static DEVICE acc take(scalar x) {
    const acc taken = cast<acc>(x);
    return is_nan(taken) ? cast<acc>(0u) : taken;
  }
};

struct prod : sum {
  template <class acc> static DEVICE acc identity() { return cast<acc>(1u); }
  template <class acc> static DEVICE acc combine(acc a, acc b) { return times(a, b); }
};

}  // namespace op

// reduce_launch.py packs this struct. data: out, or the partial results; in. count: units of an
// output's reduced elements. per_segment: units of one segment. divide_by: the divisor of `mean`.
// run: elements of a run (rows), or adjacent kept elements (columns). kept has the strides of out
// and in; reduced has the strides of in. For columns, kept[0] counts packs; for rows, reduced[0]
// does.
template <int MAX_DIMS> struct reduce_params {
  static constexpr int dims = MAX_DIMS;
  char* data[2];
  u64 divide_by;
  u32 outputs, count, per_segment;
  u32 lane_bits, slot_bits;  // threads per output and outputs per block, powers of two
  u32 lanes_are_adjacent, is_partial;
  i32 out_code, in_code, common;
  i32 kept_dims, reduced_dims;
  u32 run, all_outputs;  // outputs counts packs of columns; this field counts elements
  i64 out_step;          // from one kept element of a run to the next
  divider segments;
  dimension<2> kept[MAX_DIMS];
  dimension<1> reduced[MAX_DIMS];
};

// The position of a thread: `lane` of the output `output` in `segment`.
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

// The byte offsets of the units `index`, and their indices along the fastest reduced dimension.
template <class P, int N>
DEVICE void reduce_offsets(const P& p, u32 (&index)[N], u32 (&along)[N], i64 (&offset)[N]) {
#pragma unroll
  for (int k = 0; k < N; ++k) {
    along[k] = index[k];
    offset[k] = index[k] * p.reduced[0].stride_bytes[0];
  }
  if (p.reduced_dims == 1) return;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    index[k] = quotient_of(along[k], p.reduced[0].by);
    along[k] -= index[k] * p.reduced[0].by.size;
    offset[k] = along[k] * p.reduced[0].stride_bytes[0];
  }
#pragma unroll 1
  for (int d = 1; d < p.reduced_dims; ++d) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const u32 rest = quotient_of(index[k], p.reduced[d].by);
      offset[k] += (index[k] - rest * p.reduced[d].by.size) * p.reduced[d].stride_bytes[0];
      index[k] = rest;
    }
  }
}

// Units c, c + step, ... of [0, end). Units past the end are replaced by c. Returns the number of
// existing units.
template <class P, int N>
DEVICE u32 reduce_units(const P& p, u32 c, u32 step, u32 end, u32 (&along)[N], i64 (&offset)[N]) {
  u32 index[N], count = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const bool is_there = c + k * step < end;
    index[k] = is_there ? c + k * step : c;
    count += is_there;
  }
  reduce_offsets(p, index, along, offset);
  return count;
}

// Combine x[0 .. N - 1] in pairs; N is a power of two. The function is recursive, so that x stays
// in registers.
template <class O, int N, class acc> DEVICE acc fold(const acc* x) {
  if constexpr (N == 1) {
    return x[0];
  } else {
    return O::combine(fold<O, N / 2>(x), fold<O, N / 2>(x + N / 2));
  }
}

// O with values of a chain, which it converts as if it loaded them from memory as scalars.
template <class O, class scalar, class acc> struct reduced_by {
  template <class T> static DEVICE acc taken(T x) {
    if constexpr (sizeof(T) == sizeof(scalar)) {
      return O::template take<acc>(bits_as<scalar>(x));
    } else {
      return O::template take<acc>(cast<scalar>(x));
    }
  }
};

// Write a partial result with index `index`, or a result at its position.
template <class O, class partial, class P, class acc>
DEVICE void reduce_write(const P& p, u64 index, i64 out_offset, acc x) {
  if (p.is_partial) {
    ((partial*)p.data[0])[index] = cast<partial>(x);
  } else {
    const i64 offset[1] = {out_offset};
    const acc result[1] = {O::finish(x, p.divide_by)};
    store(p.data[0], offset, 1, p.out_code, result);
  }
}

// Combine the lanes of each output. Lane 0 gets the result. All threads of the block must call it.
template <class O, class P, class acc>
DEVICE acc reduce_lanes(const P& p, const reduce_position& at, acc x, acc* shared) {
  const u32 apart = p.lanes_are_adjacent ? 1 : 1u << p.slot_bits;
  for (u32 half = 1u << p.lane_bits >> 1; half > 0; half >>= 1) {
    shared[threadIdx.x] = x;
    __syncthreads();
    if (at.lane < half) x = O::combine(x, shared[threadIdx.x + half * apart]);
    __syncthreads();
  }
  return x;
}

// The same; lane 0 writes the result.
template <class O, class partial, class P, class acc>
DEVICE void reduce_finish(const P& p, const reduce_position& at, acc x, acc* shared) {
  x = reduce_lanes<O>(p, at, x, shared);
  if (at.lane || at.output >= p.outputs) return;
  reduce_write<O, partial>(p, (u64)at.segment * p.outputs + at.output, at.out_offset, x);
}

// ---- body ----
#ifndef OP
#define OP sum
#endif
#include "defaults.cuh"
typedef op::OP::types<scalar_t>::acc reduce_t;
typedef op::OP::types<scalar_t>::partial partial_t;
// One block per multiprocessor is requested, because otherwise ptxas would spill on sm_90 instead
// of using 50 registers.

#if HAS_LAYOUT(ROWS) || HAS_LAYOUT(COLUMNS)
constexpr int PACK = 16 / sizeof(scalar_t);
typedef pack<scalar_t, PACK> pack_t;
// Number of units whose elements are read one by one, so that sixteen loads are in flight.
constexpr int SINGLY = PACK < 4 ? 4 : 16 / PACK;

// True if all packs of this thread are whole and aligned to 16 bytes.
DEVICE bool packs_are_aligned(const reduce_params<DIMS>& p, const char* in) {
  u64 bits = (u64)in;
#pragma unroll 1
  for (int d = 0; d < p.reduced_dims; ++d) bits |= p.reduced[d].stride_bytes[0];
  return (bits & 15) == 0;
}
#endif

#if HAS_LAYOUT(ROWS)
// With fewer than four accumulators, additions would wait for each other.
constexpr int CHAINS = PACK < 4 ? 4 / PACK : 1;

DEVICE void reduce_packs(const reduce_params<DIMS>& p, const char* in, u32 begin, u32 end,
                         reduce_t (&x)[CHAINS][PACK]) {
  const u32 lanes = 1u << p.lane_bits;
  const bool is_aligned = packs_are_aligned(p, in);
#pragma unroll 1
  for (u32 k = begin; k < end; k += lanes * STRIDED_UNROLL) {
    u32 along[STRIDED_UNROLL];
    i64 offset[STRIDED_UNROLL];
    bool are_whole = is_aligned;
    if (is_aligned) {
      are_whole = reduce_units(p, k, lanes, end, along, offset) == STRIDED_UNROLL;
#pragma unroll
      for (int j = 0; j < STRIDED_UNROLL; ++j) are_whole &= along[j] * PACK + PACK <= p.run;
    }
    if (are_whole) {
      pack_t loaded[STRIDED_UNROLL];
#pragma unroll
      for (int j = 0; j < STRIDED_UNROLL; ++j) {
        loaded[j] = load_streaming<scalar_t, PACK>(in + offset[j], 0);
      }
#pragma unroll
      for (int e = 0; e < STRIDED_UNROLL * PACK; ++e) {
        reduce_t& into = x[e / PACK % CHAINS][e % PACK];
        into = op::OP::combine(into, op::OP::take<reduce_t>(loaded[e / PACK].at[e % PACK]));
      }
      continue;
    }
#pragma unroll 1
    for (int first = 0; first < STRIDED_UNROLL; first += SINGLY) {
      if (k + first * lanes >= end) break;
      scalar_t loaded[SINGLY * PACK];
      u32 where[SINGLY];
      i64 bytes[SINGLY];
      const u32 count = reduce_units(p, k + first * lanes, lanes, end, where, bytes);
#pragma unroll
      for (int e = 0; e < SINGLY * PACK; ++e) {
        const u32 at = where[e / PACK] * PACK + e % PACK < p.run ? e % PACK : 0;
        loaded[e] = load_one<scalar_t>(in + bytes[e / PACK], at);
      }
#pragma unroll
      for (int e = 0; e < SINGLY * PACK; ++e) {
        reduce_t& into = x[e / PACK % CHAINS][e % PACK];
        if (e / PACK < count && where[e / PACK] * PACK + e % PACK < p.run) {
          into = op::OP::combine(into, op::OP::take<reduce_t>(loaded[e]));
        }
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) reduce_rows(const reduce_params<DIMS> p) {
  __shared__ reduce_t shared[THREADS];
  const reduce_position at = reduce_locate(p);
  reduce_t x[CHAINS][PACK];
#pragma unroll
  for (int e = 0; e < CHAINS * PACK; ++e) x[e / PACK][e % PACK] = op::OP::identity<reduce_t>();
  if (at.output < p.outputs) {
    const u32 begin = at.segment * p.per_segment;
    const u32 end = p.count - begin < p.per_segment ? p.count : begin + p.per_segment;
    reduce_packs(p, p.data[1] + at.in_offset, begin + at.lane, end, x);
  }
  reduce_finish<op::OP, partial_t>(p, at, fold<op::OP, CHAINS * PACK>(x[0]), shared);
}
#endif

#if HAS_LAYOUT(COLUMNS)
extern "C" __global__ void __launch_bounds__(THREADS, 1)
reduce_columns(const reduce_params<DIMS> p) {
  __shared__ reduce_t shared[THREADS * PACK];
  const reduce_position at = reduce_locate(p);
  const char* in = p.data[1] + at.in_offset;
  const bool is_there = at.output < p.outputs;
  // The outputs of this thread: a pack of the fastest kept dimension, or the remaining elements.
  const u32 row = quotient_of(is_there ? at.output : 0, p.kept[0].by);
  const u32 column = (at.output - row * p.kept[0].by.size) * PACK;
  const u32 here = !is_there ? 0 : p.run - column < PACK ? p.run - column : PACK;
  reduce_t x[PACK];
#pragma unroll
  for (int e = 0; e < PACK; ++e) x[e] = op::OP::identity<reduce_t>();
  if (is_there) {
    const u32 lanes = 1u << p.lane_bits, begin = at.segment * p.per_segment;
    const u32 end = p.count - begin < p.per_segment ? p.count : begin + p.per_segment;
    if (here == PACK && packs_are_aligned(p, in)) {
#pragma unroll 1
      for (u32 c = begin + at.lane; c < end; c += lanes * STRIDED_UNROLL) {
        pack_t loaded[STRIDED_UNROLL];
        u32 along[STRIDED_UNROLL];
        i64 offset[STRIDED_UNROLL];
        const u32 count = reduce_units(p, c, lanes, end, along, offset);
#pragma unroll
        for (int k = 0; k < STRIDED_UNROLL; ++k) {
          loaded[k] = load_streaming<scalar_t, PACK>(in + offset[k], 0);
        }
#pragma unroll
        for (int e = 0; e < STRIDED_UNROLL * PACK; ++e) {
          if (e / PACK < count) {
            const reduce_t taken = op::OP::take<reduce_t>(loaded[e / PACK].at[e % PACK]);
            x[e % PACK] = op::OP::combine(x[e % PACK], taken);
          }
        }
      }
    } else {
#pragma unroll 1
      for (u32 c = begin + at.lane; c < end; c += lanes * SINGLY) {
        scalar_t loaded[SINGLY * PACK];
        u32 along[SINGLY];
        i64 offset[SINGLY];
        const u32 count = reduce_units(p, c, lanes, end, along, offset);
#pragma unroll
        for (int e = 0; e < SINGLY * PACK; ++e) {
          loaded[e] = load_one<scalar_t>(in + offset[e / PACK], e % PACK < here ? e % PACK : 0);
        }
#pragma unroll
        for (int e = 0; e < SINGLY * PACK; ++e) {
          if (e / PACK < count) {
            x[e % PACK] = op::OP::combine(x[e % PACK], op::OP::take<reduce_t>(loaded[e]));
          }
        }
      }
    }
  }
  // Combine the lanes in pairs, as in reduce_finish.
  for (u32 half = 1u << p.lane_bits >> 1; half > 0; half >>= 1) {
#pragma unroll
    for (int e = 0; e < PACK; ++e) shared[e * THREADS + threadIdx.x] = x[e];
    __syncthreads();
    if (at.lane < half) {
#pragma unroll
      for (int e = 0; e < PACK; ++e) {
        const u32 other = e * THREADS + threadIdx.x + (half << p.slot_bits);
        x[e] = op::OP::combine(x[e], shared[other]);
      }
    }
    __syncthreads();
  }
  if (at.lane || !is_there) return;
  // In shared memory, because registers cannot be indexed by a variable.
#pragma unroll
  for (int e = 0; e < PACK; ++e) shared[e * THREADS + threadIdx.x] = x[e];
#pragma unroll 1
  for (u32 e = 0; e < here; ++e) {
    reduce_write<op::OP, partial_t>(
        p, (u64)at.segment * p.all_outputs + row * p.run + column + e,
        at.out_offset + e * p.out_step, shared[e * THREADS + threadIdx.x]);
  }
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
      u32 along[STRIDED_UNROLL];
      i64 offset[STRIDED_UNROLL];
      const u32 count = reduce_units(p, c, lanes, end, along, offset);
#pragma unroll
      for (int k = 0; k < STRIDED_UNROLL; ++k) loaded[k] = *(const scalar_t*)(in + offset[k]);
#pragma unroll
      for (int k = 0; k < STRIDED_UNROLL; ++k) {
        if (k < count) x[k] = op::OP::combine(x[k], op::OP::take<reduce_t>(loaded[k]));
      }
    }
  }
  reduce_finish<op::OP, partial_t>(p, at, fold<op::OP, STRIDED_UNROLL>(x), shared);
}
#endif

// In this entry the reduced values are scalar_t, so only the arithmetic types have it.
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
      scalar_t loaded[STRIDED_UNROLL];
      u32 along[STRIDED_UNROLL];
      i64 offset[STRIDED_UNROLL];
      const u32 count = reduce_units(p, c, lanes, end, along, offset);
      fetch<true>(in, offset, p.in_code, p.common, loaded);
#pragma unroll
      for (int k = 0; k < STRIDED_UNROLL; ++k) {
        if (k < count) x[k] = op::OP::combine(x[k], op::OP::take<reduce_t>(loaded[k]));
      }
    }
  }
  reduce_finish<op::OP, partial_t>(p, at, fold<op::OP, STRIDED_UNROLL>(x), shared);
}
#endif
