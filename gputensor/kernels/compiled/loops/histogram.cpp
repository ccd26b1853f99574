// Counts of values, or sums of their weights.                                    family: histogram
// Shapes   x dense; counts dense, cleared by the caller. Points: x (n, edges), one coordinate for
//          each array of edges.
// Types    bincount: integers; evenly and points: f32, f64. Counts are i64, sums of weights f64.
// Order    counts are integers, which are added in parts; weights are added one after the other in
//          one thread.
#include <stdlib.h>

#include "capability.h"

namespace CAPABILITY {

constexpr i64 COUNTED = 1 << 15;  // minimum number of elements of a part
constexpr i64 MOST_PARTS = 16;

// n elements, divided into parts with counts of their own.
template <class F> struct Parts {
  const F& count;
  i64 n, bins, parts;
  i64 *counts, *own;  // own: the counts of each part but the first
};

template <class F> static void count_parts(const Parts<F>& p, i64 first, i64 last) {
  for (i64 part = first; part < last; ++part)
    p.count(part ? p.own + (part - 1) * p.bins : p.counts, p.n * part / p.parts,
            p.n * (part + 1) / p.parts);
}

// Call count(counts, begin, end) for parts of n elements, and add the counts of all parts. least:
// the minimum number of elements of a part.
template <class F>
static void count_in_parts(const Call& call, i64* counts, i64 bins, i64 n, i64 least,
                           const F& count) {
  Parts<F> p = {count, n, bins, n / least + 1, counts, nullptr};
  if (p.parts > call.threads) p.parts = call.threads;
  if (p.parts > MOST_PARTS) p.parts = MOST_PARTS;
  if (bins * p.parts > n) p.parts = 1;
  if (p.parts > 1 && !(p.own = (i64*)calloc((p.parts - 1) * bins, sizeof(i64)))) p.parts = 1;
  call.share(as_body(count_parts<F>), &p, p.parts, 1);
  for (i64 part = 1; part < p.parts; ++part)
    for (i64 b = 0; b < bins; ++b) counts[b] += p.own[(part - 1) * bins + b];
  free(p.own);
}

// Arrays: counts; x, whose elements are checked to be bins.
template <class T> static i64 bincount(const Call& call) {
  const abi::Array &to = call.array[0], &x = call.array[1];
  count_in_parts(call, (i64*)to.data, to.size, x.size, COUNTED,
                 [&](i64* counts, i64 begin, i64 end) {
                   for (i64 i = begin; i < end; ++i) ++counts[((const T*)x.data)[i]];
                 });
  return 0;
}

// Arrays: sums, x, weights of f64.
template <class T> static i64 weigh(const Call& call) {
  f64* sums = (f64*)call.array[0].data;
  const T* x = (const T*)call.array[1].data;
  const f64* weights = (const f64*)call.array[2].data;
  for (i64 i = 0; i < call.array[1].size; ++i) sums[x[i]] += weights[i];
  return 0;
}

// --- bins of equal width ------------------------------------------------------------------------

constexpr i64 SOME = 256;       // elements whose bins are computed at a time
constexpr int WAYS = 4;         // neighbouring elements, often equal, have counts of their own
constexpr i64 FEW_BINS = 2048;  // up to this number of bins, these counts fit into the cache

// The bins of n elements; `bins` for elements outside of [least, most].
template <class T>
__attribute__((noinline)) static void even_bins(i32* to, const T* x, i64 n, T least, T most,
                                                i32 bins) {
  const T width = most - least, last = (T)(bins - 1), outside = (T)bins;
  for (i64 i = 0; i < n; ++i) {
    const T at = (x[i] - least) / width * (T)bins, inside = at < last ? at : last;
    to[i] = (i32)((x[i] >= least) & (x[i] <= most) ? (inside > 0 ? inside : 0) : outside);
  }
}

// Arrays: counts, x. Numbers: the outermost edges.
template <class T> static i64 evenly(const Call& call) {
  const abi::Array &to = call.array[0], &x = call.array[1];
  const T least = (T)call.real[0], most = (T)call.real[1];
  const i64 bins = to.size, ways = bins <= FEW_BINS ? WAYS : 1, row = bins + 1;
  i64* counts = (i64*)calloc(ways * row, sizeof(i64));
  if (!counts) return -1;
  count_in_parts(call, counts, ways * row, x.size, COUNTED, [&](i64* own, i64 begin, i64 end) {
    i32 at[SOME];
    for (i64 i = begin; i < end; i += SOME) {
      const i64 n = end - i < SOME ? end - i : SOME;
      even_bins(at, (const T*)x.data + i, n, least, most, (i32)bins);
      for (i64 k = 0; k < n; ++k) ++own[(k & (ways - 1)) * row + at[k]];
    }
  });
  for (i64 b = 0; b < bins; ++b)
    for (i64 way = 0; way < ways; ++way) ((i64*)to.data)[b] += counts[way * row + b];
  free(counts);
  return 0;
}

// --- points -------------------------------------------------------------------------------------

constexpr int MOST_EDGES = 32;

template <class T> struct Points {
  const T *x, *weights;
  i64 n;
  int dims;
  bool are_even;
  const T* edges[MOST_EDGES];
  i64 bins[MOST_EDGES];
  f64* sums;
};

// The number of edges that are at most x. x is within the outermost edges. For evenly spaced edges,
// x is compared with three edges near the quotient of a division; otherwise it is a binary search.
template <class T> static inline i64 edges_up_to(const T* edges, i64 bins, T x, bool are_even) {
  if (are_even) {
    const T made = (x - edges[0]) / (edges[bins] - edges[0]) * (T)bins;
    i64 guess = made > 0 ? (made < (T)bins ? (i64)made : bins) : 0;
    i64 place = guess;  // all edges before the left neighbour of the estimate are at most x
    place -= guess > 0 && !(edges[guess - 1] <= x);
    place += edges[guess] <= x;
    return place + (guess < bins && edges[guess + 1] <= x);
  }
  i64 low = 0, high = bins + 1;
  while (low < high) {
    const i64 middle = (low + high) >> 1, mask = -(i64)(edges[middle] <= x);
    low += (middle + 1 - low) & mask, high += (middle - high) & ~mask;
  }
  return low;
}

// The bin of a point, or -1.
template <class T> static inline i64 bin_of(const Points<T>& p, const T* x) {
  i64 bin = 0;
  for (int d = 0; d < p.dims; ++d) {
    const T *edges = p.edges[d], one = x[d];
    const i64 bins = p.bins[d];
    if (!(one >= edges[0] && one <= edges[bins])) return -1;
    i64 place = edges_up_to(edges, bins, one, p.are_even) - 1;
    place = place < 0 ? 0 : place < bins ? place : bins - 1;
    bin = bin * bins + place;
  }
  return bin;
}

// Arrays: counts of i64, or with weights sums of f64; x; weights or None; the edges of all
// dimensions, concatenated. Numbers: even, and the number of bins of each dimension.
template <class T> static i64 points(const Call& call) {
  Points<T> p = {};
  p.x = (const T*)call.array[1].data, p.weights = (const T*)call.array[2].data;
  p.are_even = call.integer[0], p.dims = call.n_ints - 1, p.n = call.array[1].size / p.dims;
  const T* edges = (const T*)call.array[3].data;
  for (int d = 0; d < p.dims; ++d) {
    p.edges[d] = edges, p.bins[d] = call.integer[1 + d];
    edges += p.bins[d] + 1;
  }
  if (p.weights) {
    p.sums = (f64*)call.array[0].data;
    for (i64 i = 0; i < p.n; ++i) {
      const i64 bin = bin_of(p, p.x + i * p.dims);
      if (bin >= 0) p.sums[bin] += p.weights[i];
    }
    return 0;
  }
  count_in_parts(call, (i64*)call.array[0].data, call.array[0].size, p.n, COUNTED / 4,
                 [&](i64* counts, i64 begin, i64 end) {
                   for (i64 i = begin; i < end; ++i) {
                     const i64 bin = bin_of(p, p.x + i * p.dims);
                     if (bin >= 0) ++counts[bin];
                   }
                 });
  return 0;
}

static const abi::FunctionEntry functions[] = {
#define X(T) {"bincount " #T, bincount<T>}, {"weigh " #T, weigh<T>},
    X(u8) X(i8) X(u16) X(i16) X(u32) X(i32) X(u64) X(i64)
#undef X
    {"evenly f32", evenly<f32>}, {"evenly f64", evenly<f64>},
    {"points f32", points<f32>}, {"points f64", points<f64>},
};
extern const abi::Family histogram = {"histogram", functions};

}  // namespace CAPABILITY
