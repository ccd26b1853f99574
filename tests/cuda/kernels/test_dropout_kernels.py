"""The kernel of dropout on the emulator: one launch, and the bits of the composed operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels.cuda import launch
from gputensor.native import dropout as native
from gputensor.nn import functional
from gputensor.runtime.emulator import settings

from ...harness import tier
from ..support import requires_emulator

pytestmark = [
    requires_emulator,
    pytest.mark.usefixtures("fresh_plans"),
    pytest.mark.skipif(not gt.cuda.is_emulated(), reason="compiles for the emulator"),
]
backward = gt.ops.aten.native_dropout_backward
DTYPES = (gt.float32, gt.float16, gt.bfloat16, gt.float64)


def bits(x: Any) -> bytes:
    return x.contiguous().view(gt.uint8).cpu().numpy().tobytes() if x.dim() else bits(x.view(1))


def layouts(x: Any) -> Iterator[Any]:
    yield x
    if x.dim() > 1:
        yield from (x.t(), x[:, 1:], x.t()[1:], x[::2], x[:1].expand(4, -1))
        yield x[:, :, None].expand(-1, -1, 3)
        yield x.reshape(x.shape[0], 1, x.shape[1]).transpose(0, 2)


def results(x: Any, p: float) -> list[Any]:
    gt.manual_seed(5)
    made, mask = gt.native_dropout(x, p, True)
    return [
        made,
        mask,
        backward(x, mask, 1.7),
        backward(made, mask, 1.7),
        gt.rand(3, device="cuda"),
    ]


def check_composed(monkeypatch: pytest.MonkeyPatch, sizes: list[tuple[int, ...]]) -> None:
    """The same numbers, layouts and bits, and as many drawn numbers, as by several operators."""
    rng = np.random.default_rng(0)
    for shape in sizes:
        for of in DTYPES:
            for x in layouts(gt.tensor(rng.normal(size=shape)).to(of).to("cuda")):
                for p in (0.3, 0.0, 1.0):
                    found = results(x, p)
                    with monkeypatch.context() as patch:
                        patch.setattr(native, "_kernel_of", lambda *args: None)
                        wanted = results(x, p)
                    for a, b in zip(found, wanted):
                        assert (a.stride(), a.dtype) == (b.stride(), b.dtype), x.stride()
                        assert bits(a) == bits(b), (of, x.stride(), p)


def test_bits_are_those_of_composed_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [(), (7,), (1027,), (5, 6), (33, 65)]
    check_composed(monkeypatch, tier.pick(sizes[1::2], sizes))


def test_several_launches_draw_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "MAX_NUMEL", 30)  # not a multiple of the elements of a counter
    check_composed(monkeypatch, [(103,), (9, 7)])


def test_one_launch(launched_grids: list[Any]) -> None:
    x = gt.ones(16, 33, device="cuda", requires_grad=True)
    for _ in range(3):
        launched_grids.clear()
        y = functional.dropout(x, 0.1)
        assert len(launched_grids) == 1
        launched_grids.clear()
        y.backward(gt.ones_like(y))
        kept = y.detach() != 0
        assert gt.equal(x.grad != 0, kept) and x.grad[kept].max().item() == pytest.approx(1 / 0.9)
        x.grad = None
    y = functional.dropout(x, 0.1)
    seed = y.detach() * 2
    launched_grids.clear()
    (grad,) = gt.autograd.grad(y, x, seed)
    assert len(launched_grids) == 1 and grad.shape == x.shape


def test_special_values_and_unaligned_tensors() -> None:
    memory = gt.tensor([0.0, np.inf, -np.inf, np.nan, -0.0, 1.0, 2.0] * 9)
    for of in DTYPES:
        for shift in range(4):
            x = memory.to(of).to("cuda")[shift:]
            gt.manual_seed(1)
            made, mask = gt.native_dropout(x, 0.5, True)
            assert bits(made) == bits(x * mask * 2.0)
            assert 0 < mask.sum().item() < x.numel()


@pytest.mark.parametrize("schedule", ["forward", "random"])
def test_checks_of_memory_and_races(schedule: str) -> None:
    for shape in ((1027,), (33, 65)):
        for x in layouts(gt.ones(shape, device="cuda")):
            plain = [bits(y) for y in results(x, 0.4)]
            with settings.emulator_settings(sanitize="all", schedule=schedule, seed=4):
                assert [bits(y) for y in results(x, 0.4)] == plain


def test_a_graph_draws_other_numbers_in_each_replay() -> None:
    x = gt.ones(9, 40, device="cuda")
    gt.manual_seed(3)
    eager = [gt.native_dropout(y, 0.5, True)[0] for y in (x, x.t(), x, x.t())]
    gt.native_dropout(x, 0.5, True)
    graph = gt.cuda.CUDAGraph()
    gt.manual_seed(3)
    with gt.cuda.graph(graph):
        made = [gt.native_dropout(y, 0.5, True)[0] for y in (x, x.t())]
    for first in (0, 2):
        graph.replay()
        assert all(gt.equal(a, b) for a, b in zip(made, eager[first:]))


def test_transforms_and_chains_compose() -> None:
    x = gt.ones(4, 50, device="cuda")
    gt.manual_seed(2)
    made = gt.vmap(lambda y: gt.dropout(y, 0.5, True), randomness="different")(x)
    assert made.shape == x.shape and 0 < (made == 0).sum().item() < 200
    gt.manual_seed(2)
    wanted = gt.native_dropout(x, 0.5, True)
    gt.manual_seed(2)
    with gt.fuse():
        found = gt.native_dropout(x, 0.5, True)
    assert all(gt.equal(a, b) for a, b in zip(found, wanted))
