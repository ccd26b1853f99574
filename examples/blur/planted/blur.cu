// dst[y][x] = the 3 x 3 binomial mean around src[y][x]; outside, the nearest pixel counts.
// Launch   one thread per pixel, blocks of 32 x 8 threads.
#define TILE_X 32
#define TILE_Y 8

extern "C" __global__ void blur(const float* src, float* dst, int width, int height) {
  __shared__ float tile[TILE_Y + 2][TILE_X + 2];
  const int left = blockIdx.x * TILE_X - 1, top = blockIdx.y * TILE_Y - 1;
  const int thread = threadIdx.y * TILE_X + threadIdx.x;
  for (int i = thread; i < (TILE_X + 2) * (TILE_Y + 2); i += TILE_X * TILE_Y) {
    const int tile_x = i % (TILE_X + 2), tile_y = i / (TILE_X + 2);
    const int x = min(max(left + tile_x, 0), width - 1);
    const int y = min(max(top + tile_y, 0), height - 1);
    tile[tile_y][tile_x] = src[y * width + x + 1];  // planted: one pixel too far
  }
  __syncthreads();
  const int x = left + 1 + threadIdx.x, y = top + 1 + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0;
  for (int dy = 0; dy < 3; ++dy)
    for (int dx = 0; dx < 3; ++dx)
      sum += (2 - abs(dx - 1)) * (2 - abs(dy - 1)) * tile[threadIdx.y + dy][threadIdx.x + dx];
  dst[y * width + x] = sum * 0.0625f;
}
