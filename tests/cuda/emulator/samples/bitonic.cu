// Sorts keys, and values along with them, in each row of 2 * block elements: all steps of a bitonic
// network in shared memory. One block per row.
#define MOST 1024

__device__ __forceinline__ void exchange(unsigned& key_a, int& value_a, unsigned& key_b,
                                         int& value_b, bool ascending) {
  if ((key_a > key_b) == ascending) {
    const unsigned key = key_a;
    const int value = value_a;
    key_a = key_b, value_a = value_b;
    key_b = key, value_b = value;
  }
}

extern "C" __global__ void bitonic(unsigned* keys, int* values) {
  __shared__ unsigned key[MOST];
  __shared__ int value[MOST];
  const unsigned n = 2 * blockDim.x;
  const size_t row = (size_t)blockIdx.x * n;
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
    key[i] = keys[row + i];
    value[i] = values[row + i];
  }
  for (unsigned size = 2; size <= n; size <<= 1)
    for (unsigned stride = size / 2; stride > 0; stride >>= 1) {
      __syncthreads();
      const unsigned at = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
      exchange(key[at], value[at], key[at + stride], value[at + stride], (at & size) == 0);
    }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
    keys[row + i] = key[i];
    values[row + i] = value[i];
  }
}
