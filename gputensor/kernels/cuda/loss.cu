// loss[r] = -weight[t[r]] * x[r, t[r]], their sum or mean; and its derivative        family: loss
// Shapes   x (rows, classes) of any strides, t (rows), weight (classes) or none.
// Types    x, weight and results scalar_t, sums acc_t (f32 for f16 and bf16); targets i64 or u8.
// Launch   one-dimensional, 256 threads. elements: one thread per row, or element of a gradient;
//          sums: a block adds PER_BLOCK rows and writes a partial sum, or the result if it is the
//          only block; parts: one block adds the partial sums.
// Order    determined by the number of rows: thread t adds rows t, t + 256, ... of its block, then
//          the threads' sums are added in pairs, and finally the blocks' sums in the same way. So
//          each run and device gives the same bits.
// Numbers  a target equal to ignore_index is skipped; another target that is not a class fails an
//          assertion on the device, and no memory is read there.
#include "math/arithmetic.cuh"
#include "launch.cuh"
#include "pointwise/strided.cuh"

// loss_launch.py packs this struct. data: for nll_loss (loss, total, x, target, weight or null);
// for nll_loss_backward (grad_input, grad, target, weight or null, total). parts: partial sums,
// pairs of (weighted losses, weights). grad_stride_bytes: of the derivative's grad; 0 if it has one
// element.
struct loss_params {
  char* data[5];
  char* parts;
  i64 ignore_index;
  i64 row_bytes, class_bytes, target_bytes, weight_bytes, grad_bytes;
  u32 rows, classes, blocks;
  u32 is_mean, is_byte, unused;
  divider by_class;
};

// The class of a row; -1 if the row is skipped.
DEVICE i64 class_of(const loss_params& p, const char* targets, u32 row) {
  const char* at = targets + row * p.target_bytes;
  const i64 target = p.is_byte ? (i64) * (const u8*)at : *(const i64*)at;
  if (target == p.ignore_index) return -1;
  assert(0 <= target && target < p.classes && "a target is no class");
  return target;
}

namespace op {

struct nll_loss {
  // The contribution of one row: its weighted loss and its weight.
  template <class scalar, class acc>
  static DEVICE void add(const loss_params& p, u32 row, acc& loss, acc& weight) {
    const i64 target = class_of(p, p.data[3], row);
    if (target < 0) return;
    acc w = 1;
    if (p.data[4]) w = cast<acc>(*(const scalar*)(p.data[4] + target * p.weight_bytes));
    const char* at = p.data[2] + row * p.row_bytes + target * p.class_bytes;
    const acc x = cast<acc>(*(const scalar*)at);
    loss += -x * w;
    weight += w;
  }
  template <class scalar, class acc> static DEVICE void each(const loss_params& p, u32 row) {
    if (row == 0) *(scalar*)p.data[1] = cast<scalar>((acc)0);
    if (row >= p.rows) return;
    acc loss = 0, weight = 0;
    add<scalar>(p, row, loss, weight);
    ((scalar*)p.data[0])[row] = cast<scalar>(loss);
  }
};

struct nll_loss_backward {
  template <class scalar, class acc> static DEVICE void each(const loss_params& p, u32 element) {
    const u32 row = quotient_of(element, p.by_class);
    if (row >= p.rows) return;
    const i64 target = class_of(p, p.data[2], row);
    acc made = 0;
    if (target == element - row * p.classes) {
      made = -cast<acc>(*(const scalar*)(p.data[1] + row * p.grad_bytes));
      if (p.is_mean) made = made / cast<acc>(*(const scalar*)p.data[4]);
      if (p.data[3]) made *= cast<acc>(*(const scalar*)(p.data[3] + target * p.weight_bytes));
    }
    ((scalar*)p.data[0])[element] = cast<scalar>(made);
  }
};

}  // namespace op

constexpr u32 PER_BLOCK = 8 * THREADS;  // rows

// Add up the threads' values in pairs; thread 0 gets the sums.
template <class acc> DEVICE void sum_of_block(acc& loss, acc& weight, acc (&shared)[2][THREADS]) {
  const u32 t = threadIdx.x;
  for (u32 half = THREADS / 2; half > 0; half >>= 1) {
    shared[0][t] = loss;
    shared[1][t] = weight;
    __syncthreads();
    if (t < half) {
      loss += shared[0][t + half];
      weight += shared[1][t + half];
    }
    __syncthreads();
  }
}

template <class scalar, class acc>
DEVICE void finish_loss(const loss_params& p, acc loss, acc weight) {
  *(scalar*)p.data[0] = cast<scalar>(p.is_mean ? loss / weight : loss);
  *(scalar*)p.data[1] = cast<scalar>(weight);
}

// ---- body ----
#ifndef OP
#define OP nll_loss
#endif
#include "defaults.cuh"

#if HAS_LAYOUT(ELEMENTS)
extern "C" __global__ void __launch_bounds__(THREADS) loss_elements(const loss_params p) {
  op::OP::each<scalar_t, acc_t>(p, blockIdx.x * THREADS + threadIdx.x);
}
#endif

#if HAS_LAYOUT(SUMS)
extern "C" __global__ void __launch_bounds__(THREADS) loss_sums(const loss_params p) {
  __shared__ acc_t shared[2][THREADS];
  acc_t loss = 0, weight = 0;
  const u32 begin = blockIdx.x * PER_BLOCK;
  const u32 end = p.rows - begin < PER_BLOCK ? p.rows : begin + PER_BLOCK;
  for (u32 row = begin + threadIdx.x; row < end; row += THREADS) {
    op::nll_loss::add<scalar_t>(p, row, loss, weight);
  }
  sum_of_block(loss, weight, shared);
  if (threadIdx.x) return;
  if (p.blocks == 1) {
    finish_loss<scalar_t>(p, loss, weight);
  } else {
    ((acc_t*)p.parts)[2 * blockIdx.x] = loss;
    ((acc_t*)p.parts)[2 * blockIdx.x + 1] = weight;
  }
}
#endif

#if HAS_LAYOUT(PARTS)
extern "C" __global__ void __launch_bounds__(THREADS) loss_parts(const loss_params p) {
  __shared__ acc_t shared[2][THREADS];
  acc_t loss = 0, weight = 0;
  for (u32 part = threadIdx.x; part < p.blocks; part += THREADS) {
    loss += ((const acc_t*)p.parts)[2 * part];
    weight += ((const acc_t*)p.parts)[2 * part + 1];
  }
  sum_of_block(loss, weight, shared);
  if (threadIdx.x == 0) finish_loss<scalar_t>(p, loss, weight);
}
#endif
