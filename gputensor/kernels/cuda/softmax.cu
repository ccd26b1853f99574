// out[r, c] = op::OP over the row in[r, :]                               family: softmax
// Shapes   rows along one dimension, the others of any strides, up to DIMS; rows: the elements of a
//          row are dense in every operand; strided: they have any stride.
// Types    scalar_t storage of every operand, acc_t arithmetic (f32 for f16, bf16; rounded once).
// Launch   one-dimensional, 256 threads; 2^lane_bits of them share a row. rows: up to 32 threads of
//          a warp, or the whole block. A row of at most lanes * 64 bytes of acc_t is read once and
//          stays in registers; a longer row is read again for each pass.
// Order    fixed: lane l takes packs l, l + lanes, ... in ascending order, then lanes are combined
//          in pairs. The bits are equal on all runs and devices, except that exp and log may differ
//          between devices.
// Error    bound of a sum of n: (n / lanes + log2(lanes)) * eps * sum |x|.
// Numbers  the largest element is subtracted first, so no exponential overflows; log_softmax is (x
//          - max) - log(sum(exp(x - max))). A row of -inf, or with inf or NaN, gives NaN.
// Source   ATen/native/cuda/PersistentSoftmax.cuh (rows in registers of a warp), SoftMax.cu.
#include "math/arithmetic.cuh"
#include "pointwise/contiguous.cuh"
#include "lanes.cuh"

constexpr int HELD_BYTES = 64;  // bytes of an operand's row per thread in registers, as acc_t

template <class acc> DEVICE acc negative_infinity() { return (acc)-1 / (acc)0; }
template <class acc> DEVICE acc larger(acc a, acc b) { return a > b || is_nan(a) ? a : b; }
template <class acc> DEVICE acc total_of(acc a, acc b) { return a + b; }

// x: the element of each input. top: the largest element of input 0, if has_top. filler: replaces
// elements after the row's end and adds nothing to sums. prepare: a function of the sum of all
// terms.
namespace op {

struct softmax {
  static constexpr int inputs = 1;
  static constexpr bool has_top = true;
  template <class acc> static DEVICE acc filler() { return negative_infinity<acc>(); }
  template <class acc> static DEVICE acc term(const acc* x, acc top) {
    return math_exp(x[0] - top);
  }
  template <class acc> static DEVICE acc prepare(acc total) { return total; }
  template <class acc> static DEVICE acc result(const acc* x, acc top, acc total) {
    return math_exp(x[0] - top) / total;
  }
};

struct log_softmax : softmax {
  template <class acc> static DEVICE acc prepare(acc total) { return math_log(total); }
  template <class acc> static DEVICE acc result(const acc* x, acc top, acc total) {
    return (x[0] - top) - total;
  }
};

// Inputs: the incoming gradient, and the output of softmax or log_softmax.
struct softmax_backward {
  static constexpr int inputs = 2;
  static constexpr bool has_top = false;
  template <class acc> static DEVICE acc filler() { return 0; }
  template <class acc> static DEVICE acc term(const acc* x, acc) { return x[0] * x[1]; }
  template <class acc> static DEVICE acc prepare(acc total) { return total; }
  template <class acc> static DEVICE acc result(const acc* x, acc, acc total) {
    return x[1] * (x[0] - total);
  }
};

struct log_softmax_backward : softmax_backward {
  template <class acc> static DEVICE acc term(const acc* x, acc) { return x[0]; }
  template <class acc> static DEVICE acc result(const acc* x, acc, acc total) {
    return x[0] - math_exp(x[1]) * total;
  }
};

}  // namespace op

// softmax_launch.py packs this struct. Operand 0 is out. along_bytes: from one element of a row to
// the next.
template <int MAX_DIMS> struct softmax_params {
  static constexpr int dims = MAX_DIMS;
  char* data[3];
  i64 along_bytes[3];
  u32 rows, count;
  u32 lane_bits, slot_bits;  // threads per row and rows per block, powers of two
  u32 lanes_are_adjacent, ndim;
  dimension<3> dim[MAX_DIMS];
};

// The position of a thread: `lane` of row `row`, and the row's begin in each operand.
template <int OPERANDS> struct softmax_place : lane_place {
  u32 lanes;
  char* data[OPERANDS];
};

template <int OPERANDS, class P> DEVICE softmax_place<OPERANDS> softmax_locate(const P& p) {
  softmax_place<OPERANDS> at = {place_in(p, blockIdx.x), 1u << p.lane_bits};
#pragma unroll
  for (int k = 0; k < OPERANDS; ++k) at.data[k] = p.data[k];
  add_offsets<P::dims>(p.dim, p.ndim, at.row < p.rows ? at.row : 0, at.data);
  return at;
}

// ---- body ----
#ifndef OP
#define OP softmax
#endif
#include "defaults.cuh"

// One block per multiprocessor is requested, because otherwise ptxas would spill instead of using
// more registers for f64.
#if HAS_LAYOUT(ROWS)
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    softmax_rows(const softmax_params<DIMS> p) {
  constexpr int INPUTS = op::OP::inputs, PACK = 16 / sizeof(scalar_t);
  constexpr int HELD = HELD_BYTES / sizeof(acc_t), PACKS = HELD / PACK;
  __shared__ acc_t shared[THREADS / 32];
  const softmax_place<INPUTS + 1> at = softmax_locate<INPUTS + 1>(p);
  const u32 count = at.row < p.rows ? p.count : 0;
  u64 bits = 0;
#pragma unroll
  for (int k = 0; k <= INPUTS; ++k) bits |= (u64)at.data[k];
  const bool is_aligned = (bits & 15) == 0;
  const auto max_of = [](acc_t a, acc_t b) { return larger(a, b); };
  const auto sum_of = [](acc_t a, acc_t b) { return total_of(a, b); };

  // Pack k of the row. Elements after the end are filled.
  const auto read = [&](u32 k, acc_t (&x)[PACK][INPUTS]) {
#pragma unroll
    for (int i = 0; i < INPUTS; ++i) {
      const auto loaded = load_within<scalar_t, PACK>(
          at.data[i + 1], k * PACK, count, is_aligned, cast<scalar_t>(op::OP::filler<acc_t>()));
#pragma unroll
      for (int e = 0; e < PACK; ++e) x[e][i] = cast<acc_t>(loaded.at[e]);
    }
  };
  const auto write = [&](u32 k, const acc_t (&x)[PACK][INPUTS], acc_t top, acc_t total) {
    pack<scalar_t, PACK> made;
#pragma unroll
    for (int e = 0; e < PACK; ++e)
      made.at[e] = cast<scalar_t>(op::OP::result<acc_t>(x[e], top, total));
    store_within(at.data[0], k * PACK, count, is_aligned, made);
  };

  const u32 whole = (p.count + PACK - 1) / PACK;
  acc_t top = negative_infinity<acc_t>(), total = 0;
  if (p.count <= at.lanes * HELD) {
    acc_t x[PACKS][PACK][INPUTS];
#pragma unroll
    for (int k = 0; k < PACKS; ++k) read(at.lane + k * at.lanes, x[k]);
    if constexpr (op::OP::has_top) {
#pragma unroll
      for (int k = 0; k < PACKS; ++k) {
#pragma unroll
        for (int e = 0; e < PACK; ++e) top = larger(top, x[k][e][0]);
      }
      top = across_lanes(top, p.lane_bits, shared, max_of);
    }
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
#pragma unroll
      for (int e = 0; e < PACK; ++e) total += op::OP::term<acc_t>(x[k][e], top);
    }
    total = op::OP::prepare(across_lanes(total, p.lane_bits, shared, sum_of));
#pragma unroll
    for (int k = 0; k < PACKS; ++k) write(at.lane + k * at.lanes, x[k], top, total);
  } else {
    acc_t x[PACK][INPUTS];
    if constexpr (op::OP::has_top) {
      for (u32 k = at.lane; k < whole; k += at.lanes) {
        read(k, x);
#pragma unroll
        for (int e = 0; e < PACK; ++e) top = larger(top, x[e][0]);
      }
      top = across_lanes(top, p.lane_bits, shared, max_of);
    }
    for (u32 k = at.lane; k < whole; k += at.lanes) {
      read(k, x);
#pragma unroll
      for (int e = 0; e < PACK; ++e) total += op::OP::term<acc_t>(x[e], top);
    }
    total = op::OP::prepare(across_lanes(total, p.lane_bits, shared, sum_of));
    for (u32 k = at.lane; k < whole; k += at.lanes) {
      read(k, x);
      write(k, x, top, total);
    }
  }
}
#endif

#if HAS_LAYOUT(STRIDED)
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    softmax_strided(const softmax_params<DIMS> p) {
  constexpr int INPUTS = op::OP::inputs;
  __shared__ acc_t shared[THREADS];
  const softmax_place<INPUTS + 1> at = softmax_locate<INPUTS + 1>(p);
  const u32 count = at.row < p.rows ? p.count : 0;
  const u32 apart = p.lanes_are_adjacent ? 1 : 1u << p.slot_bits;
  const auto max_of = [](acc_t a, acc_t b) { return larger(a, b); };
  const auto sum_of = [](acc_t a, acc_t b) { return total_of(a, b); };
  const auto read = [&](u32 c, acc_t (&x)[INPUTS]) {
#pragma unroll
    for (int i = 0; i < INPUTS; ++i) {
      x[i] = cast<acc_t>(*(const scalar_t*)(at.data[i + 1] + c * p.along_bytes[i + 1]));
    }
  };
  acc_t top = negative_infinity<acc_t>(), total = 0;
  if constexpr (op::OP::has_top) {
#pragma unroll 4
    for (u32 c = at.lane; c < count; c += at.lanes) {
      acc_t x[INPUTS];
      read(c, x);
      top = larger(top, x[0]);
    }
    top = across_block(top, at.lane, at.lanes, apart, shared, max_of);
  }
#pragma unroll 4
  for (u32 c = at.lane; c < count; c += at.lanes) {
    acc_t x[INPUTS];
    read(c, x);
    total += op::OP::term<acc_t>(x, top);
  }
  total = op::OP::prepare(across_block(total, at.lane, at.lanes, apart, shared, sum_of));
#pragma unroll 4
  for (u32 c = at.lane; c < count; c += at.lanes) {
    acc_t x[INPUTS];
    read(c, x);
    *(scalar_t*)(at.data[0] + c * p.along_bytes[0]) =
        cast<scalar_t>(op::OP::result<acc_t>(x, top, total));
  }
}
#endif
