// out[the position given by the indices for i] = op::OP(out there, v[i])           family: scatter
// Shapes   any strides, up to DIMS dimensions and INDICES index tensors.
// Types    v is a number or a tensor. scatter: scalar_t is a word of the elements' size; other
//          operators: types of 32 bits or more.
// Launch   one-dimensional, 256 threads, one element each.
// Order    none: if indices repeat, the value that remains, or that is added first, may change.
//          Values are combined atomically; for c128, each part separately.
// Numbers  an index out of range fails an assertion on the device.
#include "math/arithmetic.cuh"
#include "pointwise/indexed.cuh"
#include "launch.cuh"

// Replace the element by F::of(element, x).
template <class F, class T> DEVICE void update(char* at, T x) {
  if constexpr (sizeof(T) == 4) {
    u32 seen = *(u32*)at, before;
    do {
      before = seen;
      seen = atomicCAS((u32*)at, before, bits_as<u32>(F::of(bits_as<T>(before), x)));
    } while (seen != before);
  } else {
    u64 seen = *(u64*)at, before;
    do {
      before = seen;
      seen = atomicCAS((u64*)at, before, bits_as<u64>(F::of(bits_as<T>(before), x)));
    } while (seen != before);
  }
}

namespace op {

struct scatter {
  template <class T> static DEVICE void put(char* at, T x) { *(T*)at = x; }
};

struct scatter_add {  // signless
  template <class T> static DEVICE T of(T a, T b) { return plus(a, b); }
  template <class T> static DEVICE void put(char* at, T x) {
    if constexpr (same<T, c128>) {
      update<scatter_add>(at, x.re);
      update<scatter_add>(at + 8, x.im);
    } else {
      update<scatter_add>(at, x);
    }
  }
};

struct scatter_amax {
  template <class T> static DEVICE T of(T a, T b) { return is_nan(a) || a >= b ? a : b; }
  template <class T> static DEVICE void put(char* at, T x) { update<scatter_amax>(at, x); }
};

struct scatter_amin {
  template <class T> static DEVICE T of(T a, T b) { return is_nan(a) || a <= b ? a : b; }
  template <class T> static DEVICE void put(char* at, T x) { update<scatter_amin>(at, x); }
};

struct scatter_multiply {  // signless
  template <class T> static DEVICE T of(T a, T b) { return times(a, b); }
  template <class T> static DEVICE void put(char* at, T x) { update<scatter_multiply>(at, x); }
};

}  // namespace op

// ---- body ----
#ifndef OP
#define OP scatter
#endif
#ifndef INDICES
#define INDICES 1
#endif
#include "defaults.cuh"
typedef indexed_params<INDICES, DIMS> indexed_call;

extern "C" __global__ void __launch_bounds__(THREADS)
    scatter_strided(const indexed_call p) {
  const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= p.numel) return;
  char* at[2];
  find_places<0>(p, index, at);
  op::OP::put(at[0], p.has_number ? number<scalar_t>(p.value) : *(const scalar_t*)at[1]);
}
