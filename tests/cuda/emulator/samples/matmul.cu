// c = a @ b for row-major a (m, k), b (k, n): tiles of TILE x TILE in shared memory.
// Launch: blocks of TILE x TILE threads, one per element of c.
#ifndef TILE
#define TILE 16
#endif

extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
  const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0;
  for (int at = 0; at < k; at += TILE) {
    const int x = at + threadIdx.x, y = at + threadIdx.y;
    a_tile[threadIdx.y][threadIdx.x] = row < m && x < k ? a[row * k + x] : 0.0f;
    b_tile[threadIdx.y][threadIdx.x] = y < k && column < n ? b[y * n + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
