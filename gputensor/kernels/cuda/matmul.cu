// out[m, n] = sum over k of a[m, k] * b[k, n], or beta * self + alpha * this        family: matmul
// Shapes   any strides (in bytes) of all operands; any number of products in one launch.
// Types    scalar_t storage, acc_t arithmetic (f32 for f16 and bf16; integers wrap around; for
//          bool, true if the sum of products is not 0).
// Launch   one block per tile of 64 x 64, products along y; 256 threads, 4 x 4 outputs each.
// Order    ascending k with fused multiply-add in one accumulator, so all tile shapes give the same
//          bits.
#include "math/arithmetic.cuh"
#include "launch.cuh"
#include "pointwise/strided.cuh"

// matmul_launch.py packs this struct. stride_bytes: of rows, of columns, then of products.
struct matmul_params {
  char* out;
  const char* a;
  const char* b;
  i64 out_stride_bytes[3], a_stride_bytes[3], b_stride_bytes[3];
  u32 m, n, k, unused;
  divider column_tiles;
};

// Like matmul_params, with the summand beta * self, unless self is null.
struct addmm_params : matmul_params {
  const char* self;
  i64 self_stride_bytes[3];
  value_slot beta, alpha;
};

namespace op {

struct mm {
  typedef matmul_params params;
  template <class T> static DEVICE T of(T a, T b, T sum) {
    if constexpr (is_complex<T>) {
      return T{math_fma(-a.im, b.im, math_fma(a.re, b.re, sum.re)),
               math_fma(a.im, b.re, math_fma(a.re, b.im, sum.im))};
    } else if constexpr (is_real<T>) {
      return math_fma(a, b, sum);
    } else {
      return plus(times(a, b), sum);
    }
  }
  template <class scalar, class T> static DEVICE T finish(const params&, u32, u32, u32, T sum) {
    return sum;
  }
};

struct addmm : mm {
  typedef addmm_params params;
  template <class scalar, class T>
  static DEVICE T finish(const params& p, u32 product, u32 row, u32 column, T sum) {
    const T scaled = times(number<T>(p.alpha), sum);
    if (!p.self) return scaled;
    const char* at = p.self + product * p.self_stride_bytes[2] + row * p.self_stride_bytes[0] +
                     column * p.self_stride_bytes[1];
    return plus(scaled, times(number<T>(p.beta), cast<T>(*(const scalar*)at)));
  }
};

}  // namespace op

// ---- body ----
#ifndef OP
#define OP mm
#endif
#include "defaults.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) matmul_strided(const op::OP::params p) {
  constexpr u32 TILE = 64, DEPTH = 16, EACH = 4, SIDE = TILE / EACH;
  __shared__ acc_t a[DEPTH][TILE], b[DEPTH][TILE];
  const u32 tile_row = quotient_of(blockIdx.x, p.column_tiles);
  const u32 row = tile_row * TILE, column = (blockIdx.x - tile_row * p.column_tiles.size) * TILE;
  const char* of_a = p.a + blockIdx.y * p.a_stride_bytes[2];
  const char* of_b = p.b + blockIdx.y * p.b_stride_bytes[2];
  const u32 x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
  // Neighbouring threads read along the operand's shorter stride.
  const bool a_by_rows = p.a_stride_bytes[1] <= p.a_stride_bytes[0];
  const bool b_by_rows = p.b_stride_bytes[1] <= p.b_stride_bytes[0];
  acc_t sum[EACH][EACH];
#pragma unroll
  for (u32 i = 0; i < EACH; ++i) {
#pragma unroll
    for (u32 j = 0; j < EACH; ++j) sum[i][j] = cast<acc_t>(0u);
  }
  for (u32 depth = 0; depth < p.k; depth += DEPTH) {
#pragma unroll
    for (u32 i = threadIdx.x; i < DEPTH * TILE; i += THREADS) {
      const u32 along = i % DEPTH, across = i / DEPTH;
      const u32 far = i % TILE, deep = i / TILE;
      const u32 a_deep = a_by_rows ? along : deep, a_row = a_by_rows ? across : far;
      const u32 b_deep = b_by_rows ? deep : along, b_column = b_by_rows ? far : across;
      acc_t from_a = cast<acc_t>(0u), from_b = cast<acc_t>(0u);
      if (depth + a_deep < p.k && row + a_row < p.m) {
        from_a = cast<acc_t>(*(const scalar_t*)(of_a + (row + a_row) * p.a_stride_bytes[0] +
                                                (depth + a_deep) * p.a_stride_bytes[1]));
      }
      if (depth + b_deep < p.k && column + b_column < p.n) {
        from_b = cast<acc_t>(*(const scalar_t*)(of_b + (depth + b_deep) * p.b_stride_bytes[0] +
                                                (column + b_column) * p.b_stride_bytes[1]));
      }
      a[a_deep][a_row] = from_a;
      b[b_deep][b_column] = from_b;
    }
    __syncthreads();
    const u32 end = p.k - depth < DEPTH ? p.k - depth : DEPTH;
    for (u32 k = 0; k < end; ++k) {
#pragma unroll
      for (u32 i = 0; i < EACH; ++i) {
#pragma unroll
        for (u32 j = 0; j < EACH; ++j) {
          sum[i][j] = op::OP::of(a[k][y + i * SIDE], b[k][x + j * SIDE], sum[i][j]);
        }
      }
    }
    __syncthreads();
  }
  char* out = p.out + blockIdx.y * p.out_stride_bytes[2];
#pragma unroll
  for (u32 i = 0; i < EACH; ++i) {
#pragma unroll
    for (u32 j = 0; j < EACH; ++j) {
      const u32 at_row = row + y + i * SIDE, at_column = column + x + j * SIDE;
      if (at_row < p.m && at_column < p.n) {
        *(scalar_t*)(out + at_row * p.out_stride_bytes[0] + at_column * p.out_stride_bytes[1]) =
            cast<scalar_t>(op::OP::finish<scalar_t>(p, blockIdx.y, at_row, at_column, sum[i][j]));
      }
    }
  }
}
