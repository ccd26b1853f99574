// out[row] = sum of a[row] * b[row] for rows of half pairs, a tile of 16 threads for each row.
#include <cuda_fp16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void dot_half(
    const __half2* a, const __half2* b, float* out, int rows, int pairs) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  const int row = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank();
  float sum = 0;
  if (row < rows)
    for (int i = tile.thread_rank(); i < pairs; i += tile.size()) {
      const float2 x = __half22float2(a[row * pairs + i]), y = __half22float2(b[row * pairs + i]);
      sum += x.x * y.x + x.y * y.y;
    }
  sum = cg::reduce(tile, sum, cg::plus<float>());
  if (row < rows && tile.thread_rank() == 0) out[row] = sum;
}
