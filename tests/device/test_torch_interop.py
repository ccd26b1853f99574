"""gputensor and PyTorch on one GPU, on separate streams: values, and that each waits for the other.

PyTorch's streams do not wait for the legacy default stream, so a missing wait is detected: a kernel
that only takes time runs before the work that must be waited for. Skipped without a GPU: PyTorch
cannot use the emulator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt

pytestmark = pytest.mark.gpu
SIDE = 1024
AXPY = """
extern "C" __global__ void axpy(float* y, const float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
"""


@pytest.fixture
def torch() -> Any:
    if gt.cuda.is_emulated():
        pytest.skip("PyTorch sees no emulator")
    module = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not module.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    return module


@pytest.fixture
def delay(torch: Any) -> Callable[[], None]:
    """Keep the current stream of PyTorch busy for some milliseconds."""
    return lambda: torch.cuda._sleep(20_000_000)


def late(torch: Any, delay: Callable[[], None], value: float) -> Any:
    """Return an array that gets its value only after the current stream's delay."""
    x = torch.zeros(SIDE, SIDE, device="cuda")
    delay()
    return x.add_(value)


def test_layout_functions_run_on_pytorchs_current_stream(torch: Any, delay: Any) -> None:
    for number in range(10):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = late(torch, delay, number + 1.0)
            made = gt.layout.contiguous(x.t())
            assert isinstance(made, torch.Tensor)
            doubled = made * 2
            del x, made
        torch.cuda.synchronize()
        assert bool((doubled == 2.0 * (number + 1)).all())


def test_an_array_of_pytorch_is_read_after_it_was_written(torch: Any, delay: Any) -> None:
    for number in range(10):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = late(torch, delay, number + 1.0)
            y = gt.from_dlpack(x)
        found = (y + 1).sum().item()
        assert found == SIDE * SIDE * (number + 2.0)


def test_a_tensor_is_read_by_pytorch_after_it_was_written(torch: Any, delay: Any) -> None:
    side = gt.cuda.Stream("cuda:0")
    for number in range(10):
        x = gt.zeros(SIDE, SIDE, device="cuda:0")
        side.wait_stream(gt.cuda.current_stream("cuda:0"))
        with gt.cuda.stream(side):
            with torch.cuda.stream(torch.cuda.ExternalStream(side.ptr)):
                delay()
            x.add_(number + 1.0)
            y = torch.from_dlpack(x)
        assert float((y + 1).sum()) == SIDE * SIDE * (number + 2.0)


def test_a_kernel_on_arrays_of_both_waits_for_both(torch: Any, delay: Any) -> None:
    kernel = gt.cuda.Kernel(AXPY, "axpy")
    size = SIDE * SIDE
    for number in range(10):
        y = gt.full((size,), 1.0, device="cuda:0")
        with torch.cuda.stream(torch.cuda.Stream()):
            x = late(torch, delay, number + 1.0).reshape(-1)
            kernel[size // 256, 256](y, x, 2.0, size)
            x.zero_()  # after the kernel has read it
        assert float(y.sum().item()) == size * (1.0 + 2.0 * (number + 1))


def test_a_kernel_writes_an_array_of_pytorch(torch: Any, delay: Any) -> None:
    kernel = gt.cuda.Kernel(AXPY, "axpy")
    size = SIDE * SIDE
    x = gt.full((size,), 3.0, device="cuda:0")
    with torch.cuda.stream(torch.cuda.Stream()):
        y = late(torch, delay, 1.0).reshape(-1)
        kernel[size // 256, 256](y, x, 2.0, size)
        found = float(y.sum())
    assert found == size * 7.0


def test_memory_that_pytorch_still_reads_is_not_given_away(torch: Any, delay: Any) -> None:
    side = torch.cuda.Stream()
    for number in range(10):
        x = gt.full((SIDE, SIDE), float(number), device="cuda:0")
        with torch.cuda.stream(side):
            y = torch.from_dlpack(x)
            delay()
            made = y + 1
            del y
        del x
        trash = gt.full((SIDE, SIDE), -100.0, device="cuda:0")
        torch.cuda.synchronize()
        assert bool((made == number + 1.0).all()), "the array was overwritten while PyTorch read it"
        del trash


def test_memory_of_pytorch_that_is_still_read_here_is_not_given_away(
    torch: Any, delay: Any
) -> None:
    side = gt.cuda.Stream("cuda:0")
    for number in range(10):
        x = torch.full((SIDE, SIDE), float(number), device="cuda")
        with gt.cuda.stream(side):
            y = gt.from_dlpack(x)
            with torch.cuda.stream(torch.cuda.ExternalStream(side.ptr)):
                delay()
            made = y + 1
            del y
        del x
        trash = torch.full((SIDE, SIDE), -100.0, device="cuda")
        side.synchronize()
        assert float(made.sum().item()) == SIDE * SIDE * (number + 1.0)
        del trash
