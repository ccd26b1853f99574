// The indices of set marks, in row-major order                              family: nonzero
// Shapes   marks: bytes, dense; out: (dimensions, found), dense. counts: a number for each block of
//          PER_BLOCK marks, then their sum.
// Launch   one-dimensional, 256 threads, PER_THREAD marks each. elements: a block counts its marks;
//          sums: one block converts the counts to the number of marks before each block; parts: a
//          block writes its marks' coordinates.
// Order    the order of the marks, for any order of the threads.
#include "launch.cuh"
#include "pointwise/strided.cuh"

constexpr u32 PER_THREAD = 8, PER_BLOCK = PER_THREAD * THREADS;

// nonzero_launch.py packs this struct. found: the number of all marks, for the columns of out.
template <int MAX_DIMS> struct nonzero_params {
  i64* out;
  const u8* marks;
  i64* counts;
  u32 numel, ndim, blocks, unused;
  divider by[MAX_DIMS];
};

namespace op {

struct nonzero {};
struct nonzero_count {};

}  // namespace op

// The sum of `value` over the threads before this one. total: the sum over all threads.
DEVICE u32 sum_before(u32 value, u32 (&shared)[2][THREADS], u32& total) {
  const u32 t = threadIdx.x;
  int from = 0;
  shared[0][t] = value;
  __syncthreads();
  for (u32 apart = 1; apart < THREADS; apart *= 2) {
    u32 sum = shared[from][t];
    if (t >= apart) sum += shared[from][t - apart];
    from = 1 - from;
    shared[from][t] = sum;
    __syncthreads();
  }
  total = shared[from][THREADS - 1];
  const u32 before = shared[from][t] - value;
  __syncthreads();
  return before;
}

// ---- body ----
#ifndef OP
#define OP nonzero
#endif
#include "defaults.cuh"
typedef nonzero_params<DIMS> nonzero_call;

#if HAS_LAYOUT(ELEMENTS)
extern "C" __global__ void __launch_bounds__(THREADS) nonzero_elements(const nonzero_call p) {
  __shared__ u32 shared[2][THREADS];
  const u32 first = blockIdx.x * PER_BLOCK + threadIdx.x * PER_THREAD;
  u32 mine = 0, total;
  for (u32 k = 0; k < PER_THREAD; ++k) mine += first + k < p.numel && p.marks[first + k];
  sum_before(mine, shared, total);
  if (threadIdx.x == 0) p.counts[blockIdx.x] = total;
}
#endif

#if HAS_LAYOUT(SUMS)
extern "C" __global__ void __launch_bounds__(THREADS) nonzero_sums(const nonzero_call p) {
  __shared__ u32 shared[2][THREADS];
  u32 before = 0, total;
  for (u32 begin = 0; begin < p.blocks; begin += THREADS) {
    const u32 block = begin + threadIdx.x;
    const u32 mine = block < p.blocks ? (u32)p.counts[block] : 0;
    const u32 sum = before + sum_before(mine, shared, total);
    if (block < p.blocks) p.counts[block] = sum;
    before += total;
  }
  if (threadIdx.x == 0) p.counts[p.blocks] = before;
}
#endif

#if HAS_LAYOUT(PARTS)
extern "C" __global__ void __launch_bounds__(THREADS) nonzero_parts(const nonzero_call p) {
  __shared__ u32 shared[2][THREADS];
  const u32 first = blockIdx.x * PER_BLOCK + threadIdx.x * PER_THREAD;
  u32 mine = 0, total;
  for (u32 k = 0; k < PER_THREAD; ++k) mine += first + k < p.numel && p.marks[first + k];
  i64 row = p.counts[blockIdx.x] + sum_before(mine, shared, total);
  const i64 found = p.counts[p.blocks];
  for (u32 k = 0; k < PER_THREAD; ++k) {
    if (first + k >= p.numel || !p.marks[first + k]) continue;
    u32 index = first + k;
    for (int d = (int)p.ndim - 1; d >= 0; --d) {
      const u32 rest = quotient_of(index, p.by[d]);
      p.out[d * found + row] = index - rest * p.by[d].size;
      index = rest;
    }
    ++row;
  }
}
#endif
