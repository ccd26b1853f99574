// The memory layout of an array. gputensor fills in a Layout for each pointer parameter that has
// one. All Layouts of a launch have the same shape: their arrays are broadcast, and their
// dimensions are sorted by stride and coalesced, so that dimension 0 is the fastest.
//
//     #include <gputensor/layout.cuh>
//     extern "C" __global__ void scale(const float* x, Layout x_layout, float* y, Layout y_layout,
//                                      float factor) {
//       const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
//       if (i < x_layout.numel()) at(y, y_layout, i) = factor * at(x, x_layout, i);
//     }
#pragma once

namespace gputensor {

struct Layout {
  int ndim, reserved;
  long long shape[8];
  long long stride_bytes[8];

  // The number of elements of the iteration.
  __device__ long long numel() const {
    long long n = 1;
    for (int d = 0; d < ndim; ++d) n *= shape[d];
    return n;
  }

  // The offset in bytes of element `index` of the iteration.
  __device__ long long offset(long long index) const {
    long long bytes = 0;
    for (int d = 0; d < ndim; ++d) {
      bytes += index % shape[d] * stride_bytes[d];
      index /= shape[d];
    }
    return bytes;
  }
};

// Element `index` of the iteration.
template <class T>
__device__ T& at(T* first, const Layout& layout, long long index) {
  typedef unsigned char byte;
  return *(T*)((byte*)first + layout.offset(index));
}

}  // namespace gputensor

using gputensor::Layout;
using gputensor::at;
