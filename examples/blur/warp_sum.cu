// sums[row] = the sum of a row of x (rows, columns), a warp for each row.
// Launch   blocks of whole warps; the grid covers the rows. Order: fixed, lanes then a tree.
extern "C" __global__ void warp_sum(const float* x, float* sums, int rows, int columns) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  float sum = 0;
  if (row < rows)
    for (int column = lane; column < columns; column += 32) sum += x[row * columns + column];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (row < rows && lane == 0) sums[row] = sum;
}
