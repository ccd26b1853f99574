// out[c][r] = in[r][c]: a 32 x 33 tile in shared memory, four rows per thread.
// Launch: blocks of 32 x 8, one per tile of 32 x 32.
template <typename T>
__global__ void transpose(const T* in, T* out, int rows, int columns) {
  __shared__ T tile[32][32 + 1];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 32; j += 8)
    if (r + j < rows && c < columns) tile[threadIdx.y + j][threadIdx.x] = in[(r + j) * columns + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x;
  r = blockIdx.x * 32 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 32; j += 8)
    if (r + j < columns && c < rows) out[(r + j) * rows + c] = tile[threadIdx.x][threadIdx.y + j];
}
