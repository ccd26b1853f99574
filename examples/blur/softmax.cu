// out[row] = exp(x[row] - max) / sum(exp(x[row] - max)) along each row of x (rows, columns).
// Launch   one block per row, blocks of 64 to 1024 threads, whole warps.
#include <math.h>

// The result of a warp's lanes goes through shared memory, for all threads of the block.
template <class F>
__device__ float over_block(float v, float neutral, F combine) {
  __shared__ float of_warp[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (int offset = 16; offset > 0; offset /= 2)
    v = combine(v, __shfl_xor_sync(0xffffffffu, v, offset));
  __syncthreads();  // an earlier result has been read
  if (lane == 0) of_warp[warp] = v;
  __syncthreads();
  v = lane < warps ? of_warp[lane] : neutral;
  for (int offset = 16; offset > 0; offset /= 2)
    v = combine(v, __shfl_xor_sync(0xffffffffu, v, offset));
  return v;
}

extern "C" __global__ void softmax(const float* x, float* out, int columns) {
  const float* row = x + (size_t)blockIdx.x * columns;
  float* result = out + (size_t)blockIdx.x * columns;
  float most = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, row[i]);
  most = over_block(most, -INFINITY, [](float a, float b) { return fmaxf(a, b); });
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - most);
  sum = over_block(sum, 0.0f, [](float a, float b) { return a + b; });
  for (int i = threadIdx.x; i < columns; i += blockDim.x) result[i] = expf(row[i] - most) / sum;
}
