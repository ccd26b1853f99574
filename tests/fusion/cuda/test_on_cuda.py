"""`gt.fuse()` on CUDA: one launch for a chain, with the eager bits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.fusion import cuda, running
from gputensor.kernels.cuda import launch, module
from gputensor.op_tests import check

from ...cuda.kernels.chains import assert_same, compile_together
from ...cuda.support import requires_emulator
from ...harness import tier
from .. import programs
from ..same import state_of
from ..test_rows import ROWS, outcome, pending

FUZZ = int(os.environ.get("GPUTENSOR_FUZZ", "0"))

pytestmark = [
    requires_emulator,
    pytest.mark.skipif(not gt.cuda.is_emulated(), reason="counts the emulator's launches"),
]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the names of the launched kernels."""
    entries: list[str] = []
    call = launch.Launch.__call__

    def noted(self: launch.Launch, *args: Any) -> None:
        entries.append(self.entry)
        call(self, *args)

    monkeypatch.setattr(launch.Launch, "__call__", noted)
    yield entries


def masked(x: Any, row: Any, half: Any) -> tuple[Any, ...]:
    product = x * row + half
    kept = product > 0.5
    return product.neg(), (kept * x).abs(), kept


def operands() -> tuple[Any, ...]:
    made = np.random.default_rng(0)
    x, row = made.normal(size=(20, 7)).astype("f4"), made.normal(size=7).astype("f4")
    tensors = [gt.from_numpy(a).to("cuda") for a in (x, row, x.astype("f2"))]
    return tensors[0], tensors[1], tensors[2]


def test_a_chain_is_one_launch(launched: list[str]) -> None:
    given = operands()
    wanted = masked(*given)
    launched.clear()
    with gt.fuse():
        found = masked(*given)
    assert launched == ["chain_strided"]
    for got, expected in zip(found, wanted):
        assert got.dtype is expected.dtype and got.stride() == expected.stride()
        assert_same(got, expected, "masked")


def test_another_number_is_the_same_kernel(launched: list[str]) -> None:
    x, loaded = operands()[0], None
    for rate in (0.5, 0.25):
        expected = x * rate + 1
        launched.clear()
        with gt.fuse():
            found = x * rate + 1
        assert launched == ["chain_strided"]
        assert_same(found, expected, "scaled")
        assert loaded in (None, set(module._functions))
        loaded = set(module._functions)


def test_what_nobody_holds_is_not_stored(launched: list[str]) -> None:
    x, row, _ = operands()
    seen: list[Any] = []
    running.watchers.append(lambda chain, reason: seen.append(chain))
    try:
        with gt.fuse():
            y = (x * row).neg().abs()
    finally:
        running.watchers.pop()
    (chain,) = seen
    assert len(chain.stores) == 1 and len(chain.instructions) == 3
    text = cuda.source(chain)
    assert text is not None and "return v2;" in text
    assert_same(y, (x * row).neg().abs(), "stored")


@pytest.mark.full
def test_a_reduction_computes_what_it_reduces(launched: list[str]) -> None:
    x, row, half = operands()
    y = np.random.default_rng(1).normal(size=(3, 40, 50)).astype("f4")
    big = gt.from_numpy(y).to("cuda")
    turned, column = x.t(), gt.ones(20, 1, device="cuda") * 3
    cases: list[tuple[list[str], Any]] = [
        (["reduce_chain"], lambda: (x * row + 1).sum(1)),
        (["reduce_chain"], lambda: (x * row - 1).mean(0, keepdim=True)),
        (["reduce_chain"], lambda: (x - column).amax(0)),
        (["reduce_chain"], lambda: (half * 2).sum(-1, dtype=gt.float32)),
        (["reduce_chain"], lambda: (turned * 2).sum(0)),
        (["reduce_chain"], lambda: (big.square() + 1).sum()),
        (["reduce_chain"], lambda: (big * big).amin((0, 2))),
        (["reduce_chain"], lambda: (big[..., 1:] > 0.5).sum(1)),
        (["reduce_chain"], lambda: (big[:, ::2] * 0.5).prod(2)),
        (["reduce_chain"], lambda: (x > 5).any()),
        (["reduce_chain"] * 2, lambda: ((x * x).sum(0), (x + 1).amax())),
        # One element of a row is read for a whole run, which is not the order of a separate sum.
        (["chain_strided"], lambda: (x * row).sum()),
        (["chain_strided"], lambda: ((y := x * row), y.sum(0))),
    ]  # fmt: skip
    for _, run in cases:
        run()
    for number, (entries, run) in enumerate(cases):
        wanted = run()
        launched.clear()
        with gt.fuse():
            found = run()
        assert launched == entries, number
        for got, expected in zip(*[x if type(x) is tuple else (x,) for x in (found, wanted)]):
            assert_same(got, expected, str(number))


@pytest.mark.full
def test_extremes_are_looked_for_in_what_is_computed(launched: list[str]) -> None:
    x, row = operands()[:2]
    made = np.random.default_rng(2)
    big = gt.from_numpy(made.integers(0, 9, (2, 3, 40_000)).astype("f4")).to("cuda")
    one = ["argreduce_chain"]
    cases: list[tuple[list[str], Any]] = [
        (one, lambda: (x * row + 1).argmax(1)), (one, lambda: (x * row).argmin(0, True)),
        (one, lambda: (x * 2).argmax()), (one, lambda: tuple((x - row).max(1))),
        (one, lambda: (x - row).min(0, True)[1]), (one, lambda: (x.half() * 2).min(1)[0]),
        (one * 2, lambda: tuple((big * 2).max(2))), (one * 2, lambda: (big.abs() + 1).argmin()),
        (["chain_strided"], lambda: (x * row).argmax()),
    ]  # fmt: skip
    wanted = [state_of(f()) for _, f in cases]
    compile_together(lambda: [gt.fuse(f)() for _, f in cases])
    for (entries, f), value in zip(cases, wanted):
        launched.clear()
        with gt.fuse():
            found = f()
        assert launched == entries
        assert state_of(found) == value


@pytest.mark.full
def test_what_reads_the_results_of_rows_is_the_same_kernel(launched: list[str]) -> None:
    x, row = operands()[:2]
    big = gt.from_numpy(np.random.default_rng(3).normal(size=(3, 5, 1030)).astype("f4")).to("cuda")
    column, functional = gt.ones(20, 1, device="cuda") * 3, gt.nn.functional

    def softmax(x: Any) -> Any:
        powers = (x - x.amax(-1, True)).exp()
        return powers / powers.sum(-1, keepdim=True)

    def normal(x: Any, weight: Any) -> Any:
        return functional.layer_norm(x * 2 + 1, x.shape[-1:], weight, weight) * 2

    cases: list[Any] = [
        lambda: (y := x * row) - y.mean(1, keepdim=True), lambda: normal(x, row),
        lambda: ((y := x * 2) - y.mean(1, True), (y * y).sum(0), y.argmax(1)),
        lambda: gt.where(x > 0, x * 0.5, -1e9).softmax(1) * row,
        lambda: (big * 2).log_softmax(-1), lambda: (x.half() * 2).softmax(1) + 1,
        lambda: (y := x * row) * (y > 0).any(1, True),
        lambda: ((y := x.abs()) / y.sum(-1, keepdim=True), y, y.amin(1)),
        lambda: (y := x * 2 - column, y.amax(1, True), (y / y.prod(1, keepdim=True)).exp()),
        lambda: softmax(big * 2), lambda: softmax((x * row).half()),
        lambda: softmax((x * row).double()), lambda: softmax(big[:, 1:] * 2),
        lambda: normal(big, big[0, 0]),
        lambda: gt.native_layer_norm(x * 2, (7,), None, row, 1e-5),
        lambda: (x * 2).logsumexp(1, True), lambda: (big - 1).logsumexp(2, True) - big,
        lambda: (y := big * 2) - y.mean((1, 2), keepdim=True),
    ]  # fmt: skip
    for number, run in enumerate(cases if tier.is_full() else cases[:2]):
        wanted = state_of(run())
        launched.clear()
        with gt.fuse():
            found = run()
        assert launched.count("rows_chain") == 1, (number, launched)
        assert state_of(found) == wanted, number


@pytest.mark.full
def test_a_long_reduction_is_cut_into_the_segments_that_it_has_alone(launched: list[str]) -> None:
    x = gt.from_numpy(np.random.default_rng(2).normal(size=40_001).astype("f4")).to("cuda")
    for of in (x, x[1:], x[::2]):  # aligned, not aligned, not a run
        wanted = (of * 0.5 + 1).sum()
        launched.clear()
        assert_same(gt.fuse(lambda of=of: (of * 0.5 + 1).sum())(), wanted, "long")
        assert launched == ["reduce_chain"]
    text = str(gt.fuse.explain(lambda: (x * 0.5).sum()))
    assert "made<mul, f32, f32>" in text and "[] over [0]" in text


def test_explain_shows_the_functor_and_what_it_moves() -> None:
    x, row, _ = operands()
    told = gt.fuse.explain(lambda: (x * row).neg())
    assert told.bytes_moved == 2 * 20 * 7 * 4 + 7 * 4
    assert told.bytes_apart == told.bytes_moved + 2 * 20 * 7 * 4
    repeated = gt.fuse.explain(lambda: (x * row.expand(20, 7)).neg())
    assert (repeated.bytes_moved, repeated.bytes_apart) == (told.bytes_moved, told.bytes_apart)
    text = str(told)
    assert "// aten::mul.Tensor" in text and "made<neg, f32, f32>(taken<f32>(v0))" in text


def test_a_graph_captures_a_chain_and_replays_it() -> None:
    x, row, _ = operands()
    fused = gt.fuse(lambda: (x * row).neg())
    fused()  # compiles
    graph = gt.cuda.CUDAGraph()
    with gt.cuda.graph(graph):
        y = fused()
    x.add_(1)
    graph.replay()
    assert_same(y, (x * row).neg(), "replayed")


# --- every operator ---

PARTS = 8


def is_pointwise(name: str) -> bool:
    packet = getattr(gt.ops.aten, name, None)
    return packet is not None and any(
        "pointwise" in getattr(packet, overload).tags for overload in packet.overloads()
    )


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_operators_of_pending_operands_are_what_they_are_eagerly(
    part: int, launched: list[str]
) -> None:
    rows = [row for row in ROWS if is_pointwise(row.name)][part::PARTS]
    cases = [(row.name, case) for row in rows for case in check._cases(row, every=False)]
    assert cases

    def outcomes(is_fused: bool) -> list[Any]:
        return [
            outcome(case, check._main_form(name), is_fused, pending, "cuda") for name, case in cases
        ]

    compile_together(lambda: outcomes(True))
    fused = outcomes(True)
    assert sum(entry.startswith("chain_") for entry in launched) > len(cases) / 4
    for (name, case), found, wanted in zip(cases, fused, outcomes(False)):
        assert found == wanted, (name, str(case))


# --- random programs ------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, FUZZ or 60, 20))
def test_random_programs_equal_eager(first: int) -> None:
    def run(is_fused: bool) -> list[Any]:
        with gt.device("cuda"):
            return [programs.run(seed, is_fused) for seed in range(first, first + 20)]

    compile_together(lambda: run(True))
    for seed, found, wanted in zip(range(first, first + 20), run(True), run(False)):
        assert found == wanted, seed


def test_a_nan_has_the_sign_that_the_operators_give_it() -> None:
    x = gt.tensor([-3.0, 4.0], device="cuda")
    for function in (lambda: x.sqrt().neg() + -0.0, lambda: (x * x.sqrt()).neg() - x):
        assert state_of(gt.fuse(function)()) == state_of(function())


def test_a_call_that_comes_again_runs_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any, row: Any, n: float) -> Any:
        y = (x * row + n).exp()
        return y / y.sum(1, keepdim=True), x, y.t() + 1

    x, row, _ = operands()
    fused = gt.fuse(function)
    for _ in range(6):
        made = fused(x, row, 0.5)
    replays: Any = getattr(fused, "_replays")  # noqa: B009
    assert replays.why is None
    monkeypatch.setattr(type(replays), "run", None)  # otherwise the Python would run
    again = fused(x, row, 0.5)
    assert state_of(again) == state_of(function(x, row, 0.5)) == state_of(made)
    assert again[0].device.type == "cuda"
