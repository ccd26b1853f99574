"""`gt.fuse(recompute=True)`: backward computes values again if that moves less memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.fusion import running

from ..cuda.support import requires_emulator
from ..harness import tier
from . import programs, training

PLACES = ["cpu", pytest.param("cuda", marks=[requires_emulator, pytest.mark.emulator])]


def _operands(device: str = "cpu") -> tuple[gt.Tensor, gt.Tensor]:
    gt.manual_seed(3)
    w, x = gt.randn(40, 30), gt.randn(40, 30)
    return w.to(device).requires_grad_(), x.to(device)


def _chains(function: Callable[[], Any]) -> tuple[list[Any], Any]:
    """Return the chains that a function runs, and its result."""
    chains: list[Any] = []

    def told(chain: Any, reason: str) -> None:
        chains.append((chain, reason))

    running.watchers.append(told)
    try:
        return chains, function()
    finally:
        running.watchers.remove(told)


def _step(w: gt.Tensor, x: gt.Tensor) -> float:
    """Run a forward pass and read its result, so that it is stored before backward."""
    scaled = w * x + 1
    loss = (scaled * scaled * (scaled - x)).sum()
    del scaled
    looked = float(loss.detach())
    loss.backward()
    return looked


@pytest.mark.parametrize("device", PLACES)
def test_what_only_backward_needs_is_not_stored(device: str) -> None:
    def moved(**options: bool) -> tuple[int, list[Any]]:
        w, x = _operands(device)

        def run() -> Any:
            with gt.fuse(**options):
                return _step(w, x)

        chains, looked = _chains(run)
        assert w.grad is not None
        return sum([chain.bytes_moved for chain, _ in chains]), [looked, w.grad.tolist()]

    stored, expected = moved()
    again, found = moved(recompute=True)
    assert found == expected
    w, x = _operands(device)
    # Forward reads w and x and stores the sum. Backward reads both and stores the gradient. A few
    # numbers are added.
    assert again < 5.2 * x.nbytes < stored
    looked = _step(w, x)
    assert w.grad is not None and [looked, w.grad.tolist()] == expected


def test_what_takes_long_is_stored() -> None:
    """On the CPU tanh costs more than a store does."""
    w, x = _operands()

    def run() -> None:
        with gt.fuse(recompute=True):
            t = gt.tanh(w * x)
            loss = (t * t).sum()
            float(loss.detach())
            loss.backward()

    chains, _ = _chains(run)
    tanhs = [step for chain, _ in chains for step in chain.instructions if step.what.loop == "tanh"]
    assert len(tanhs) == 1


def test_one_step_may_be_saved_twice() -> None:
    """In one case only a node refers to it, in the other a variable too."""
    w, x = _operands()
    with gt.fuse(recompute=True):
        loss, kept = (w * (x * 2)).sum(), x * 2
        loss = loss + (w * kept).sum()
        float(loss.detach())
        loss.backward()
    grad, w.grad = w.grad, None
    ((w * (x * 2)).sum() + (w * (x * 2)).sum()).backward()
    assert grad is not None and w.grad is not None and gt.equal(grad, w.grad)


def test_a_write_to_an_operand_comes_behind_what_it_would_change() -> None:
    def grad(is_fused: bool) -> Any:
        w, x = _operands()
        with gt.fuse(recompute=True) if is_fused else nullcontext():
            loss = (w * (x * 2)).sum()  # x * 2 is saved, x is not
            float(loss.detach())
            x.zero_()
            loss.backward()
        return w.grad.tolist() if w.grad is not None else None

    assert grad(True) == grad(False)


def test_a_write_to_what_is_saved_is_refused_as_ever() -> None:
    def message(is_fused: bool, make: Callable[[gt.Tensor, gt.Tensor], Any]) -> str:
        w, x = _operands()
        with gt.fuse(recompute=True) if is_fused else nullcontext():
            loss = make(w, x)
            with pytest.raises(errors.AutogradError) as raised:
                loss.backward()
        return str(raised.value)

    def operand(w: gt.Tensor, x: gt.Tensor) -> Any:
        doubled = x * 2
        loss = (w * doubled).sum()
        doubled.add_(1)
        return loss

    def history(w: gt.Tensor, x: gt.Tensor) -> Any:
        doubled = w * 2
        loss = (doubled * doubled).sum()
        doubled.add_(1)
        del doubled
        return loss

    def result(w: gt.Tensor, x: gt.Tensor) -> Any:
        root = (w * w + 1).sqrt()
        loss = root.sum()
        root.mul_(2)
        return loss

    for make in (operand, history, result):
        assert message(True, make) == message(False, make)


def test_what_the_block_leaves_is_stored() -> None:
    w, x = _operands()
    with gt.fuse(recompute=True):
        scaled = w * x + 1
        loss = (scaled * scaled).sum()
        del scaled
    chains, _ = _chains(loss.backward)
    assert not chains  # no operator is pending any more
    grad, w.grad = w.grad, None
    scaled = w * x + 1
    (scaled * scaled).sum().backward()
    assert grad is not None and w.grad is not None and gt.equal(grad, w.grad)


def test_derivatives_of_derivatives() -> None:
    def second(is_fused: bool) -> Any:
        w, x = _operands()
        with gt.fuse(recompute=True) if is_fused else nullcontext():
            cube = (w * x) * (w * x) * w
            float(cube.detach().sum())
            (first,) = gt.autograd.grad(cube.sum(), w, create_graph=True)
            float(first.detach().sum())
            (again,) = gt.autograd.grad((first * first).sum(), w)
        return first.tolist(), again.tolist()

    assert second(True) == second(False)


def test_backward_in_another_thread() -> None:
    def grad(is_fused: bool) -> Any:
        w, x = _operands()
        with gt.fuse(recompute=True) if is_fused else nullcontext():
            scaled = w * x + 1
            loss = (scaled * scaled).sum()
            del scaled
            float(loss.detach())
            thread = threading.Thread(target=loss.backward)
            thread.start()
            thread.join()
        return w.grad.tolist() if w.grad is not None else None

    assert grad(True) == grad(False) is not None


def test_hooks_of_saved_tensors_go_first() -> None:
    w, x = _operands()
    packed: list[Any] = []

    def pack(x: gt.Tensor) -> Any:
        packed.append(x)
        return x

    with gt.fuse(recompute=True), gt.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        (w * (x * 2)).sum().backward()
    assert packed


def test_it_is_of_its_block() -> None:
    w, x = _operands()

    def run() -> None:
        with gt.fuse():
            with gt.fuse(recompute=True):
                pass
            _step(w, x)

    chains, _ = _chains(run)
    assert sum([chain.bytes_moved for chain, _ in chains]) > 5.2 * x.nbytes
    with pytest.raises(TypeError, match="recompute.*must be a bool"):
        gt.fuse(recompute=1)  # type: ignore[call-overload]


def test_a_function_with_it() -> None:
    w, x = _operands()
    chains, looked = _chains(lambda: gt.fuse(_step, recompute=True)(w, x))
    assert sum([chain.bytes_moved for chain, _ in chains]) < 5.2 * x.nbytes
    grad, w.grad = w.grad, None
    assert looked == _step(w, x) and grad is not None and gt.equal(grad, w.grad)


def _again() -> Any:
    return gt.fuse(recompute=True)


@pytest.mark.parametrize("device", PLACES[: tier.pick(1, None)])
def test_random_steps_of_training_are_what_they_are_eagerly(device: str) -> None:
    # Every step has kernels of its own, which the emulator compiles.
    for seed in range(8):
        expected = training.run(seed, nullcontext, device)
        assert repr(training.run(seed, _again, device)) == repr(expected), seed


@pytest.mark.full
@pytest.mark.parametrize("first", range(8, 108, 50))
def test_many_random_steps_of_training(first: int) -> None:
    for seed in range(first, first + 50):
        expected = training.run(seed, nullcontext)
        assert repr(training.run(seed, _again)) == repr(expected), seed


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 100, 50))
def test_random_programs_are_what_they_are_eagerly(first: int) -> None:
    for seed in range(first, first + 50):
        assert programs.run(seed, True, recompute=True) == programs.run(seed, False), seed
