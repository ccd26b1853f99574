// acceleration[i] = sum over j of mass_j * (p_j - p_i) / (|p_j - p_i|^2 + softening)^(3/2); a body
// is x, y, z, mass. Positions pass through shared memory, a block's worth at a time.
// Launch: one thread per body; shared = 16 * block.
extern "C" __global__ void nbody(
    const float4* bodies, float4* acceleration, int n, float softening) {
  extern __shared__ float4 near[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 own = i < n ? bodies[i] : make_float4(0, 0, 0, 0);
  float3 sum = make_float3(0, 0, 0);
  for (int first = 0; first < n; first += blockDim.x) {
    const int j = first + threadIdx.x;
    near[threadIdx.x] = j < n ? bodies[j] : make_float4(0, 0, 0, 0);
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < blockDim.x; ++k) {
      const float x = near[k].x - own.x, y = near[k].y - own.y, z = near[k].z - own.z;
      const float inverse = rsqrtf(x * x + y * y + z * z + softening);
      const float force = near[k].w * inverse * inverse * inverse;
      sum.x += x * force, sum.y += y * force, sum.z += z * force;
    }
    __syncthreads();
  }
  if (i < n) acceleration[i] = make_float4(sum.x, sum.y, sum.z, 0);
}
