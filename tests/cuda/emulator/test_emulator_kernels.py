"""The semantics of CUDA C on the emulator, with small kernels of this file."""

from __future__ import annotations

import numpy as np
import pytest

from gputensor.core import errors

from ..support import Device, fresh_emulator, requires_emulator

pytestmark = [requires_emulator, pytest.mark.emulator]

TRANSPOSE = """
struct P { const float* in; float* out; int rows, columns; };
extern "C" __global__ void __launch_bounds__(256) transpose(const __grid_constant__ P p) {
  __shared__ float tile[16][17];
  const int tiles = (p.columns + 15) / 16;
  const int row = blockIdx.x / tiles * 16, column = blockIdx.x % tiles * 16;
  if (row + threadIdx.y < p.rows && column + threadIdx.x < p.columns)
    tile[threadIdx.y][threadIdx.x] = p.in[(row + threadIdx.y) * p.columns + column + threadIdx.x];
  __syncthreads();
  if (column + threadIdx.y < p.columns && row + threadIdx.x < p.rows)
    p.out[(column + threadIdx.y) * p.rows + row + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
"""

SUM = """
struct P { const float* in; float* out; int n; };
template <class T> __device__ T warp_sum(T v) {
  for (int offset = 16; offset; offset >>= 1) v += __shfl_down_sync(0xffffffffu, v, offset);
  return v;
}
extern "C" __global__ void block_sum(const __grid_constant__ P p) {
  extern __shared__ __align__(16) float part[];
  float v = 0;
  for (int i = threadIdx.x; i < p.n; i += blockDim.x) v += p.in[i];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = warp_sum(threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) *p.out = v;
  }
}
extern "C" __global__ void plain(const __grid_constant__ P p) {
  p.out[threadIdx.x] = p.in[threadIdx.x];
}
"""


@pytest.fixture
def device(monkeypatch):
    return Device(fresh_emulator(monkeypatch))


@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (5, 40), (33, 17), (1, 1)])
def test_transpose_through_a_tile_in_shared_memory(device, rows, columns):
    x = np.arange(rows * columns, dtype=np.float32)
    kernel = device.kernel(TRANSPOSE, "transpose")
    source, target = device.put(x), device.runtime.allocate(x.nbytes, 0)
    grid = -(-rows // 16) * -(-columns // 16)
    device.launch(kernel, grid, (16, 16, 1), "QQii", source, target, rows, columns)
    expected = x.reshape(rows, columns).T.ravel()
    np.testing.assert_array_equal(device.get(target), expected)


@pytest.mark.parametrize("threads", [32, 256, 1024])
def test_sum_with_shuffles_and_dynamic_shared_memory(device, threads):
    x = np.arange(3000, dtype=np.float32)
    kernel = device.kernel(SUM, "block_sum")
    source, target = device.put(x), device.runtime.allocate(4, 0)
    device.launch(kernel, 1, threads, "QQi", source, target, 3000, shared=128)
    assert device.get(target)[0] == x.sum()


def test_only_kernels_that_meet_get_fibers(device):
    assert device.kernel(SUM, "block_sum").loaded.has_collectives
    assert not device.kernel(SUM, "plain").loaded.has_collectives


COLLECTIVES = """
struct P { int* out; };
extern "C" __global__ void all(const __grid_constant__ P p) {
  const int t = threadIdx.x, lane = t % 32;
  int* out = p.out + t * 12;
  out[0] = __shfl_sync(0xffffffffu, t, 5);
  out[1] = __shfl_up_sync(0xffffffffu, t, 3);
  out[2] = __shfl_down_sync(0xffffffffu, t, 3);
  out[3] = __shfl_xor_sync(0xffffffffu, t, 7);
  out[4] = __shfl_sync(0xffffffffu, t, 9, 8);
  out[5] = __shfl_down_sync(0xffffffffu, t, 3, 8);
  out[6] = (int)__ballot_sync(0xffffffffu, lane < 4);
  out[7] = __any_sync(0xffffffffu, lane == 31) + 2 * __all_sync(0xffffffffu, lane < 31);
  out[8] = __syncthreads_count(t % 3 == 0);
  out[9] = __syncthreads_or(t == 40) + 2 * __syncthreads_and(t < 63);
  out[10] = (int)__match_any_sync(0xffffffffu, lane % 16);
  out[11] = 0;
  if (lane < 8) {  // a part of the warp on its own
    double v = 0.5 * lane;
    out[11] = (int)(2 * __shfl_xor_sync(0xffu, v, 1));
    __syncwarp(0xffu);
  }
  __syncwarp();
}
"""


def test_shuffles_votes_and_counting_barriers(device):
    threads = 64
    target = device.runtime.allocate(threads * 12 * 4, 0)
    device.launch(device.kernel(COLLECTIVES, "all"), 1, threads, "Q", target)
    got = device.get(target, np.int32).reshape(threads, 12)
    t = np.arange(threads)
    lane, warp = t % 32, t - t % 32
    np.testing.assert_array_equal(got[:, 0], warp + 5)
    np.testing.assert_array_equal(got[:, 1], np.where(lane < 3, t, t - 3))
    np.testing.assert_array_equal(got[:, 2], np.where(lane > 28, t, t + 3))
    np.testing.assert_array_equal(got[:, 3], t ^ 7)
    np.testing.assert_array_equal(got[:, 4], t - t % 8 + 1)
    np.testing.assert_array_equal(got[:, 5], np.where(t % 8 > 4, t, t + 3))
    assert (got[:, 6] == 15).all()
    assert (got[:, 7] == 1).all()
    assert (got[:, 8] == 22).all()
    assert (got[:, 9] == 1).all()
    np.testing.assert_array_equal(
        got[:, 10], (1 << lane % 16) | (1 << lane % 16 + 16).astype(np.int32)
    )
    np.testing.assert_array_equal(got[:, 11], np.where(lane < 8, lane ^ 1, 0))


ATOMICS = """
struct P { unsigned* out; };
extern "C" __global__ void count(const __grid_constant__ P p) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&p.out[0], i);
  atomicMax(&p.out[1], i);
  atomicMin(&p.out[2], i + 1u);
  atomicAdd((float*)&p.out[3], 0.5f);
  unsigned seen = p.out[4], assumed;
  do {
    assumed = seen;
    seen = atomicCAS(&p.out[4], assumed, assumed + 2u);
  } while (seen != assumed);
  if (i == 7) atomicExch(&p.out[5], 70u);
}
"""


def test_atomics(device):
    target = device.put(np.array([0, 0, 99, 0, 0, 0], np.uint32))
    device.launch(device.kernel(ATOMICS, "count"), 4, 32, "Q", target)
    got = device.get(target, np.uint32)
    assert got.tolist()[:3] == [127 * 64, 127, 1]
    assert got[3:4].view(np.float32)[0] == 64
    assert got.tolist()[4:] == [256, 70]


INTRINSICS = """
struct P { unsigned* out; int zero, one, least; };
extern "C" __global__ void words(const __grid_constant__ P p) {
  p.out[0] = __umulhi(0x80000001u, 6u);
  p.out[1] = __byte_perm(0x44332211u, 0x88776655u, 0x7531u);
  p.out[2] = __float_as_uint(1.0f);
  p.out[3] = __popc(0xf0f0u) + 100 * __clz(1) + 10000 * __ffs(8);
  p.out[4] = __brev(1u);
  const uint4 v = make_uint4(1, 2, 3, 4);
  p.out[5] = sizeof(v) + alignof(uint4) + v.w + sizeof(float3) + warpSize;
  p.out[6] = (unsigned)(p.one / p.zero);            // unspecified, but no trap
  p.out[7] = (unsigned)(p.least / -p.one);
  p.out[8] = (unsigned)(p.least % -p.one);
  p.out[9] = (unsigned)__float2int_rn(2.5f) + 10 * (unsigned)__float2int_rz(-7.9f + 9);
  p.out[10] = __float_as_uint(1e-45f * 0.9f);      // denormals are kept
  p.out[11] = (unsigned)(p.least - p.one);          // wraps
}
"""


def test_intrinsics_and_integer_rules(device):
    target = device.runtime.allocate(48, 0)
    least = -(2**31)
    device.launch(device.kernel(INTRINSICS, "words"), 1, 1, "Qiii", target, 0, 1, least)
    got = device.get(target, np.uint32).tolist()
    assert got[:6] == [3, 0x88664422, 0x3F800000, 43108, 0x80000000, 16 + 16 + 4 + 12 + 32]
    assert got[7:10] == [2**31, 0, 12]
    assert got[10] == 1
    assert got[11] == 2**31 - 1


VARIANTS = """
#pragma once
struct Shared { float x; };
// ---- body ----
#ifndef VALUE
#define VALUE 1
#endif
#define TWICE(x) (2 * (x))
struct P { float* out; };
#if VALUE > 1
extern "C" __global__ void only_large(const __grid_constant__ P p) { *p.out = -1; }
#endif
extern "C" __global__ void value(const __grid_constant__ P p) {
  __shared__ Shared s[VALUE];
  s[VALUE - 1].x = TWICE(VALUE);
  *p.out = s[VALUE - 1].x;
}
"""


def test_variants_of_one_text_live_side_by_side(device):
    runtime = device.runtime
    image = runtime.compile(VARIANTS, [{}, {"VALUE": 3}, {"VALUE": 5}])
    target = runtime.allocate(4, 0)
    for number, expected in enumerate((2, 6, 10)):
        device.launch(runtime.load(image, "value", 0, number), 1, 1, "Q", target)
        assert device.get(target)[0] == expected
    runtime.load(image, "only_large", 0, 1)
    with pytest.raises(
        errors.KernelError, match=r"only_large: 'entry' must be a kernel of variant 0 \(got value"
    ):
        runtime.load(image, "only_large", 0, 0)


def test_a_text_that_does_not_compile_names_its_line(device):
    text = '#line 7 "family.cu"\n' + VARIANTS + "\nint broken = ;\n"
    lines = VARIANTS.count("\n")
    with pytest.raises(errors.KernelError, match=rf"family\.cu:{7 + lines + 1}:"):
        device.kernel(text, "value")


def test_shared_memory_starts_as_garbage(device):
    text = """
    struct P { float* out; };
    extern "C" __global__ void read(const __grid_constant__ P p) {
      __shared__ float tile[32];
      extern __shared__ int dynamic[];
      p.out[0] = tile[3];
      p.out[1] = (float)dynamic[2];
      tile[3] = 1;
      dynamic[2] = 1;
    }"""
    target = device.runtime.allocate(8, 0)
    kernel = device.kernel(text, "read")
    for _ in range(2):
        device.launch(kernel, 1, 1, "Q", target, shared=64)
        got = device.get(target)
        assert np.isnan(got[0]) and got[1] == -1


def test_block_and_grid_indices(device):
    text = """
    struct P { int* out; };
    extern "C" __global__ void where(const __grid_constant__ P p) {
      const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
      const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
      SYNC
      p.out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 100 + thread;
    }"""
    for sync in ("", "__syncthreads();"):
        kernel = device.kernel(text.replace("SYNC", sync), "where")
        target = device.runtime.allocate(2 * 3 * 2 * 4 * 2 * 2 * 4, 0)
        params = target.ptr.to_bytes(8, "little")
        device.runtime.launch(kernel, (2, 3, 2), (4, 2, 2), 0, device.stream, params)
        expected = [b * 100 + t for b in range(12) for t in range(16)]
        assert device.get(target, np.int32).tolist() == expected


@pytest.mark.parametrize(
    ("grid", "block", "shared", "sentence"),
    [
        ((0, 1, 1), (1, 1, 1), 0, r"block_sum: 'grid' must be in \[1, "),
        ((1, 1, 1), (1, 1, 65), 0, r"block_sum: 'block' must be in \[1, "),
        ((1, 1, 1), (64, 32, 1), 0, r"block_sum: 'block' must have at most 1024 threads"),
        ((1, 1, 1), (1, 1, 1), 1 << 20, r"block_sum: 'shared_bytes' must be in \[0, 232448\]"),
    ],
)
def test_a_launch_that_no_gpu_would_take(device, grid, block, shared, sentence):
    kernel = device.kernel(SUM, "block_sum")
    with pytest.raises(errors.KernelError, match=sentence):
        device.runtime.launch(kernel, grid, block, shared, device.stream, bytes(24))


def test_launch_bounds_and_parameter_size_are_checked(device):
    kernel = device.kernel(TRANSPOSE, "transpose")
    with pytest.raises(errors.KernelError, match="must have at most 256 threads"):
        device.runtime.launch(kernel, (1, 1, 1), (512, 1, 1), 0, device.stream, bytes(24))
    with pytest.raises(errors.KernelError, match=r"'params' must have 24 bytes \(got 16 bytes\)"):
        device.runtime.launch(kernel, (1, 1, 1), (32, 1, 1), 0, device.stream, bytes(16))


def test_shared_memory_in_functions_and_templates(device):
    text = """
    struct P { float* out; };
    template <class T> __device__ T* scratch() { __shared__ T slots[4]; return slots; }
    __device__ inline int* counts() { __shared__ int slots[4]; return slots; }
    extern "C" __global__ void use(const __grid_constant__ P p) {
      scratch<float>()[1] = 1.5f;
      scratch<double>()[1] = 2.5;
      counts()[1] = 3;
      p.out[0] = scratch<float>()[1] + (float)scratch<double>()[1] + (float)counts()[1];
    }"""
    image = device.runtime.compile(text, [{}, {"X": 1}])
    target = device.runtime.allocate(4, 0)
    for variant in (0, 1):
        device.launch(device.runtime.load(image, "use", 0, variant), 1, 1, "Q", target)
        assert device.get(target)[0] == 7


def test_a_barrier_behind_functions_and_macros_is_seen():
    from gputensor.runtime.emulator import source

    text = """
    #define MEET() \\
      __syncthreads()
    namespace op { struct scan { __device__ static void step() { MEET(); } }; }
    template <class T> __device__ T through(T x) { op::scan::step(); return x; }
    // __syncthreads() in a comment
    extern "C" __global__ void plain(const P p) { if (p.n) { p.out[0] = 1; } }
    extern "C" __global__ void __launch_bounds__(32) meets(const P p) { through(1); }
    #if X
    extern "C" __global__ void hidden(const P p) {
    #else
    extern "C" __global__ void hidden2(const P p) {
    #endif
    }"""
    assert source.entries_with_collectives(text) & {"plain", "meets"} == {"meets"}
    assert not source.entries_with_collectives("__global__ void k(P p) { /* __syncthreads() */ }")


def test_an_image_may_come_from_another_process(device):
    image = device.runtime.compile(VARIANTS, [{}, {"VALUE": 4}])
    device.runtime.kernels._paths.clear()
    target = device.runtime.allocate(4, 0)
    device.launch(device.runtime.load(bytes(bytearray(image)), "value", 0, 1), 1, 1, "Q", target)
    assert device.get(target)[0] == 8


def test_without_checks_kernels_run_the_same(monkeypatch):
    device = Device(fresh_emulator(monkeypatch, check=0))
    try:
        x = np.arange(100, dtype=np.float32)
        source, target = device.put(x), device.runtime.allocate(4, 0)
        kernel = device.kernel(SUM, "block_sum")
        device.launch(kernel, 1, 64, "QQi", source, target, 100, shared=128)
        assert device.get(target)[0] == x.sum()
    finally:  # the engine is one per process
        monkeypatch.setenv("GPUTENSOR_EMULATOR_CHECK", "1")
        fresh_emulator(monkeypatch)


def test_threads_launch_at_the_same_time(device):
    import threading

    kernel = device.kernel(SUM, "block_sum")
    x = np.arange(2000, dtype=np.float32)
    wrong = []

    def work():
        for count in range(0, 2000, 100):
            source, target = device.put(x), device.runtime.allocate(4, 0)
            device.launch(kernel, 1, 128, "QQi", source, target, count, shared=128)
            if device.get(target)[0] != x[:count].sum():
                wrong.append(count)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
