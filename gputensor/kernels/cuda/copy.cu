// dst[i] = src[i], cast to dst's dtype                                   family: copy
// Shapes   contiguous: both dense in one order; other layouts: any strides, src stride 0 allowed.
// Types    contiguous, strided, packed move words scalar_t (u8 u16 u32 u64 w128) of one dtype;
//          cast, affine: any two dtypes by code. See Note [Casts] in types.cuh.
// Launch   one-dimensional; a block has blockDim.x * (4 packs | 4 elements | UNITS packs).
// Design   for copies that copy_row, copy_tile, copy_skinny and copy_pack do not accept, or that
//          are too small for them. packed: dst is dense and src is not; each thread writes four
//          bytes of dst. affine: `pack` of any layout, see `scaled` in vectors.cuh.
#include "pointwise/contiguous.cuh"
#include "launch.cuh"
#include "vectors.cuh"

namespace op {

struct copy {
  // Casts through an arithmetic type that represents all values of the source exactly.
  template <class exact_t, class P, int N>
  static DEVICE void of(const P& p, const i64 (&offset)[2][N], int count) {
    exact_t value[N];
    fetch<false>(p.data[1], offset[1], p.code[1], p.code[1], value);
    store(p.data[0], offset[0], count, p.code[0], value);
  }
};

}  // namespace op

// Operand 2 is the channel index; its strides count channels.
template <int MAX_DIMS> struct affine_params {
  static constexpr int dims = MAX_DIMS;
  char* data[2];
  scaling by;  // see copy_ends
  u32 numel;
  i32 ndim;
  i32 code[2];
  u32 first_channel, unused;
  dimension<3> dim[MAX_DIMS];
};

// Write value[k] to base + offset[k] as dtype `code`, rounded and saturated if `code` is an integer
// type.
template <int N, class acc_t>
DEVICE void store_quantised(char* base, const i64 (&offset)[N], int count, int code,
                            const acc_t (&value)[N]) {
#define GPUTENSOR_QUANTISE(T)                                                      \
  case code_##T:                                                                   \
    _Pragma("unroll") for (int k = 0; k < N; ++k) {                                \
      if (k < count) *(T*)(base + offset[k]) = quantised<T>(value[k]);             \
    }                                                                              \
    break;
  switch (code) {
    GPUTENSOR_INTEGER_CASES(GPUTENSOR_QUANTISE)
    GPUTENSOR_REAL_CASES(GPUTENSOR_QUANTISE)
  }
#undef GPUTENSOR_QUANTISE
}

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

#if HAS_LAYOUT(PACKED)
extern "C" __global__ void __launch_bounds__(THREADS) copy_packed(const strided_call p) {
  constexpr u32 EACH = sizeof(scalar_t) < 4 ? 4 / sizeof(scalar_t) : 1;
  constexpr u32 UNITS = 8 / EACH < STRIDED_UNROLL ? 8 / EACH : STRIDED_UNROLL;
  const u32 first = (blockIdx.x * blockDim.x * UNITS + threadIdx.x) * EACH;
  vec<scalar_t, 1> x[UNITS][EACH];
  char* to[UNITS];
#pragma unroll
  for (u32 k = 0; k < UNITS; ++k) {
    u32 index = first + k * blockDim.x * EACH;
    index = index < p.numel ? index : 0;
    i64 dst = 0, src = 0;
#pragma unroll(DIMS <= 8 ? DIMS : 1)
    for (int d = 0; d < DIMS; ++d) {
      if (d >= p.ndim) break;
      u32 coordinate = index;
      if (d + 1 < p.ndim) {
        index = quotient_of(coordinate, p.dim[d].by);
        coordinate -= index * p.dim[d].by.size;
      }
      dst += (i64)coordinate * p.dim[d].stride_bytes[0];
      src += (i64)coordinate * p.dim[d].stride_bytes[1];
    }
    to[k] = p.data[0] + dst;
#pragma unroll
    for (u32 e = 0; e < EACH; ++e) {
      x[k][e] = load_vector<vec<scalar_t, 1>>(p.data[1] + src + e * p.dim[0].stride_bytes[1]);
    }
  }
#pragma unroll
  for (u32 k = 0; k < UNITS; ++k) {
    if (first + k * blockDim.x * EACH < p.numel) {
      store_vector(to[k], assembled<scalar_t, EACH>([&](int e) { return x[k][e].at(0); }));
    }
  }
}
#endif

#if HAS_LAYOUT(AFFINE)
extern "C" __global__ void __launch_bounds__(THREADS) copy_affine(const affine_params<DIMS> p) {
  const u32 first = first_element();
  if (first >= p.numel) return;
  i64 offset[3][STRIDED_UNROLL];
  locate(p, first, blockDim.x, offset);
  scalar_t x[STRIDED_UNROLL];
  fetch(p.data[1], offset[1], p.code[1], p.code[1], x);
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) {
    const u32 channel = p.first_channel + (u32)offset[2][k];
    x[k] = x[k] * (scalar_t)p.by.scale_of(channel) + (scalar_t)p.by.bias_of(channel);
  }
  store_quantised(p.data[0], offset[0], elements_left(first, p.numel), p.code[0], x);
}
#endif
