"""First calls of a process on a GPU, over the CuPy runtime; run by test_whole_over_cupy.py.

Each test is a short program of a user and independent of the others.
"""

from __future__ import annotations

import numpy as np
import pytest

import gputensor as gt
from gputensor import runtime
from gputensor.core import errors
from gputensor.structured import library

KERNELS = """
#include <gputensor/layout.cuh>
__constant__ float weights[2];
extern "C" __global__ void weigh(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = weights[0] * x[i] + weights[1];
}
"""


def values(*sizes: int) -> np.ndarray:
    return np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)


def test_this_is_the_runtime_over_cupy():
    assert (
        runtime.cuda().name == "cuda" and not gt.cuda.is_emulated() and gt.cuda.device_count() == 2
    )


def test_a_kernel_of_the_user_with_a_constant():
    kernel = gt.cuda.Kernel(KERNELS, "weigh")
    for device in ("cuda:1", "cuda:0"):
        x = gt.from_numpy(values(1000)).to(device)
        y = gt.empty_like(x)
        kernel.set("weights", np.array([2, 1], np.float32), device)
        kernel[4, 256](y, x, 1000)
        np.testing.assert_array_equal(y.cpu().numpy(), 2 * values(1000) + 1)
    with pytest.raises(errors.GpuTensorError, match="'y' must be contiguous"):
        kernel[1, 1](y[::2], x, 1)


def test_work_on_a_side_stream():
    side = gt.cuda.Stream("cuda:1")
    x = gt.from_numpy(values(300, 200)).to("cuda:1")
    side.wait_stream(gt.cuda.current_stream("cuda:1"))
    with gt.cuda.stream(side):
        assert gt.cuda.current_device() == 1
        y = (x.t().contiguous() * 2).sum(0)
    gt.cuda.current_stream("cuda:1").wait_stream(side)
    np.testing.assert_array_equal(y.cpu().numpy(), 2 * values(300, 200).sum(1))
    assert gt.cuda.current_device() == 0


def test_a_step_of_training():
    w = gt.from_numpy(values(4, 3)).to("cuda").requires_grad_()
    x = gt.from_numpy(values(5, 4)).to("cuda")
    y = x @ w
    (y * y).sum().backward()
    expected = 2 * values(5, 4).T @ (values(5, 4) @ values(4, 3))
    np.testing.assert_allclose(w.grad.cpu().numpy(), expected, rtol=1e-6)


def test_layout_functions_take_what_other_libraries_hold():
    class Theirs:
        """An array with the CUDA array interface, on its own stream."""

        def __init__(self, x):
            self.x, self.stream = x, gt.cuda.Stream()
            self.stream.wait_stream(gt.cuda.current_stream())
            self.__cuda_array_interface__ = x.__cuda_array_interface__ | {"stream": self.stream.ptr}

    x = gt.from_numpy(values(2, 3, 8, 10)).to("cuda")
    theirs = Theirs(x.permute(0, 2, 3, 1))
    made = gt.layout.contiguous(theirs)
    gt.cuda.synchronize()
    np.testing.assert_array_equal(made.cpu().numpy(), values(2, 3, 8, 10).transpose(0, 2, 3, 1))
    packed = gt.layout.pack(
        theirs.x, dtype=gt.float16, scale=[1, 2, 3, 4, 5, 6, 7, 8], memory_format=gt.channels_last
    )
    wanted = (values(2, 3, 8, 10).transpose(0, 2, 3, 1) * np.arange(1, 9)[:, None, None]).astype(
        np.float16
    )
    np.testing.assert_array_equal(packed.cpu().numpy(), wanted)


def test_dlpack_there_and_back():
    x = gt.from_numpy(values(3, 4)).to("cuda:1").t()
    y = gt.from_dlpack(x)
    assert y.device == x.device and y.data_ptr() == x.data_ptr() and y.stride() == (1, 4)
    np.testing.assert_array_equal(y.contiguous().cpu().numpy(), values(3, 4).T)


def test_what_memory_is_used_is_counted():
    before = gt.cuda.memory_allocated()
    x = gt.zeros(1000, device="cuda")
    assert gt.cuda.memory_allocated() - before == 4096
    del x
    assert gt.cuda.memory_allocated() == before
    with pytest.raises(gt.cuda.OutOfMemoryError, match="cuda:0: cannot allocate"):
        gt.empty(1 << 45, device="cuda")


def test_a_library_works_on_our_memory_in_stream_order():
    import cupy

    seen = []

    def sort(namespace, x):
        assert namespace.is_gpu and namespace.np is cupy and isinstance(x, cupy.ndarray)
        seen.append(cupy.sort(x, 0))
        return seen[0]

    side = gt.cuda.Stream("cuda:1")
    with gt.cuda.stream(side):
        x = gt.from_numpy(values(3, 4)[::-1].copy()).to("cuda:1").t()
        (made,) = library.call("sort", sort, (gt.empty(4, 3)._geometry,), x)
        assert made.data_ptr() == seen[0].data.ptr, "the library's result is not copied"
        library.write("copy", lambda n, out, x: out.__setitem__(..., x), (made,), x)
    side.synchronize()
    np.testing.assert_array_equal(made.cpu().numpy(), values(3, 4)[::-1].T)
    (found,) = library.waiting("unique", lambda n, x: n.np.unique(x), made > 3)
    assert found.tolist() == [False, True] and found.device == made.device
