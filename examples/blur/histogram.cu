// bins[v] += how often v occurs in values. Bins are counted in shared memory first, per block.
// Launch   any grid, blocks of at most 1024 threads; bins start as the caller left them.
extern "C" __global__ void histogram(const unsigned char* values, unsigned* bins, int count) {
  __shared__ unsigned own[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) own[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    atomicAdd(&own[values[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    if (own[i] != 0) atomicAdd(&bins[i], own[i]);
}
