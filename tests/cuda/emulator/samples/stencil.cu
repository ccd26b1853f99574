// out[i] = sum of weights[d] * in[i + d - RADIUS], in with a margin of RADIUS at either end.
// Launch: one thread per element; shared = 4 * (block + 2 * RADIUS).
#define RADIUS 3
__constant__ float weights[2 * RADIUS + 1];

extern "C" __global__ void stencil(const float* __restrict__ in, float* __restrict__ out, int n) {
  extern __shared__ float near[];
  const int first = blockIdx.x * blockDim.x;
  for (int k = threadIdx.x; k < blockDim.x + 2 * RADIUS; k += blockDim.x)
    if (first + k < n + 2 * RADIUS) near[k] = __ldg(in + first + k);
  __syncthreads();
  if (first + threadIdx.x >= n) return;
  float sum = 0.0f;
#pragma unroll
  for (int d = 0; d <= 2 * RADIUS; ++d) sum = fmaf(weights[d], near[threadIdx.x + d], sum);
  out[first + threadIdx.x] = sum;
}
