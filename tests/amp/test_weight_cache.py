"""The weight cache of autocast: its entries, when they are valid, and that it keeps no tensor
alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt
from gputensor.amp.casting import WeightCache, current_block

X = gt.tensor([[1.0, 2.0], [3.0, 4.0]])


def weight(device: str = "cpu") -> gt.Tensor:
    return gt.tensor([[1.0, 0.5], [0.25, 2.0]], device=device, requires_grad=True)


def casts(work: Callable[[], Any]) -> int:
    """Return the number of casts that `work` makes."""
    with gt.dispatch.trace() as lines:
        work()
    return sum("[call] op=[aten::_to_copy]" in line for line in lines)


def entries() -> int:
    block = current_block.get()
    assert block is not None
    return len(block.cache.entries)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_weight_is_cast_once(device: str) -> None:
    w, x = weight(device), X.to(device).to(gt.get_autocast_dtype(device))
    with gt.autocast(device):
        assert casts(lambda: [x @ w, x @ w, w.mm(x)]) == 1
        with gt.autocast(device):
            assert casts(lambda: x @ w) == 0
        assert casts(lambda: x @ w) == 0 and entries() == 1
        gt.clear_autocast_cache()
        assert casts(lambda: x @ w) == 1
        with gt.autocast(device, cache_enabled=False):
            assert not gt.is_autocast_cache_enabled()
            assert casts(lambda: [x @ w, x @ w]) == 2
    with gt.autocast(device):
        assert casts(lambda: x @ w) == 1  # a block begins with an empty cache
    assert gt.is_autocast_cache_enabled()


def test_what_is_no_weight_is_cast_each_time() -> None:
    w, x = weight(), X.bfloat16()
    half = weight().detach().half().requires_grad_()
    for operand in (X, w.t(), w.view(2, 2), w * 1, w.detach(), half):
        with gt.autocast("cpu"):
            assert casts(lambda y=operand: [x @ y, x @ y]) == 2 and entries() == 0
    with gt.autocast("cpu"):
        assert casts(lambda: [x @ w, x @ w]) == 1
        w.requires_grad_(False)
        assert casts(lambda: [x @ w, x @ w]) == 2


def test_each_weight_and_each_dtype_has_its_own() -> None:
    """PyTorch's cache returns the bfloat16 cast in the float16 block, and the product fails."""
    first, second = weight(), weight()
    with gt.no_grad():
        second.mul_(2)
    with gt.autocast("cpu"):
        assert (second.mm(X) == first.mm(X) * 2).all()
        with gt.autocast("cpu", gt.float16):
            assert first.mm(X).dtype is gt.float16
        assert first.mm(X).dtype is gt.bfloat16 and entries() == 3


def test_a_weight_that_was_written_to_is_cast_anew() -> None:
    """PyTorch uses the old values."""
    w = weight()
    with gt.autocast("cpu"):
        before = w.mm(X)
        with gt.no_grad():
            w.add_(1)
        assert (w.mm(X) == before + gt.ones(2, 2).mm(X)).all() and entries() == 1
        # an equal version, of another storage
        version = w._version
        fresh = gt.zeros(2, 2)
        for _ in range(version - 1):
            fresh.zero_()
        w.requires_grad_(False).set_(fresh).requires_grad_()
        assert w._version == version and not w.mm(X).any()


def test_a_cast_made_under_no_grad_does_not_lose_the_gradient() -> None:
    for mode in (gt.no_grad, gt.inference_mode):
        w = weight()
        with gt.autocast("cpu"):
            with mode():
                assert not w.mm(X).requires_grad
            y = w.mm(X)
            with mode():
                z = w.mm(X)
            assert y.requires_grad and not z.requires_grad
        y.sum().backward()
        assert w.grad is not None and w.grad.tolist() == [[3.0, 7.0], [3.0, 7.0]]


def test_nothing_is_kept_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        with gt.autocast("cpu"):
            w = weight()
            gone = weakref.ref(w)
            result = w.mm(X)
            made = weakref.ref(next(iter(current_block.get().cache.entries.values())).made)
            del w
            assert gone() is not None  # the graph needs it
            del result
            assert gone() is None and made() is None and entries() == 0
            other = weight()
            other.mm(X)
            made = weakref.ref(next(iter(current_block.get().cache.entries.values())).made)
        assert made() is None and current_block.get() is None
    finally:
        gc.enable()


def test_a_cast_of_one_stream_is_not_used_on_another() -> None:
    w, x = weight("cuda"), X.cuda().half()
    gt.cuda.synchronize()
    with gt.autocast("cuda"):
        x @ w
        with gt.cuda.stream(gt.cuda.Stream()):
            assert casts(lambda: x @ w) == 1
        assert casts(lambda: x @ w) == 0 and entries() == 2
    gt.cuda.synchronize()


class Parameter(gt.nn.Parameter):
    """A subclass without a handler, like many weights in user code."""


class Handled(gt.Tensor):
    @classmethod
    def __gputensor_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__gputensor_dispatch__(op, types, args, kwargs)


def test_weights_of_subclasses() -> None:
    x = weight().detach()
    for w, cached in ((Parameter(x), 1), (x.as_subclass(Handled).requires_grad_(), 0)):
        with gt.autocast("cpu"):
            y = w.mm(X)
            assert entries() == cached
        y.sum().backward()
        assert w.grad is not None and w.grad.tolist() == [[3.0, 7.0], [3.0, 7.0]]


def test_a_cache_is_in_no_cycle() -> None:
    """A task that outlives its block fills a cache that is never cleared."""
    cache, weight = WeightCache(), gt.ones(2).requires_grad_()
    made = weakref.ref(cache.cast(weight, gt.bfloat16)._storage)
    gc.disable()
    try:
        del cache
        assert made() is None
    finally:
        gc.enable()
