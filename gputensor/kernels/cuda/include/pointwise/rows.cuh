// Pointwise kernels over rows. out is dense along a row; inputs are of kind run, stay, step or
// number.
//
// A thread has `unroll` units, which are all loaded before the first is used. ALONG: the units are
// in one row, blockDim.x units apart, and a block covers a piece of the row; an operand that stays
// is read once. Otherwise the units are below each other, in every `steps`-th row, so that the
// lanes of a warp read dense memory even if rows are short; an operand that is equal in all rows is
// read once. A thread divides only to find its first unit.
#if !defined(GPUTENSOR_ROWS) && !defined(GPUTENSOR_LOOPS)
#define GPUTENSOR_ROWS

#include "pointwise/operands.cuh"

// pointwise_plan.py packs this struct. Strides are bytes. numel: the number of threads with work.
template <int OPERANDS, int VALUES, int MAX_DIMS> struct rows_params {
  char* data[OPERANDS];
  value_slot value[VALUES];
  i64 inner_stride[OPERANDS];  // from one element of a row to the next
  i64 row_stride[OPERANDS];    // from one row to the next, unless ALONG
  i64 step_stride[OPERANDS];   // from one unit of a thread to the next
  u32 elements, rows;  // units of a row; number of rows that follow each other at row_stride
  u32 threads, unused;         // in all
  divider units;               // units of a row, divided into pieces if ALONG
  divider steps;               // rows between two units of a thread
  outer_dims<OPERANDS, MAX_DIMS> outer;
};

// The units of one thread, from at[] on. Unless ALL, only those whose bits are set.
template <class O, int V, bool ALL, class B>
DEVICE void compute_units(const B& body, char* const (&at)[O::count], const i64 (&step)[O::count],
                          const i64 (&inner)[O::count], u32 exists) {
  constexpr int U = O::unroll;
  all_inputs<O, V, U> inputs;
#pragma unroll
  for (int k = 0; k < U; ++k) {
    if (ALL || (exists >> k & 1)) {
      inputs.load(k, [&](int j) { return at[j] + k * step[j]; }, inner);
    }
  }
#pragma unroll
  for (int k = 0; k < U; ++k) {
    if (ALL || (exists >> k & 1)) {
      store_outputs<O, V>([&](int j, int) { return at[j] + k * step[j]; },
                          [&](int i) { return inputs.made(body, k, i); });
    }
  }
}

template <class O, class P, class B> DEVICE void walk_rows(const P& p, const B& body) {
  constexpr int N = O::count, V = O::unit, U = O::unroll;
  i64 offset[N] = {};
  u32 unit, exists = 0, whole = 0;
  if constexpr (O::is_along) {
    const u32 row = quotient_of(blockIdx.x, p.units);
    unit = (blockIdx.x - row * p.units.size) * (blockDim.x * U) + threadIdx.x;
    if (unit * V >= p.elements) return;
    add_outer(p.outer, row, offset);
#pragma unroll
    for (int k = 0; k < U; ++k) {
      const u32 end = (unit + k * blockDim.x) * V;
      exists |= (u32)(end < p.elements) << k, whole |= (u32)(end + V <= p.elements) << k;
    }
  } else {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= p.threads) return;
    const u32 rest = quotient_of(thread, p.units), batch = quotient_of(rest, p.steps);
    unit = thread - rest * p.units.size;
    const u32 row = rest - batch * p.steps.size;
    add_outer(p.outer, batch, offset);
#pragma unroll
    for (int j = 0; j < N; ++j) offset[j] += row * p.row_stride[j];
#pragma unroll
    for (int k = 0; k < U; ++k) exists |= (u32)(row + k * p.steps.size < p.rows) << k;
    whole = unit * V + V <= p.elements ? exists : 0;
  }
  char* at[N];
#pragma unroll
  for (int j = 0; j < N; ++j) at[j] = p.data[j] + offset[j] + (i64)(unit * V) * p.inner_stride[j];
  if (!O::has_edges || whole == (1u << U) - 1) {
    compute_units<O, V, true>(body, at, p.step_stride, p.inner_stride, whole);
    return;
  }
  // The end of a row, or of the rows: the i-th element of each unit that has one.
#pragma unroll 1
  for (u32 i = 0; i < V; ++i) {
    u32 here = 0;
#pragma unroll
    for (int k = 0; k < U; ++k) {
      const u32 first = O::is_along ? unit + k * blockDim.x : unit;
      here |= (u32)(exists >> k & first * V + i < p.elements) << k;
    }
    compute_units<O, 1, false>(body, at, p.step_stride, p.inner_stride, here);
#pragma unroll
    for (int j = 0; j < N; ++j) at[j] += p.inner_stride[j];
  }
}

#endif
