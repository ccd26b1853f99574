// Copies the positive elements of x to `kept`, in any order, and counts them: the lanes of a warp
// that have one take their places together, with one atomic operation.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ int take_place(int* count) {
  cg::coalesced_group group = cg::coalesced_threads();
  int first = 0;
  if (group.thread_rank() == 0) first = atomicAdd(count, (int)group.size());
  return group.shfl(first, 0) + (int)group.thread_rank();
}

extern "C" __global__ void warp_aggregate(const int* x, int* kept, int* count, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] > 0) kept[take_place(count)] = x[i];
}
