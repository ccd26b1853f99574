// out[r] = op::OP over c of x[r, c], in two passes: var, logsumexp                 family: moments
// Shapes   as reduce.cu: rows, columns, strided. Up to DIMS kept and reduced dimensions.
// Types    scalar_t storage, acc_t arithmetic (f32 for f16 and bf16). The variance of complex
//          numbers is real. Results are rounded once.
// Launch   as reduce.cu: lanes of a block share an output. The second pass reads a segment again,
//          mostly from a cache. If an output has several segments, each writes a state of three
//          numbers, and a second launch (parts) merges the states.
// Order    as reduce.cu, for each pass. An output of one segment thus has the bits of the composed
//          operators: mean, then the sum of squared differences; amax, then the sum of
//          exponentials. States are merged by lanes in turn, and then in pairs.
// Error    var of n: about (n / lanes + log2(lanes)) * eps, relative, plus the square of the mean's
//          error (Chan, Golub, LeVeque, Algorithms for computing the sample variance, 1983).
// Numbers  an infinity among the elements gives the variance NaN. logsumexp subtracts the largest
//          element, unless it is infinite or NaN.
// Source   Chan, Golub, LeVeque (merging variances); Milakov, Gimelshein, Online normalizer
//          calculation for softmax, 2018 (merging sums of exponentials).
#include "math/arithmetic.cuh"
#include "pointwise/contiguous.cuh"
#include "launch.cuh"
#include "reducing.cuh"

// Combinations of a pass.
struct moments_sum {
  template <class acc> static DEVICE acc identity() { return acc{}; }
  template <class acc> static DEVICE acc combine(acc a, acc b) { return plus(a, b); }
};

struct moments_largest {
  template <class acc> static DEVICE acc identity() { return (acc)-1 / (acc)0; }
  template <class acc> static DEVICE acc combine(acc a, acc b) {
    return a > b || is_nan(a) ? a : b;
  }
};

// The result of both passes over `count` elements.
template <class acc> struct moments_state {
  typedef typename real_of<acc>::type real;
  acc first;
  real count, second;
};

// moments_launch.py packs this struct. mean: of var, or 0. parts: the states of segments, those of
// an output one after the other. over: the divisor of the variance.
template <int MAX_DIMS> struct moments_params {
  static constexpr int dims = MAX_DIMS;
  reduce_params<MAX_DIMS> walk;
  char* mean;
  char* parts;
  f64 over;
  u32 has_root, first_segment, all_segments, unused;
};

// first: the combination of the first pass; the second pass adds up terms. center: the value that a
// term needs of the first pass. merge: a state of both; either may be without elements.
namespace op {

struct logsumexp {  // composite
  typedef moments_largest first;
  template <class acc, class real> static DEVICE acc center(acc top, real) {
    return top - top == 0 ? top : 0;
  }
  template <class acc> static DEVICE acc term(acc x, acc center) { return math_exp(x - center); }
  template <class state> static DEVICE state empty() {
    return {first::identity<decltype(state::first)>(), 0, 0};
  }
  template <class state> static DEVICE state merge(const state& a, const state& b) {
    typedef decltype(state::first) acc;
    const acc top = first::combine(a.first, b.first), at = center(top, a.count);
    const acc left = a.count == 0 ? (acc)0 : moved(a.second, center(a.first, a.count), at);
    const acc right = b.count == 0 ? (acc)0 : moved(b.second, center(b.first, b.count), at);
    return {top, a.count + b.count, left + right};
  }
  template <class acc> static DEVICE acc moved(acc total, acc from, acc to) {
    return total == 0 ? total : total * math_exp(from - to);
  }
  template <class state, class P> static DEVICE auto result(const state& x, const P&) {
    return math_log(x.second) + center(x.first, x.count);
  }
};

struct var {  // composite
  typedef moments_sum first;
  template <class acc, class real> static DEVICE acc center(acc total, real count) {
    if constexpr (is_complex<acc>) {
      return acc{total.re / count, total.im / count};
    } else {
      return total / count;
    }
  }
  template <class acc> static DEVICE auto term(acc x, acc center) {
    const acc rest = minus(x, center);
    if constexpr (is_complex<acc>) {
      return rest.re * rest.re + rest.im * rest.im;
    } else {
      return rest * rest;
    }
  }
  template <class state> static DEVICE state empty() { return {}; }
  template <class state> static DEVICE state merge(const state& a, const state& b) {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    const auto between = term(center(b.first, b.count), center(a.first, a.count));
    const auto count = a.count + b.count;
    const auto share = between * (a.count * (b.count / count));
    return {plus(a.first, b.first), count, a.second + b.second + share};
  }
  template <class state, class P> static DEVICE auto result(const state& x, const P& p) {
    typedef decltype(state::second) real;
    const real found = x.second / (real)p.over;
    return p.has_root ? math_sqrt(found) : found;
  }
};

}  // namespace op

// The number of elements before unit `unit` of rows.
template <int PACK, class P> DEVICE u32 elements_before(const P& p, u32 unit) {
  const u32 row = p.reduced_dims > 1 ? quotient_of(unit, p.reduced[0].by) : 0;
  const u32 along = (unit - row * p.reduced[0].by.size) * PACK;
  return row * p.run + (along < p.run ? along : p.run);
}

// Give the value of lane 0 to all lanes. All threads of the block must call it.
template <class P, class acc>
DEVICE acc from_first_lane(const P& p, const reduce_position& at, acc x, acc* shared) {
  if (p.lane_bits == 0) return x;
  shared[threadIdx.x] = x;
  __syncthreads();
  const u32 apart = p.lanes_are_adjacent ? 1 : 1u << p.slot_bits;
  x = shared[threadIdx.x - at.lane * apart];
  __syncthreads();
  return x;
}

// Write the state of a segment of output `output`, or the result at its offset.
template <class O, class scalar, class P, class state>
DEVICE void moments_write(const P& p, const reduce_position& at, u64 output, i64 out_offset,
                          const state& x) {
  typedef typename real_of<scalar>::type real;
  if (p.walk.is_partial) {
    ((state*)p.parts)[output * p.all_segments + p.first_segment + at.segment] = x;
    return;
  }
  *(real*)(p.walk.data[0] + out_offset) = cast<real>(O::result(x, p));
  if (p.mean) {
    const i64 to = out_offset / (i64)sizeof(real) * (i64)sizeof(scalar);
    const auto count = (decltype(state::count))p.walk.number;
    *(scalar*)(p.mean + to) = cast<scalar>(O::center(x.first, count));
  }
}

// ---- body ----
#ifndef OP
#define OP var
#endif
#include "defaults.cuh"
typedef moments_params<DIMS> moments_call;
typedef op::OP::first first_pass;
typedef typename real_of<acc_t>::type real_t;
typedef moments_state<acc_t> state_t;

#if HAS_LAYOUT(ROWS) || HAS_LAYOUT(COLUMNS)
constexpr int PACK = 16 / sizeof(scalar_t);
#endif

// One block per multiprocessor is requested, because otherwise ptxas would spill.
#if HAS_LAYOUT(ROWS)
extern "C" __global__ void __launch_bounds__(THREADS, 1) moments_rows(const moments_call p) {
  constexpr int CHAINS = PACK < 4 ? 4 / PACK : 1;
  __shared__ acc_t shared[THREADS];
  __shared__ real_t shared_terms[THREADS];
  const reduce_position at = reduce_locate(p.walk);
  const segment_units own = units_of(p.walk, at.segment);
  const bool is_there = at.row < p.walk.outputs;
  const char* const in = p.walk.data[1] + at.in_offset;
  const u32 begin = own.begin + at.lane;
  const real_t count = elements_before<PACK>(p.walk, own.end) -
                       elements_before<PACK>(p.walk, own.begin);
  acc_t x[CHAINS][PACK];
#pragma unroll
  for (int e = 0; e < CHAINS * PACK; ++e) x[e / PACK][e % PACK] = first_pass::identity<acc_t>();
  if (is_there) {
    reduce_packs<scalar_t, first_pass, false>(p.walk, in, begin, own.end, x,
                                              [](scalar_t given) { return cast<acc_t>(given); });
  }
  acc_t first = reduce_lanes<first_pass>(p.walk, at, fold<first_pass, CHAINS * PACK>(x[0]), shared);
  first = from_first_lane(p.walk, at, first, shared);
  const acc_t center = op::OP::center(first, count);
  real_t y[CHAINS][PACK];
#pragma unroll
  for (int e = 0; e < CHAINS * PACK; ++e) y[e / PACK][e % PACK] = 0;
  if (is_there) {
    reduce_packs<scalar_t, moments_sum, false>(
        p.walk, in, begin, own.end, y,
        [&](scalar_t given) { return op::OP::term(cast<acc_t>(given), center); });
  }
  const real_t second = reduce_lanes<moments_sum>(
      p.walk, at, fold<moments_sum, CHAINS * PACK>(y[0]), shared_terms);
  if (at.lane || !is_there) return;
  moments_write<op::OP, scalar_t>(p, at, at.row, at.out_offset, state_t{first, count, second});
}
#endif

#if HAS_LAYOUT(COLUMNS)
extern "C" __global__ void __launch_bounds__(THREADS, 1) moments_columns(const moments_call p) {
  __shared__ acc_t shared[THREADS * PACK];
  __shared__ real_t shared_terms[THREADS * PACK];
  const reduce_position at = reduce_locate(p.walk);
  const reduce_columns_of columns = locate_columns<PACK>(p.walk, at);
  const segment_units own = units_of(p.walk, at.segment);
  const char* const in = p.walk.data[1] + at.in_offset;
  const u32 begin = own.begin + at.lane;
  const real_t count = own.end - own.begin;
  acc_t x[PACK];
#pragma unroll
  for (int e = 0; e < PACK; ++e) x[e] = first_pass::identity<acc_t>();
  if (columns.here) {
    reduce_column_packs<scalar_t, first_pass, false>(
        p.walk, in, columns.here, begin, own.end, x,
        [](scalar_t given, int) { return cast<acc_t>(given); });
  }
  reduce_column_lanes<first_pass>(p.walk, at, x, shared);
  const u32 first_thread = threadIdx.x - (at.lane << p.walk.slot_bits);
#pragma unroll
  for (int e = 0; e < PACK; ++e) shared[e * THREADS + threadIdx.x] = x[e];
  __syncthreads();
  acc_t center[PACK];
  real_t y[PACK];
#pragma unroll
  for (int e = 0; e < PACK; ++e) {
    center[e] = op::OP::center(shared[e * THREADS + first_thread], count);
    y[e] = 0;
  }
  if (columns.here) {
    reduce_column_packs<scalar_t, moments_sum, false>(
        p.walk, in, columns.here, begin, own.end, y, [&](scalar_t given, int e) {
          return op::OP::term(cast<acc_t>(given), center[e]);
        });
  }
  reduce_column_lanes<moments_sum>(p.walk, at, y, shared_terms);
  if (at.lane || !columns.here) return;
  // In shared memory, because registers cannot be indexed by a variable. It has `first` already.
#pragma unroll
  for (int e = 0; e < PACK; ++e) shared_terms[e * THREADS + threadIdx.x] = y[e];
#pragma unroll 1
  for (u32 e = 0; e < columns.here; ++e) {
    const u32 mine = e * THREADS + threadIdx.x;
    const u64 output = (u64)columns.row * p.walk.run + columns.column + e;
    moments_write<op::OP, scalar_t>(p, at, output, at.out_offset + e * p.walk.out_step,
                                    state_t{shared[mine], count, shared_terms[mine]});
  }
}
#endif

#if HAS_LAYOUT(STRIDED)
extern "C" __global__ void __launch_bounds__(THREADS, 1) moments_strided(const moments_call p) {
  __shared__ acc_t shared[THREADS];
  __shared__ real_t shared_terms[THREADS];
  const reduce_position at = reduce_locate(p.walk);
  const segment_units own = units_of(p.walk, at.segment);
  const bool is_there = at.row < p.walk.outputs;
  const char* const in = p.walk.data[1] + at.in_offset;
  const u32 begin = own.begin + at.lane;
  const real_t count = own.end - own.begin;
  acc_t x[STRIDED_UNROLL];
  real_t y[STRIDED_UNROLL];
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) x[k] = first_pass::identity<acc_t>(), y[k] = 0;
  if (is_there) {
    reduce_elements<scalar_t, first_pass>(p.walk, in, begin, own.end, x,
                                          [](scalar_t given) { return cast<acc_t>(given); });
  }
  acc_t first = reduce_lanes<first_pass>(p.walk, at, fold<first_pass, STRIDED_UNROLL>(x), shared);
  first = from_first_lane(p.walk, at, first, shared);
  const acc_t center = op::OP::center(first, count);
  if (is_there) {
    reduce_elements<scalar_t, moments_sum>(
        p.walk, in, begin, own.end, y,
        [&](scalar_t given) { return op::OP::term(cast<acc_t>(given), center); });
  }
  const real_t second =
      reduce_lanes<moments_sum>(p.walk, at, fold<moments_sum, STRIDED_UNROLL>(y), shared_terms);
  if (at.lane || !is_there) return;
  moments_write<op::OP, scalar_t>(p, at, at.row, at.out_offset, state_t{first, count, second});
}
#endif

#if HAS_LAYOUT(PARTS)
// Merges the states of each output. Lanes are adjacent.
struct merged {
  static DEVICE state_t combine(const state_t& a, const state_t& b) { return op::OP::merge(a, b); }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) moments_parts(const moments_call p) {
  __shared__ state_t shared[THREADS];
  const reduce_position at = reduce_locate(p.walk);
  state_t x = op::OP::empty<state_t>();
  if (at.row < p.walk.outputs) {
    const state_t* const parts = (const state_t*)p.parts + (u64)at.row * p.all_segments;
    const u32 lanes = 1u << p.walk.lane_bits;
#pragma unroll 4
    for (u32 c = at.lane; c < p.all_segments; c += lanes) x = merged::combine(x, parts[c]);
  }
  x = reduce_lanes<merged>(p.walk, at, x, shared);
  if (at.lane || at.row >= p.walk.outputs) return;
  moments_write<op::OP, scalar_t>(p, at, at.row, at.out_offset, x);
}
#endif
