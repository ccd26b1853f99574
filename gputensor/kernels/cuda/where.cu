// out[i] = condition[i] ? self[i] : other[i]                             family: where
// Shapes   contiguous: all operands dense in one order, or numbers; rows, turned: out runs along a
//          dimension, inputs also stay, step or turn; strided, cast: any strides.
// Types    contiguous, strided: self, other and out are moved as words scalar_t (u8 u16 u32 u64
//          w128) of their one dtype; rows, turned: likewise, or TYPES cast to scalar_t; cast: any
//          dtypes by code, in scalar_t = i64, u64 or c128.
// Launch   as in pointwise/computed_body.cuh
#include "pointwise/contiguous.cuh"
#include "launch.cuh"
#include "pointwise/rows.cuh"
#include "pointwise/turned.cuh"

namespace op {

struct where {
  template <class T> static DEVICE T of(bool condition, T a, T b) { return condition ? a : b; }
};

}  // namespace op

// An input of the operator: the number in its slot, or the words at these offsets.
template <class T, class P>
DEVICE void read_words(const P& p, int operand, const i64 (&offset)[STRIDED_UNROLL],
                       T (&out)[STRIDED_UNROLL]) {
  const bool is_number = p.numbers >> (operand - 1) & 1;
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) {
    out[k] = is_number ? number<T>(p.value[operand - 1]) : *(const T*)(p.data[operand] + offset[k]);
  }
}

// ---- body ----
#ifndef OP
#define OP where
#endif
#include "defaults.cuh"
typedef contiguous_params<4, 3> contiguous_call;
typedef strided_params<4, 3, DIMS> strided_call;

#if HAS_LAYOUT(CONTIGUOUS)
extern "C" __global__ void __launch_bounds__(THREADS) where_contiguous(const contiguous_call p) {
  constexpr int PACK = 16 / sizeof(scalar_t), PACKS = BINARY_PACKS;
  const u32 tile = blockDim.x * PACK * PACKS, first = blockIdx.x * tile;
  const bool number_condition = p.numbers & 1, number_a = p.numbers & 2, number_b = p.numbers & 4;
  const b8 value_condition = number<b8>(p.value[0]);
  const scalar_t value_a = number<scalar_t>(p.value[1]), value_b = number<scalar_t>(p.value[2]);
  if (first + tile <= p.numel && all_aligned(p.data)) {
    pack<b8, PACK> condition[PACKS];
    pack<scalar_t, PACK> a[PACKS], b[PACKS];
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
      const u32 at = first + (k * blockDim.x + threadIdx.x) * PACK;
      condition[k] = load_or_repeat<b8, PACK>(p.data[1], at, number_condition, value_condition);
      a[k] = load_or_repeat<scalar_t, PACK>(p.data[2], at, number_a, value_a);
      b[k] = load_or_repeat<scalar_t, PACK>(p.data[3], at, number_b, value_b);
    }
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
#pragma unroll
      for (int e = 0; e < PACK; ++e) {
        a[k].at[e] = op::OP::of(condition[k].at[e].bits != 0, a[k].at[e], b[k].at[e]);
      }
      store_pack<scalar_t, PACK>(p.data[0], first + (k * blockDim.x + threadIdx.x) * PACK, a[k]);
    }
  } else {
    const u32 end = first + tile < p.numel ? first + tile : p.numel;
    for (u32 i = first + threadIdx.x; i < end; i += blockDim.x) {
      const b8 condition = number_condition ? value_condition : load_one<b8>(p.data[1], i);
      const scalar_t a = number_a ? value_a : load_one<scalar_t>(p.data[2], i);
      const scalar_t b = number_b ? value_b : load_one<scalar_t>(p.data[3], i);
      store_one(p.data[0], i, op::OP::of(condition.bits != 0, a, b));
    }
  }
}
#endif

#if HAS_LAYOUT(STRIDED)
extern "C" __global__ void __launch_bounds__(THREADS) where_strided(const strided_call p) {
  const u32 first = first_element();
  if (first >= p.numel) return;
  i64 offset[4][STRIDED_UNROLL];
  locate(p, first, blockDim.x, offset);
  b8 condition[STRIDED_UNROLL];
  scalar_t a[STRIDED_UNROLL], b[STRIDED_UNROLL];
  read_words(p, 1, offset[1], condition);
  read_words(p, 2, offset[2], a);
  read_words(p, 3, offset[3], b);
  const int count = elements_left(first, p.numel);
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) {
    if (k < count) {
      *(scalar_t*)(p.data[0] + offset[0][k]) = op::OP::of(condition[k].bits != 0, a[k], b[k]);
    }
  }
}
#endif

// w128 and words below 64 bits are not arithmetic types, so they do not have this entry.
#if HAS_LAYOUT(CAST) && LAYOUT != ANY_LAYOUT
extern "C" __global__ void __launch_bounds__(THREADS) where_cast(const strided_call p) {
  const u32 first = first_element();
  if (first >= p.numel) return;
  i64 offset[4][STRIDED_UNROLL];
  locate(p, first, blockDim.x, offset);
  b8 condition[STRIDED_UNROLL];
  acc_t a[STRIDED_UNROLL], b[STRIDED_UNROLL];
  read_words(p, 1, offset[1], condition);
  read_input(p, 2, 1, offset[2], a);
  read_input(p, 3, 2, offset[3], b);
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) a[k] = op::OP::of(condition[k].bits != 0, a[k], b[k]);
  write_common(p, offset[0], elements_left(first, p.numel), a);
}
#endif

#if HAS_LAYOUT(ROWS) || HAS_LAYOUT(TURNED)
#ifndef TYPES
#define TYPES scalar_t, b8, scalar_t, scalar_t
#endif
#include "pointwise/operand_defines.cuh"
constexpr int VALUES = 3;
template <class P> struct large_body {
  const P& p;
  template <int J, class T> DEVICE auto read(T x) const {
    if constexpr (J == 1) {
      return bits_as<u8>(x) != 0;
    } else {
      return cast<scalar_t>(x);
    }
  }
  template <int J> DEVICE auto given() const {
    if constexpr (J == 1) {
      return number<b8>(p.value[0]).bits != 0;
    } else {
      return number<scalar_t>(p.value[J - 1]);
    }
  }
  DEVICE scalar_t of(bool condition, scalar_t a, scalar_t b) const {
    return op::OP::of(condition, a, b);
  }
};
#include "pointwise/large_body.cuh"
#endif
