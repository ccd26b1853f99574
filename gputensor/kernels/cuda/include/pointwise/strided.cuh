// Parameters and index arithmetic of the kernels for any strides.
//
// Note [Strides]: dimension 0 is the fastest. Strides are bytes, signed, 64 bits wide. An index has
// 32 bits, and launch.py splits layouts of more than 2^31 - 1 elements. So an operand may span any
// number of bytes. launch.py packs these structs field by field (`StridedLaunch`).
#ifndef GPUTENSOR_STRIDED
#define GPUTENSOR_STRIDED

#include "dtypes.cuh"

// Elements per thread. They are `blockDim.x` apart, so that a thread has four loads in flight.
constexpr int STRIDED_UNROLL = 4;

struct value_slot { u64 low, high; };  // a number, as bytes of the type that the kernel reads

template <class T> DEVICE T number(value_slot slot) {
  union { value_slot slot; T value; } both;
  both.slot = slot;
  return both.value;
}

// size >= 1; for n < 2^31: n / size == (umulhi(n, magic) + n) >> shift (division.py).
struct divider { u32 size, magic, shift, unused; };

DEVICE u32 quotient_of(u32 n, const divider& by) {
  return (u32)(((u64)n * by.magic >> 32) + n) >> by.shift;
}

template <int OPERANDS> struct dimension {
  divider by;
  i64 stride_bytes[OPERANDS];
};

// The slot of a number or scalar contains the kernel's acc_t (integers as 64 bits). Operands are
// outputs first. Input k is operand OPERANDS - inputs + k, or value[k] if bit k of `numbers` is
// set. The scalars of the operator follow the inputs' slots.
template <int OPERANDS, int VALUES, int MAX_DIMS> struct strided_params {
  static constexpr int operands = OPERANDS, dims = MAX_DIMS, codes = OPERANDS > 4 ? 8 : 4;
  char* data[OPERANDS];
  value_slot value[VALUES];
  u32 numel;
  i32 ndim;
  i32 common;
  u32 numbers;
  i32 code[codes];
  dimension<OPERANDS> dim[MAX_DIMS];
};

// Add the byte offsets of position `index` in each operand. place: i64, or char*. Returns the index
// along dimension 0. If there are at most MOST dimensions, the loop is unrolled.
template <int MOST = 0, class D, class place, int N>
DEVICE u32 add_offsets(const D* dims, int ndim, u32 index, place (&at)[N]) {
  u32 along = index;
  constexpr bool is_short = MOST && MOST <= 8;
#pragma unroll(is_short ? MOST : 1)
  for (int d = 0; is_short ? d < MOST : d < ndim; ++d) {
    if (d >= ndim) break;
    const u32 rest = quotient_of(index, dims[d].by);
    const u32 coordinate = index - rest * dims[d].by.size;
    if (d == 0) along = coordinate;
#pragma unroll
    for (int k = 0; k < N; ++k) at[k] += coordinate * dims[d].stride_bytes[k];
    index = rest;
  }
  return along;
}

// The first element of this thread. The others follow at distances of blockDim.x.
DEVICE u32 first_element() { return blockIdx.x * blockDim.x * STRIDED_UNROLL + threadIdx.x; }

// The number of this thread's elements that exist.
DEVICE int elements_left(u32 first, u32 numel) {
  int left = 0;
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) left += first + k * blockDim.x < numel;
  return left;
}

// offset[operand][k]: the byte offset of element first + k * step. Elements past the end repeat the
// first one. Reading it again is safe, because in an in-place operator only this thread writes it.
template <class P, int OPERANDS>
DEVICE void locate(const P& p, u32 first, u32 step, i64 (&offset)[OPERANDS][STRIDED_UNROLL]) {
  u32 index[STRIDED_UNROLL];
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) {
    const u32 at = first + k * step;
    index[k] = at < p.numel ? at : first;
#pragma unroll
    for (int j = 0; j < OPERANDS; ++j) offset[j][k] = 0;
  }
  // Loops over few dimensions are unrolled. With many dimensions, unrolling would only make the
  // code longer.
#pragma unroll(P::dims <= 8 ? P::dims : 1)
  for (int d = 0; d < P::dims; ++d) {
    if (d >= p.ndim) break;
#pragma unroll
    for (int k = 0; k < STRIDED_UNROLL; ++k) {
      u32 coordinate = index[k];
      if (d + 1 < p.ndim) {
        index[k] = quotient_of(coordinate, p.dim[d].by);
        coordinate -= index[k] * p.dim[d].by.size;
      }
#pragma unroll
      for (int j = 0; j < OPERANDS; ++j) offset[j][k] += (i64)coordinate * p.dim[d].stride_bytes[j];
    }
  }
}

// Input k of the call, narrowed to the common dtype.
template <class acc_t, class P>
DEVICE void read_input(const P& p, int operand, int input, const i64 (&offset)[STRIDED_UNROLL],
                       acc_t (&out)[STRIDED_UNROLL]) {
  if (p.numbers >> input & 1) {
    const acc_t value = number<acc_t>(p.value[input]);
#pragma unroll
    for (int k = 0; k < STRIDED_UNROLL; ++k) out[k] = value;
  } else {
    fetch(p.data[operand], offset, p.code[operand], p.common, out);
  }
}

// Store results of the common dtype to output 0 of any dtype.
template <class P, class acc_t>
DEVICE void write_common(const P& p, const i64 (&offset)[STRIDED_UNROLL], int count,
                         acc_t (&value)[STRIDED_UNROLL]) {
  if (p.code[0] != p.common) {
#pragma unroll
    for (int k = 0; k < STRIDED_UNROLL; ++k) value[k] = narrow(value[k], p.common);
  }
  store(p.data[0], offset, count, p.code[0], value);
}

#endif
