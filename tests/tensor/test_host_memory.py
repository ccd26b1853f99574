"""Memory shared between processes, storages as sequences of numbers, errors without CUDA."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

import pytest

import gputensor as gt


def _write(x: Any) -> None:
    x[1] = 5


def test_forked_and_spawned_processes_write_to_shared_memory() -> None:
    base = gt.zeros(4)
    view = base[1:]
    kept = base.numpy()
    view.share_memory_()
    assert base.is_shared() and view.is_shared() and base.tolist() == [0, 0, 0, 0]
    child = os.fork()
    if not child:
        base[2] = 7
        os._exit(0)
    os.waitpid(child, 0)
    for method in ("fork", "spawn"):
        process = multiprocessing.get_context(method).Process(target=_write, args=(view,))
        process.start()
        process.join()
        assert process.exitcode == 0 and base.tolist() == [0, 0, 5, 0]
        base[2] = 0
    assert kept.tolist() == [0, 0, 0, 0] and not gt.zeros(2).is_shared()


def test_a_storage_is_read_and_written_as_numbers() -> None:
    x = gt.arange(6.0).reshape(2, 3)
    storage = x[1].storage()
    assert (len(storage), storage.size(), storage.nbytes(), storage.dtype) == (6, 6, 24, gt.float32)
    assert storage.tolist() == [*storage] == [0, 1, 2, 3, 4, 5] and storage[1:3].tolist() == [1, 2]
    storage[0] = 9
    assert x[0, 0].item() == 9 and storage.untyped() is x.untyped_storage()
    assert storage.data_ptr() == x.data_ptr() and not storage.is_cuda
    assert repr(storage) == "<TypedStorage of 6 float32 on cpu>"


def test_python_functions_of_elements() -> None:
    x, y = gt.arange(4).reshape(2, 2), gt.tensor([10, 20])
    assert x.clone().map_(y, lambda a, b: a + b).tolist() == [[10, 21], [12, 23]]
    assert x.map2_(y, y, lambda a, b, c: a + b - c) is x and x.tolist() == [[0, 1], [2, 3]]
    with pytest.raises(TypeError, match="map_: 'tensor' must be a Tensor"):
        x.map_(3, max)
    with pytest.raises(RuntimeError, match="map_: 'tensor' must be on the CPU"):
        x.map_(gt.empty(2, device="meta"), max)
    with pytest.raises(gt.GpuTensorError, match="expand"):
        x.map_(gt.ones(3), max)
    assert x.tolist() == [[0, 1], [2, 3]]


def test_the_order_of_dimensions() -> None:
    x = gt.empty(2, 3, 4, 5, memory_format=gt.channels_last)
    assert x.dim_order() == x.dim_order(ambiguity_check=True) == (0, 2, 3, 1)
    assert x[:1].dim_order() == (0, 2, 3, 1)
    with pytest.raises(RuntimeError, match="must have one order of its dimensions"):
        x[:1].dim_order(ambiguity_check=True)
    formats = [gt.contiguous_format, gt.channels_last]
    assert gt.empty(1, 2, 3, 4).dim_order(ambiguity_check=formats) == (0, 1, 2, 3)
    with pytest.raises(RuntimeError, match="exactly one of the memory formats"):
        gt.empty(1, 1, 3, 4).dim_order(ambiguity_check=formats)
    with pytest.raises(TypeError, match="a bool or a list of memory formats"):
        x.dim_order(ambiguity_check="channels_last")


def test_a_dense_tensor_is_dense() -> None:
    x = gt.ones(2)
    assert x.to_dense() is x and x.to_dense(gt.float64).dtype is gt.float64
    assert not x.is_distributed() and x.grad_dtype is gt.float32 and x.name is None


def test_without_cuda_no_page_is_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    from gputensor import runtime
    from gputensor.runtime import no_cuda

    monkeypatch.setattr(runtime, "_chosen", no_cuda)
    assert not gt.ones(2).is_pinned()
    for call in (gt.ones(2).pin_memory, lambda: gt.empty(2, pin_memory=True)):
        with pytest.raises(RuntimeError, match="cuda: no device"):
            call()
