// Counts of values, or sums of their weights.                                    family: histogram
// Shapes   x dense; counts dense, cleared by the caller. Points: x (n, edges), one coordinate for
//          each array of edges.
// Types    bincount: integers; points: f32, f64. Counts are i64, sums of weights f64.
// Order    counts are integers, which are added in parts; weights are added one after the other in
//          one thread.
#include <stdlib.h>

#include "capability.h"

namespace CAPABILITY {

constexpr i64 COUNTED = 1 << 15;  // minimum number of elements of a part
constexpr i64 MOST_PARTS = 16;

struct Counting {
  const char* x;
  i64* counts;
  i64 n, bins, parts;
  i64* own;  // the counts of each part but the first
};


template <class T> static void count_part(void* context, i64 first, i64 last) {
  const Counting& c = *(const Counting*)context;
  for (i64 part = first; part < last; ++part) {
    i64* counts = part ? c.own + (part - 1) * c.bins : c.counts;
    const i64 begin = c.n * part / c.parts, end = c.n * (part + 1) / c.parts;
    for (i64 i = begin; i < end; ++i) ++counts[((const T*)c.x)[i]];
  }
}

// Arrays: counts; x, whose elements are checked to be bins.
template <class T> static i64 bincount(const Call& call) {
  Counting c = {call.array[1].data, (i64*)call.array[0].data, call.array[1].size,
                call.array[0].size};
  c.parts = c.n / COUNTED + 1;
  if (c.parts > call.threads) c.parts = call.threads;
  if (c.parts > MOST_PARTS) c.parts = MOST_PARTS;
  if (c.bins * c.parts > c.n) c.parts = 1;
  c.own = nullptr;
  if (c.parts > 1 && !(c.own = (i64*)calloc((c.parts - 1) * c.bins, sizeof(i64)))) c.parts = 1;
  call.share(count_part<T>, &c, c.parts, 1);
  for (i64 part = 1; part < c.parts; ++part)
    for (i64 b = 0; b < c.bins; ++b) c.counts[b] += c.own[(part - 1) * c.bins + b];
  free(c.own);
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

// --- points -------------------------------------------------------------------------------------

constexpr int MOST_EDGES = 32;

template <class T> struct Points {
  const T *x, *weights;
  i64 n, parts, total;
  int dims;
  bool are_even;
  const T* edges[MOST_EDGES];
  i64 bins[MOST_EDGES];
  i64 *counts, *own;
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

template <class T> static void count_points(void* context, i64 first, i64 last) {
  const Points<T>& p = *(const Points<T>*)context;
  for (i64 part = first; part < last; ++part) {
    i64* counts = part ? p.own + (part - 1) * p.total : p.counts;
    const i64 begin = p.n * part / p.parts, end = p.n * (part + 1) / p.parts;
    for (i64 i = begin; i < end; ++i) {
      const i64 bin = bin_of(p, p.x + i * p.dims);
      if (bin >= 0) ++counts[bin];
    }
  }
}

// Arrays: counts of i64, or with weights sums of f64; x; weights or None; the edges of all
// dimensions, concatenated. Numbers: even, and the number of bins of each dimension.
template <class T> static i64 points(const Call& call) {
  Points<T> p = {};
  p.x = (const T*)call.array[1].data, p.weights = (const T*)call.array[2].data;
  p.are_even = call.integer[0], p.dims = call.n_ints - 1, p.n = call.array[1].size / p.dims;
  p.total = call.array[0].size;
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
  p.counts = (i64*)call.array[0].data;
  p.parts = p.n / (COUNTED / 4) + 1;
  if (p.parts > call.threads) p.parts = call.threads;
  if (p.parts > MOST_PARTS) p.parts = MOST_PARTS;
  if (p.total * p.parts > p.n) p.parts = 1;
  if (p.parts > 1 && !(p.own = (i64*)calloc((p.parts - 1) * p.total, sizeof(i64)))) p.parts = 1;
  call.share(count_points<T>, &p, p.parts, 1);
  for (i64 part = 1; part < p.parts; ++part)
    for (i64 b = 0; b < p.total; ++b) p.counts[b] += p.own[(part - 1) * p.total + b];
  free(p.own);
  return 0;
}

static const abi::FunctionEntry functions[] = {
#define X(T) {"bincount " #T, bincount<T>}, {"weigh " #T, weigh<T>},
    X(u8) X(i8) X(u16) X(i16) X(u32) X(i32) X(u64) X(i64)
#undef X
    {"points f32", points<f32>}, {"points f64", points<f64>},
};
extern const abi::Family histogram = {"histogram", nullptr, 0, functions,
                                      sizeof functions / sizeof *functions};

}  // namespace CAPABILITY
