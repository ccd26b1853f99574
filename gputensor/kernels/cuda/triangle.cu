// out[b, r, c] = x[b, r, c] on one side of a diagonal, 0 on the other side        family: triangle
// Shapes   any strides, up to DIMS dimensions; dimension 0 has the columns, dimension 1 the rows.
//          rows: columns are dense, and rows consist of whole packs of 16 bytes.
// Types    scalar_t is a word of the element's size; elements are copied unchanged.
// Launch   one-dimensional; a thread processes four elements, or packs, blockDim.x apart. Packs
//          without a kept element are not read. out may be x.
// Design   all loads of a thread are issued before the first store.
#include "pointwise/contiguous.cuh"
#include "launch.cuh"

// has: true if some of the columns [0, count) are kept, where the diagonal is in column `diagonal`.
namespace op {

struct tril {  // composite
  static DEVICE bool keeps(i64 column, i64 diagonal) { return column <= diagonal; }
  static DEVICE bool has(i64, i64 diagonal) { return diagonal >= 0; }
};

struct triu {  // composite
  static DEVICE bool keeps(i64 column, i64 diagonal) { return column >= diagonal; }
  static DEVICE bool has(i64 count, i64 diagonal) { return diagonal < count; }
};

}  // namespace op

// The units of a thread, of `width` columns each: their byte offsets in out and x, and the columns
// of the diagonal, counted from the begin of the unit. value[0]: the diagonal's column in row 0.
template <int OPERANDS> struct triangle_units {
  i64 offset[STRIDED_UNROLL][OPERANDS], diagonal[STRIDED_UNROLL];
  bool is_there[STRIDED_UNROLL];
};

template <int WIDTH, class P> DEVICE triangle_units<2> triangle_locate(const P& p) {
  const u32 first = first_element();
  const i64 shift = number<i64>(p.value[0]);
  triangle_units<2> found;
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) {
    const u32 at = first + k * blockDim.x;
    found.is_there[k] = at < p.numel;
    u32 index = found.is_there[k] ? at : 0;
    i64 row = 0, column = 0;
    found.offset[k][0] = found.offset[k][1] = 0;
#pragma unroll 1
    for (int d = 0; d < p.ndim; ++d) {
      const u32 rest = quotient_of(index, p.dim[d].by);
      const u32 coordinate = index - rest * p.dim[d].by.size;
      if (d == 0) column = coordinate;
      if (d == 1) row = coordinate;
#pragma unroll
      for (int j = 0; j < 2; ++j) found.offset[k][j] += coordinate * p.dim[d].stride_bytes[j];
      index = rest;
    }
    found.diagonal[k] = row + shift - column * WIDTH;
  }
  return found;
}

// ---- body ----
#ifndef OP
#define OP tril
#endif
#include "defaults.cuh"
typedef strided_params<2, 1, DIMS> triangle_call;

#if HAS_LAYOUT(ROWS)
extern "C" __global__ void __launch_bounds__(THREADS) triangle_rows(const triangle_call p) {
  constexpr int PACK = 16 / sizeof(scalar_t);
  const triangle_units<2> at = triangle_locate<PACK>(p);
  const bool is_aligned = all_aligned(p.data);
  pack<scalar_t, PACK> x[STRIDED_UNROLL];
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) {
    x[k] = repeat<scalar_t, PACK>(scalar_t{});
    if (!at.is_there[k] || !op::OP::has(PACK, at.diagonal[k])) continue;
    const char* const from = p.data[1] + at.offset[k][1];
    x[k] = load_within<scalar_t, PACK>(from, 0, PACK, is_aligned);
  }
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) {
    if (!at.is_there[k]) continue;
    char* const to = p.data[0] + at.offset[k][0];
#pragma unroll
    for (int e = 0; e < PACK; ++e) {
      if (!op::OP::keeps(e, at.diagonal[k])) x[k].at[e] = scalar_t{};
    }
    store_within(to, 0, PACK, is_aligned, x[k]);
  }
}
#endif

#if HAS_LAYOUT(STRIDED)
extern "C" __global__ void __launch_bounds__(THREADS) triangle_strided(const triangle_call p) {
  const triangle_units<2> at = triangle_locate<1>(p);
  scalar_t x[STRIDED_UNROLL];
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) {
    x[k] = scalar_t{};
    if (at.is_there[k] && op::OP::keeps(0, at.diagonal[k])) {
      x[k] = *(const scalar_t*)(p.data[1] + at.offset[k][1]);
    }
  }
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) {
    if (at.is_there[k]) *(scalar_t*)(p.data[0] + at.offset[k][0]) = x[k];
  }
}
#endif
