"""Operators on few elements run at once in a block on the CPU, with the results of eager calls."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.dispatch import shortcuts
from gputensor.fusion.record import recorder
from gputensor.fusion.record.pending import Pending

from .. import programs
from ..same import state_of

FEW, MANY = 100, 1 << 16


@pytest.fixture(autouse=True)
def default(small_operators_are_recorded: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "SMALL_NUMEL", 1 << 15)


def is_pending(x: Any) -> bool:
    return type(x._storage) is Pending


def test_random_programs() -> None:
    for seed in range(8000, 8060):
        assert programs.run(seed, True) == programs.run(seed, False), seed


@pytest.mark.full
def test_many_random_programs() -> None:
    for seed in range(8060, 9060):
        assert programs.run(seed, True) == programs.run(seed, False), seed


@pytest.mark.parametrize("times", [1, 6])
def test_only_large_operators_wait(times: int) -> None:
    """The first calls find no short cuts, later ones do."""
    few, many = gt.arange(FEW * 1.0), gt.rand(MANY)
    for _ in range(times):
        few * few, few * 2.0, 2.0 - few, few.exp(), gt.lerp(few, few, few)
        with gt.fuse():
            small = few * few, few * 2.0, 2.0 - few, few.exp(), gt.lerp(few, few, few), few.sum()
            large = many * many, many * 2.0, 2.0 - many, many.exp(), gt.lerp(many, many, many)
            assert not any(map(is_pending, small)) and all(map(is_pending, large))
            few.add_(1.0)
        given = few - 1.0
        assert state_of(small[:2]) == state_of((given * given, given * 2.0))


@pytest.mark.parametrize("times", [1, 6])
def test_a_small_value_of_an_open_recording_continues_it(times: int) -> None:
    """A value that a chain computes for each row is used in the same chain."""
    x = gt.rand(64, 1024)
    wanted = (x / (x.sum(1, keepdim=True) * 2.0 + 1.0),)
    for _ in range(times):
        with gt.fuse():
            total = x.sum(1, keepdim=True) * 2.0 + 1.0
            assert is_pending(total)
            found = (x / total,)
        assert state_of(found) == state_of(wanted)


def test_a_small_value_of_another_recording_is_computed() -> None:
    x = gt.rand(MANY)
    with gt.fuse():
        y = x * 2.0
        total = y.sum()
        assert is_pending(total)
        twice = total * 2.0
        assert not is_pending(twice) and not is_pending(total)
    assert state_of((y, total, twice)) == state_of(
        (x * 2.0, (x * 2.0).sum(), (x * 2.0).sum() * 2.0)
    )


@pytest.mark.parametrize("times", [1, 6])
def test_gradients(times: int) -> None:
    for _ in range(times):
        found = []
        for is_within in (False, True):
            x = gt.linspace(-1, 1, FEW).requires_grad_()
            w = gt.linspace(0, 1, FEW).requires_grad_()

            def loss() -> Any:
                return ((x * w + x) * 0.5 - w.tanh()).square().sum()

            if is_within:
                with gt.fuse():
                    made = loss()
                    assert made.grad_fn is not None
                    made.backward()
            else:
                loss().backward()
            found.append(state_of((x.grad, w.grad)))
        assert found[0] == found[1]


@pytest.mark.parametrize("times", [1, 6])
def test_modes_hold_within_a_block(times: int) -> None:
    x = gt.rand(FEW, requires_grad=True)
    for _ in range(times):
        with gt.fuse():
            with gt.no_grad():
                assert not (x * x).requires_grad
            with gt.inference_mode():
                assert (x * x).is_inference()
            assert (x * x).requires_grad
        with gt.inference_mode(), gt.fuse():
            assert (x * x).is_inference()


@pytest.mark.parametrize("times", [1, 6])
def test_a_call_that_may_be_replayed_records_them(times: int) -> None:
    x = gt.rand(FEW)
    seen = []

    def function(y: Any) -> Any:
        z = y * 2.0
        seen.append(is_pending(z))
        return z + 1.0

    for _ in range(times):
        x * 2.0, x + 1.0
    fused = gt.fuse(lambda y: y * 2.0 + 1.0)
    for _ in range(3):
        assert state_of((fused(x),)) == state_of((x * 2.0 + 1.0,))
    assert len(gt.fuse.explain(lambda y: y * 2.0 + 1.0, x).chains[0][0].instructions) == 2
    gt.fuse.explain(function, x)
    assert seen


def test_views_and_writes_of_small_tensors() -> None:
    wanted = None
    for is_within in (False, True):
        x, y = gt.arange(12.0), gt.arange(MANY * 1.0)

        def work() -> Any:
            z = y * 2.0
            v = x.view(3, 4)
            y[:12] = v.t().reshape(12) + 1.0
            v += 1.0
            x.mul_(2.0)
            return z, v, v + x[:4], y + 1.0, x.reshape(4, 3).permute(1, 0) * 3.0

        if is_within:
            with gt.fuse():
                found = work()
            assert state_of((*found, x, y)) == wanted
        else:
            wanted = state_of((*work(), x, y))


def test_short_cuts_are_taken() -> None:
    if not shortcuts.is_on:
        pytest.skip("of short cuts")
    x = gt.rand(FEW)
    operator = gt.ops.aten.mul.Tensor
    for _ in range(4):
        x * x
        with gt.fuse():
            x * x
    short = operator.table.short[x._geometry, x._geometry]
    with gt.fuse():
        made = short(x, x)
    assert made is not None and not is_pending(made)
