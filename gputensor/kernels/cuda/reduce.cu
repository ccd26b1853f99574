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
#include "math/functions.cuh"
#include "reducing.cuh"

// Sums of integers are int64. Other types are summed in their arithmetic type.
template <class T, bool IS_WHOLE = is_integer<T> || same<T, b8>> struct sum_type {
  typedef i64 type;
};
template <class T> struct sum_type<T, false> { typedef typename acc_of<T>::type type; };

// The least and the largest integer of an arithmetic type.
template <class T> constexpr T lowest =
    is_signed_integer<T> ? (T)((u64)1 << (8 * sizeof(T) - 1)) : (T)0;
template <class T> constexpr T highest = (T)~lowest<T>;

// The absolute value of an element; real.
template <class acc, class scalar> DEVICE acc magnitude(scalar x) {
  const auto wide = cast<typename acc_of<scalar>::type>(x);
  if constexpr (is_complex<scalar>) {
    return math_hypot(wide.re, wide.im);
  } else {
    return math_abs(wide);
  }
}

template <class scalar> struct types_of_norm {
  typedef typename real_of<typename acc_of<scalar>::type>::type acc;
  typedef acc partial;
};

// scalar: the stored type. acc: the type of the accumulators. partial: the type of a segment's
// result. This functor also reduces partial results to the result.
namespace op {

struct all {
  template <class scalar> struct types { typedef u32 acc; typedef b8 partial; };
  template <class acc, class scalar> static DEVICE acc take(scalar x, u64) {
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
  template <class acc, class scalar> static DEVICE acc take(scalar x, u64) { return cast<acc>(x); }
  template <class acc> static DEVICE acc identity() {
    if constexpr (is_real<acc>) {
      return (acc)-1 / (acc)0;
    } else {
      return lowest<acc>;
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
      return highest<acc>;
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
  template <class acc, class scalar> static DEVICE acc take(scalar x, u64) { return cast<acc>(x); }
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
  template <class acc, class scalar> static DEVICE acc take(scalar x, u64) {
    const acc taken = cast<acc>(x);
    return is_nan(taken) ? cast<acc>(0u) : taken;
  }
};

// norm_*: norms of vectors; _ENDS in reduce_launch.py names the functors of their partial results.
// OP over absolute values.
template <class OP> struct of_magnitudes : OP {
  template <class scalar> using types = types_of_norm<scalar>;
  template <class acc, class scalar> static DEVICE acc take(scalar x, u64) {
    return magnitude<acc>(x);
  }
};

struct norm_least : of_magnitudes<amin> {};  // composite
struct norm_most : of_magnitudes<amax> {};   // composite
struct norm_one : of_magnitudes<sum> {};     // composite

struct norm_power_end : sum {  // composite
  template <class acc> static DEVICE acc finish(acc x, u64 order) {
    return power_of_number(x, (acc)(1 / bits_as<f64>(order)));
  }
};

struct norm_power : norm_power_end {  // composite
  template <class scalar> using types = types_of_norm<scalar>;
  template <class acc, class scalar> static DEVICE acc take(scalar x, u64 order) {
    return power_of_number(magnitude<acc>(x), (acc)bits_as<f64>(order));
  }
};

struct norm_two_end : sum {  // composite
  template <class acc> static DEVICE acc finish(acc x, u64) { return math_sqrt(x); }
};

struct norm_two : norm_two_end {  // composite
  template <class scalar> using types = types_of_norm<scalar>;
  template <class acc, class scalar> static DEVICE acc take(scalar x, u64) {
    const auto wide = cast<typename acc_of<scalar>::type>(x);
    if constexpr (is_complex<scalar>) {
      return wide.re * wide.re + wide.im * wide.im;
    } else {
      return wide * wide;
    }
  }
};

struct norm_zero : sum {  // composite
  template <class scalar> using types = types_of_norm<scalar>;
  template <class acc, class scalar> static DEVICE acc take(scalar x, u64) {
    return nonzero(cast<typename acc_of<scalar>::type>(x));
  }
};

struct prod : sum {
  template <class acc> static DEVICE acc identity() { return cast<acc>(1u); }
  template <class acc> static DEVICE acc combine(acc a, acc b) { return times(a, b); }
};

}  // namespace op

// O with values of a chain, which it converts as if it loaded them from memory as scalars.
template <class O, class scalar, class acc> struct reduced_by {
  template <class T> static DEVICE acc taken(T x) {
    if constexpr (sizeof(T) == sizeof(scalar)) {
      return O::template take<acc>(bits_as<scalar>(x), 0);
    } else {
      return O::template take<acc>(cast<scalar>(x), 0);
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
    const acc result[1] = {O::finish(x, p.number)};
    store(p.data[0], offset, 1, p.out_code, result);
  }
}

// Combine the lanes of each output; lane 0 writes the result.
template <class O, class partial, class P, class acc>
DEVICE void reduce_finish(const P& p, const reduce_position& at, acc x, acc* shared) {
  x = reduce_lanes<O>(p, at, x, shared);
  if (at.lane || at.row >= p.outputs) return;
  reduce_write<O, partial>(p, (u64)at.segment * p.outputs + at.row, at.out_offset, x);
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
#endif

#if HAS_LAYOUT(ROWS)
// With fewer than four accumulators, additions would wait for each other.
constexpr int CHAINS = PACK < 4 ? 4 / PACK : 1;

extern "C" __global__ void __launch_bounds__(THREADS, 1) reduce_rows(const reduce_params<DIMS> p) {
  __shared__ reduce_t shared[THREADS];
  const reduce_position at = reduce_locate(p);
  reduce_t x[CHAINS][PACK];
#pragma unroll
  for (int e = 0; e < CHAINS * PACK; ++e) x[e / PACK][e % PACK] = op::OP::identity<reduce_t>();
  if (at.row < p.outputs) {
    const segment_units own = units_of(p, at.segment);
    reduce_packs<scalar_t, op::OP, true>(
        p, p.data[1] + at.in_offset, own.begin + at.lane, own.end, x,
        [&](scalar_t given) { return op::OP::take<reduce_t>(given, p.number); });
  }
  reduce_finish<op::OP, partial_t>(p, at, fold<op::OP, CHAINS * PACK>(x[0]), shared);
}
#endif

#if HAS_LAYOUT(COLUMNS)
extern "C" __global__ void __launch_bounds__(THREADS, 1)
reduce_columns(const reduce_params<DIMS> p) {
  __shared__ reduce_t shared[THREADS * PACK];
  const reduce_position at = reduce_locate(p);
  const reduce_columns_of columns = locate_columns<PACK>(p, at);
  reduce_t x[PACK];
#pragma unroll
  for (int e = 0; e < PACK; ++e) x[e] = op::OP::identity<reduce_t>();
  if (columns.here) {
    const segment_units own = units_of(p, at.segment);
    reduce_column_packs<scalar_t, op::OP, true>(
        p, p.data[1] + at.in_offset, columns.here, own.begin + at.lane, own.end, x,
        [&](scalar_t given, int) { return op::OP::take<reduce_t>(given, p.number); });
  }
  reduce_column_lanes<op::OP>(p, at, x, shared);
  if (at.lane || !columns.here) return;
  // In shared memory, because registers cannot be indexed by a variable.
#pragma unroll
  for (int e = 0; e < PACK; ++e) shared[e * THREADS + threadIdx.x] = x[e];
#pragma unroll 1
  for (u32 e = 0; e < columns.here; ++e) {
    reduce_write<op::OP, partial_t>(
        p, (u64)at.segment * p.all_outputs + columns.row * p.run + columns.column + e,
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
  if (at.row < p.outputs) {
    const segment_units own = units_of(p, at.segment);
    reduce_elements<scalar_t, op::OP>(
        p, p.data[1] + at.in_offset, own.begin + at.lane, own.end, x,
        [&](scalar_t given) { return op::OP::take<reduce_t>(given, p.number); });
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
  if (at.row < p.outputs) {
    const char* in = p.data[1] + at.in_offset;
    const segment_units own = units_of(p, at.segment);
    const u32 lanes = 1u << p.lane_bits;
    for (u32 c = own.begin + at.lane; c < own.end; c += lanes * STRIDED_UNROLL) {
      scalar_t loaded[STRIDED_UNROLL];
      u32 along[STRIDED_UNROLL];
      i64 offset[STRIDED_UNROLL];
      const u32 count = reduce_units(p, c, lanes, own.end, along, offset);
      fetch<true>(in, offset, p.in_code, p.common, loaded);
#pragma unroll
      for (int k = 0; k < STRIDED_UNROLL; ++k) {
        if (k < count) x[k] = op::OP::combine(x[k], op::OP::take<reduce_t>(loaded[k], p.number));
      }
    }
  }
  reduce_finish<op::OP, partial_t>(p, at, fold<op::OP, STRIDED_UNROLL>(x), shared);
}
#endif
