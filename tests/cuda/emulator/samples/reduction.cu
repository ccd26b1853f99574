// *out = sum of x[0 … n): each block adds up a part in a tree in dynamic shared memory; the block
// that finishes last adds up the parts. Any grid, blocks of a power of two; shared = 8 * block.
__device__ unsigned finished = 0;

extern "C" __global__ void reduction(const double* x, volatile double* parts, double* out, int n) {
  extern __shared__ double tree[];
  __shared__ bool is_last;
  double sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += x[i];
  tree[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = tree[0];
    __threadfence();
    is_last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    double total = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) total += parts[b];
    *out = total;
  }
}
