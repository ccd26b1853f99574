// dst[i] = src[i], cast to dst's dtype                                   family: copy
// Shapes   contiguous: both dense in one order; strided, cast: any strides, src stride 0 allowed;
//          transposed: dst is unit-strided along columns, src along rows, any batch dimensions.
// Types    contiguous, strided, transposed move words scalar_t (u8 u16 u32 u64 w128) of one dtype;
//          cast: any two dtypes by code. See Note [Casts] in types.cuh.
// Launch   one-dimensional; a block owns blockDim.x * (4 packs | 4 elements), or a tile of 32 x 32.
#include "contiguous.cuh"
#include "launch.cuh"

namespace op {

struct copy {
  // Through an arithmetic type that holds every value of the source exactly.
  template <class exact_t, class P, int N>
  static DEVICE void of(const P& p, const i64 (&offset)[2][N], int count) {
    exact_t value[N];
    fetch<false>(p.data[1], offset[1], p.code[1], p.code[1], value);
    store(p.data[0], offset[0], count, p.code[0], value);
  }
};

}  // namespace op

// launch.py packs it (`TransposedLaunch`). Strides in bytes; batch dimensions as Note [Strides].
template <int DIMS> struct transposed_params {
  static constexpr int dims = DIMS;
  char* data[2];
  i64 dst_row_stride, src_column_stride;
  u32 columns, rows;
  divider column_tiles, row_tiles;
  u32 numel;  // batches
  i32 ndim;
  dimension<2> dim[DIMS];
};

// ---- body ----
#ifndef OP
#define OP copy
#endif
#include "defaults.cuh"
typedef contiguous_params<2, 1> contiguous_call;
typedef strided_params<2, 1, DIMS> strided_call;

#if HAS_LAYOUT(CONTIGUOUS)
extern "C" __global__ void __launch_bounds__(THREADS) copy_contiguous(const contiguous_call p) {
  constexpr int PACK = 16 / sizeof(scalar_t), PACKS = UNARY_PACKS;
  const u32 tile = blockDim.x * PACK * PACKS, first = blockIdx.x * tile;
  if (first + tile <= p.numel && all_aligned(p.data)) {
    pack<scalar_t, PACK> x[PACKS];
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
      const u32 at = first + (k * blockDim.x + threadIdx.x) * PACK;
      x[k] = load_streaming<scalar_t, PACK>(p.data[1], at);
    }
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
      store_pack<scalar_t, PACK>(p.data[0], first + (k * blockDim.x + threadIdx.x) * PACK, x[k]);
    }
  } else {
    const u32 end = first + tile < p.numel ? first + tile : p.numel;
    for (u32 i = first + threadIdx.x; i < end; i += blockDim.x) {
      store_one(p.data[0], i, load_one<scalar_t>(p.data[1], i));
    }
  }
}
#endif

#if HAS_LAYOUT(STRIDED)
extern "C" __global__ void __launch_bounds__(THREADS) copy_strided(const strided_call p) {
  const u32 first = first_element();
  if (first >= p.numel) return;
  i64 offset[2][STRIDED_UNROLL];
  locate(p, first, blockDim.x, offset);
  scalar_t x[STRIDED_UNROLL];
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) x[k] = *(const scalar_t*)(p.data[1] + offset[1][k]);
  const int count = elements_left(first, p.numel);
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) {
    if (k < count) *(scalar_t*)(p.data[0] + offset[0][k]) = x[k];
  }
}
#endif

#if HAS_LAYOUT(CAST)
extern "C" __global__ void __launch_bounds__(THREADS) copy_cast(const strided_call p) {
  const u32 first = first_element();
  if (first >= p.numel) return;
  i64 offset[2][STRIDED_UNROLL];
  locate(p, first, blockDim.x, offset);
  const int count = elements_left(first, p.numel), from = p.code[1];
  if (from == code_u64) {
    op::OP::of<u64>(p, offset, count);
  } else if (from <= code_i64) {
    op::OP::of<i64>(p, offset, count);
  } else if (from <= code_f32) {
    op::OP::of<f32>(p, offset, count);
  } else {
    op::OP::of<c128>(p, offset, count);
  }
}
#endif

#if HAS_LAYOUT(TRANSPOSED)
extern "C" __global__ void __launch_bounds__(THREADS)
copy_transposed(const transposed_params<DIMS> p) {
  constexpr u32 TILE = 32, STEP = THREADS / TILE;
  __shared__ scalar_t tile[TILE][TILE + 1];  // the odd pitch spreads a column over the banks
  const u32 above = quotient_of(blockIdx.x, p.column_tiles);
  const u32 column = (blockIdx.x - above * p.column_tiles.size) * TILE;
  u32 batch = quotient_of(above, p.row_tiles);
  const u32 row = (above - batch * p.row_tiles.size) * TILE;
  char* dst = p.data[0];
  const char* src = p.data[1];
#pragma unroll(DIMS <= 8 ? DIMS : 1)
  for (int d = 0; d < DIMS; ++d) {
    if (d >= p.ndim) break;
    const u32 rest = quotient_of(batch, p.dim[d].by);
    const i64 coordinate = batch - rest * p.dim[d].by.size;
    dst += coordinate * p.dim[d].stride_bytes[0];
    src += coordinate * p.dim[d].stride_bytes[1];
    batch = rest;
  }
  const u32 lane = threadIdx.x % TILE, line = threadIdx.x / TILE;
#pragma unroll
  for (u32 k = 0; k < TILE; k += STEP) {
    const u32 x = column + line + k, y = row + lane;
    if (x < p.columns && y < p.rows) {
      const char* from = src + x * p.src_column_stride + (u64)y * sizeof(scalar_t);
      tile[line + k][lane] = *(const scalar_t*)from;
    }
  }
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < TILE; k += STEP) {
    const u32 x = column + lane, y = row + line + k;
    if (x < p.columns && y < p.rows) {
      char* to = dst + y * p.dst_row_stride + (u64)x * sizeof(scalar_t);
      *(scalar_t*)to = tile[lane][line + k];
    }
  }
}
#endif
