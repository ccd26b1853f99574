"""Operands with memory shared with NumPy: recorded in functions that touch only tensors, with eager
results and memory for any writes from outside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.fusion import block, running
from gputensor.library import Library

N, LENGTH = 40, 16


def reads(x: gt.Tensor, y: gt.Tensor) -> Any:
    return (x * y + 1) * x - y


def writes_what_it_reads(x: gt.Tensor, y: gt.Tensor) -> Any:
    z = x * 2
    x.mul_(0.5)
    return z + x


def writes_beside(x: gt.Tensor, y: gt.Tensor) -> Any:
    z = x + 1
    w = y - x
    y.add_(1)
    return z * w - x


def copies(x: gt.Tensor, y: gt.Tensor) -> Any:
    z = x + y
    y.copy_(x * 2)
    return z - y


def views(x: gt.Tensor, y: gt.Tensor) -> Any:
    z = x.view(4, 4).t() * 3 + 1
    y[:8].neg_()
    return z.sum(0) + x[:4]


def writes_out(x: gt.Tensor, y: gt.Tensor) -> Any:
    z = x - 1
    gt.mul(z, 2, out=y)
    return z / 2 + y


FUNCTIONS = (reads, writes_what_it_reads, writes_beside, copies, views, writes_out)


@pytest.fixture
def chains() -> Iterator[list[Any]]:
    """Return the number of operators of each chain that has run."""
    seen: list[Any] = []

    def told(chain: Any, reason: str) -> None:
        seen.append(len(chain.instructions))

    running.watchers.append(told)
    yield seen
    running.watchers.remove(told)


def run(seed: int, fused: dict[Any, Any], in_block: bool) -> tuple[list[bytes], bytes]:
    """Call functions on overlapping parts of one array, with writes by NumPy between calls."""
    random = np.random.default_rng(seed)
    base = random.integers(-8, 8, N).astype(np.float32)
    found = []
    for _ in range(6):
        first, second = random.integers(0, N - LENGTH, 2)
        x = gt.from_numpy(base[first : first + LENGTH])
        y = gt.from_numpy(base[second : second + LENGTH])
        function = FUNCTIONS[random.integers(len(FUNCTIONS))]
        at, value = random.integers(N), random.integers(-8, 8)
        if in_block:
            with gt.fuse():
                z = x * 2 - y
                base[at] = value
                made = fused.get(function, function)(x, y)[:4] + z[:4]
        else:
            made = fused.get(function, function)(x, y)
        base[random.integers(N)] = random.integers(-8, 8)
        base.clip(-100, 100, out=base)
        found.append(made.numpy().tobytes())
    return found, base.tobytes()


@pytest.mark.parametrize("in_block", [False, True])
def test_random_calls_and_writes(in_block: bool) -> None:
    fused = {function: gt.fuse(function) for function in FUNCTIONS}
    for seed in range(60):
        expected = run_eagerly(seed, in_block)
        assert run(seed, fused, in_block) == expected, seed


def run_eagerly(seed: int, in_block: bool) -> Any:
    """Run the calls without fusion: blocks record nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block, "is_off", True)
        return run(seed, {}, in_block)


def test_a_function_fuses_arrays(chains: list[Any]) -> None:
    x, y = (gt.from_numpy(np.arange(6, dtype=np.float32) + n) for n in range(2))
    function = gt.fuse(reads)
    for _ in range(3):
        found = function(x, y)
    assert chains and set(chains) == {4}
    assert gt.equal(found, reads(x, y))


def test_a_block_runs_what_reads_arrays_at_once(chains: list[Any]) -> None:
    array = np.ones(4, np.float32)
    x = gt.from_numpy(array)
    with gt.fuse():
        y = x + 1
        array[:] = 5
        z = y * x
    assert y.tolist() == [2] * 4 and z.tolist() == [10] * 4


def test_functions_that_may_call_others_run_them_at_once() -> None:
    array = np.ones(4, np.float32)
    x = gt.from_numpy(array)

    def change(to: Any) -> Any:
        to[:] = 5
        return 2.0

    def function(x: gt.Tensor) -> Any:
        y = x + 1
        by = change(array)
        return y * by

    for one in (function, gt.fuse(function)):
        array[:] = 1
        assert one(x).tolist() == [4.0] * 4


def test_a_kernel_of_somebody_elses_runs_behind_what_reads_arrays() -> None:
    array = np.ones(4, np.float32)
    x = gt.from_numpy(array)

    def kernel(x: gt.Tensor, dim: int, *, dtype: Any = None) -> gt.Tensor:
        array[:] = 5
        return gt.ones(4)

    def function(x: gt.Tensor) -> Any:
        y = x + 1
        z = x.cumsum(0)
        return y * 2 + z

    with Library("aten", "IMPL") as mine:
        with pytest.warns(errors.OverrideWarning):
            mine.impl("cumsum", kernel, "CPU")
        for one in (function, gt.fuse(function)):
            array[:] = 1
            assert one(x).tolist() == [5.0] * 4
