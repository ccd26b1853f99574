// Parameters and loops of reductions: units of a segment, lanes of an output.
//
// A unit is a pack of 16 bytes of a run (rows), a row of packs (columns), or an element (strided).
// The order in which a loop combines elements depends only on shape and strides: see reduce.cu.
#ifndef GPUTENSOR_REDUCING
#define GPUTENSOR_REDUCING

#include "pointwise/contiguous.cuh"
#include "launch.cuh"
#include "lanes.cuh"

// reduce_launch.py packs this struct. data: out, or the partial results; in. count: units of an
// output's reduced elements. per_segment: units of one segment. number: the divisor of `mean`, or
// the bits of the order of norm_power, an f64.
// run: elements of a run (rows), or adjacent kept elements (columns). kept has the strides of out
// and in; reduced has the strides of in. For columns, kept[0] counts packs; for rows, reduced[0]
// does.
template <int MAX_DIMS> struct reduce_params {
  static constexpr int dims = MAX_DIMS;
  char* data[2];
  u64 number;
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

// The position of a thread; a row consists of the elements of one output.
struct reduce_position : lane_place {
  i64 out_offset, in_offset;
};

template <class P> DEVICE reduce_position reduce_locate(const P& p) {
  const lane_place at = place_of(p);
  i64 offset[2] = {};
  add_offsets<P::dims>(p.kept, p.kept_dims, at.row < p.outputs ? at.row : 0, offset);
  return {at, offset[0], offset[1]};
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

// True if all packs of this thread are whole and aligned to 16 bytes.
template <class P> DEVICE bool packs_are_aligned(const P& p, const char* in) {
  u64 bits = (u64)in;
#pragma unroll 1
  for (int d = 0; d < p.reduced_dims; ++d) bits |= p.reduced[d].stride_bytes[0];
  return (bits & 15) == 0;
}

// The number of units whose elements are read one by one, so that sixteen loads are in flight.
template <int PACK> constexpr int SINGLY = PACK < 4 ? 4 : 16 / PACK;

// A pack that is read once (STREAMS), or several times.
template <class scalar, int PACK, bool STREAMS>
DEVICE pack<scalar, PACK> load_unit(const char* at) {
  if constexpr (STREAMS) {
    return load_streaming<scalar, PACK>(at, 0);
  } else {
    return load_pack<scalar, PACK>(at, 0);
  }
}

// Combine the units [begin, end) of rows into x, where `begin` is the lane's first unit.
// take(element): the value that is combined by O. STRANDS: accumulators for each element of a pack.
// (Chains define the macro CHAINS.)
template <class scalar, class O, bool STREAMS, class P, class acc, int STRANDS, int PACK, class T>
DEVICE void reduce_packs(const P& p, const char* in, u32 begin, u32 end, acc (&x)[STRANDS][PACK],
                         const T& take) {
  constexpr int FEW = SINGLY<PACK>;
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
      pack<scalar, PACK> loaded[STRIDED_UNROLL];
#pragma unroll
      for (int j = 0; j < STRIDED_UNROLL; ++j) {
        loaded[j] = load_unit<scalar, PACK, STREAMS>(in + offset[j]);
      }
#pragma unroll
      for (int e = 0; e < STRIDED_UNROLL * PACK; ++e) {
        acc& into = x[e / PACK % STRANDS][e % PACK];
        into = O::combine(into, take(loaded[e / PACK].at[e % PACK]));
      }
      continue;
    }
#pragma unroll 1
    for (int first = 0; first < STRIDED_UNROLL; first += FEW) {
      if (k + first * lanes >= end) break;
      scalar loaded[FEW * PACK];
      u32 where[FEW];
      i64 bytes[FEW];
      const u32 count = reduce_units(p, k + first * lanes, lanes, end, where, bytes);
#pragma unroll
      for (int e = 0; e < FEW * PACK; ++e) {
        const u32 at = where[e / PACK] * PACK + e % PACK < p.run ? e % PACK : 0;
        loaded[e] = load_one<scalar>(in + bytes[e / PACK], at);
      }
#pragma unroll
      for (int e = 0; e < FEW * PACK; ++e) {
        acc& into = x[e / PACK % STRANDS][e % PACK];
        if (e / PACK < count && where[e / PACK] * PACK + e % PACK < p.run) {
          into = O::combine(into, take(loaded[e]));
        }
      }
    }
  }
}

// Combine rows [begin, end) of a pack of columns into x, one result for each column. here: the
// number of columns that exist. take(element, e): the value of column e.
template <class scalar, class O, bool STREAMS, class P, class acc, int PACK, class T>
DEVICE void reduce_column_packs(const P& p, const char* in, u32 here, u32 begin, u32 end,
                                acc (&x)[PACK], const T& take) {
  constexpr int FEW = SINGLY<PACK>;
  const u32 lanes = 1u << p.lane_bits;
  if (here == PACK && packs_are_aligned(p, in)) {
#pragma unroll 1
    for (u32 c = begin; c < end; c += lanes * STRIDED_UNROLL) {
      pack<scalar, PACK> loaded[STRIDED_UNROLL];
      u32 along[STRIDED_UNROLL];
      i64 offset[STRIDED_UNROLL];
      const u32 count = reduce_units(p, c, lanes, end, along, offset);
#pragma unroll
      for (int k = 0; k < STRIDED_UNROLL; ++k) {
        loaded[k] = load_unit<scalar, PACK, STREAMS>(in + offset[k]);
      }
#pragma unroll
      for (int e = 0; e < STRIDED_UNROLL * PACK; ++e) {
        if (e / PACK < count) {
          const acc taken = take(loaded[e / PACK].at[e % PACK], e % PACK);
          x[e % PACK] = O::combine(x[e % PACK], taken);
        }
      }
    }
  } else {
#pragma unroll 1
    for (u32 c = begin; c < end; c += lanes * FEW) {
      scalar loaded[FEW * PACK];
      u32 along[FEW];
      i64 offset[FEW];
      const u32 count = reduce_units(p, c, lanes, end, along, offset);
#pragma unroll
      for (int e = 0; e < FEW * PACK; ++e) {
        loaded[e] = load_one<scalar>(in + offset[e / PACK], e % PACK < here ? e % PACK : 0);
      }
#pragma unroll
      for (int e = 0; e < FEW * PACK; ++e) {
        if (e / PACK < count) {
          x[e % PACK] = O::combine(x[e % PACK], take(loaded[e], e % PACK));
        }
      }
    }
  }
}

// Combine the elements [begin, end) of any strides into x.
template <class scalar, class O, class P, class acc, class T>
DEVICE void reduce_elements(const P& p, const char* in, u32 begin, u32 end,
                            acc (&x)[STRIDED_UNROLL], const T& take) {
  const u32 lanes = 1u << p.lane_bits;
  for (u32 c = begin; c < end; c += lanes * STRIDED_UNROLL) {
    scalar loaded[STRIDED_UNROLL];
    u32 along[STRIDED_UNROLL];
    i64 offset[STRIDED_UNROLL];
    const u32 count = reduce_units(p, c, lanes, end, along, offset);
#pragma unroll
    for (int k = 0; k < STRIDED_UNROLL; ++k) loaded[k] = *(const scalar*)(in + offset[k]);
#pragma unroll
    for (int k = 0; k < STRIDED_UNROLL; ++k) {
      if (k < count) x[k] = O::combine(x[k], take(loaded[k]));
    }
  }
}

// The columns of a thread in a reduction of columns: a pack of the fastest kept dimension, or the
// remaining elements. row: the index of the other kept dimensions. here: the number of columns.
struct reduce_columns_of {
  u32 row, column, here;
};

template <int PACK, class P>
DEVICE reduce_columns_of locate_columns(const P& p, const reduce_position& at) {
  const bool is_there = at.row < p.outputs;
  reduce_columns_of found;
  found.row = quotient_of(is_there ? at.row : 0, p.kept[0].by);
  found.column = (at.row - found.row * p.kept[0].by.size) * PACK;
  const u32 left = p.run - found.column;
  found.here = !is_there ? 0 : left < PACK ? left : PACK;
  return found;
}

// Combine the lanes of each column. Lane 0 gets the results. shared: THREADS * PACK values.
template <class O, class P, class acc, int PACK>
DEVICE void reduce_column_lanes(const P& p, const reduce_position& at, acc (&x)[PACK],
                                acc* shared) {
  for (u32 half = 1u << p.lane_bits >> 1; half > 0; half >>= 1) {
#pragma unroll
    for (int e = 0; e < PACK; ++e) shared[e * THREADS + threadIdx.x] = x[e];
    __syncthreads();
    if (at.lane < half) {
#pragma unroll
      for (int e = 0; e < PACK; ++e) {
        const u32 other = e * THREADS + threadIdx.x + (half << p.slot_bits);
        x[e] = O::combine(x[e], shared[other]);
      }
    }
    __syncthreads();
  }
}

#endif
