// Exclusive prefix sum of each row of x (rows, 2 * block): a tree up and down in shared memory,
// with a word of padding after every 32. One block per row;
// shared = 4 * (2 * block + block / 16 + 1).
#define PADDED(i) ((i) + ((i) >> 5))

extern "C" __global__ void scan(const int* x, int* out) {
  extern __shared__ int tree[];
  const int n = 2 * blockDim.x, t = threadIdx.x;
  const size_t row = (size_t)blockIdx.x * n;
  tree[PADDED(t)] = x[row + t];
  tree[PADDED(t + blockDim.x)] = x[row + t + blockDim.x];
  int stride = 1;
  for (int pairs = n / 2; pairs > 0; pairs /= 2, stride *= 2) {
    __syncthreads();
    if (t < pairs) tree[PADDED(stride * (2 * t + 2) - 1)] += tree[PADDED(stride * (2 * t + 1) - 1)];
  }
  __syncthreads();
  if (t == 0) tree[PADDED(n - 1)] = 0;
  for (int pairs = 1; pairs < n; pairs *= 2) {
    stride /= 2;
    __syncthreads();
    if (t < pairs) {
      const int left = PADDED(stride * (2 * t + 1) - 1), right = PADDED(stride * (2 * t + 2) - 1);
      const int kept = tree[left];
      tree[left] = tree[right];
      tree[right] += kept;
    }
  }
  __syncthreads();
  out[row + t] = tree[PADDED(t)];
  out[row + t + blockDim.x] = tree[PADDED(t + blockDim.x)];
}
