"""Operators after a reduction on CUDA run in its kernel, with the eager bits."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels.cuda import launch

from ...cuda.kernels.chains import compile_together
from ...harness import tier
from ..same import state_of

if not gt.cuda.is_emulated():
    pytest.skip("counts the emulator's launches", allow_module_level=True)
FUZZ = int(os.environ.get("GPUTENSOR_FUZZ", "0"))
PLAIN, GOES_ON = "reduce_chain", "reduce_chain, and what follows"


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the names of the launched kernels."""
    entries: list[str] = []
    call = launch.Launch.__call__

    def noted(self: launch.Launch, *args: Any) -> None:
        goes_on = self.entry == PLAIN and "ROW_OPERANDS" in self.defines
        entries.append(GOES_ON if goes_on else self.entry)
        call(self, *args)

    monkeypatch.setattr(launch.Launch, "__call__", noted)
    yield entries


def made(*sizes: int) -> Any:
    numbers = np.random.default_rng(len(sizes)).normal(size=sizes).astype("f4")
    return gt.from_numpy(numbers).to("cuda")


X, ROW, COLUMN, BIG, LONG = made(20, 7), made(7), made(20), made(3, 40, 50), made(80_001)
HALF, NUMBER = X.half(), gt.tensor(2.5)
CASES: dict[str, tuple[list[str], Callable[[], Any]]] = {
    "rows": ([GOES_ON], lambda: (X * ROW + 1).sum(1) * 2 + COLUMN),
    "columns": ([GOES_ON], lambda: (X + 1).mean(0).neg() * ROW),
    "kept": ([GOES_ON], lambda: (X - 1).mean(0, keepdim=True).neg() * ROW),
    "everything": ([GOES_ON], lambda: (X * 0.5 + 1).mean().sqrt()),
    "kept everything": (["rows_chain"], lambda: (X * 0.5 + 1).sum((0, 1), keepdim=True) * 2),
    "two dimensions": ([GOES_ON], lambda: (BIG * BIG).amin((0, 2)).exp()),
    "turned": ([GOES_ON], lambda: (BIG.transpose(0, 2) * 2).sum(1) * 3),
    "every second": ([GOES_ON], lambda: (BIG[:, ::2] * 0.5).prod(2) > 0),
    "booleans": ([GOES_ON], lambda: (X > 1).any(0).logical_not()),
    "f16": ([GOES_ON], lambda: (HALF * 2).sum(1) + 1),
    "casts": ([GOES_ON], lambda: (X * 2).sum(1).half().double()),
    "a broadcast operand": ([GOES_ON], lambda: (X * 2).sum(1) * COLUMN[:1] + COLUMN[3]),
    "the result, too": ([GOES_ON], lambda: ((s := (X * ROW).sum(0)), s * 2, s - ROW)),
    "segments": ([PLAIN, GOES_ON], lambda: (LONG * 0.5 + 1).sum().sqrt()),
    "segments, the result": ([PLAIN, GOES_ON], lambda: ((s := (LONG * 2).sum()), s * 3)),
    "of partial results": ([PLAIN, GOES_ON], lambda: ((LONG > 4).any().logical_not())),
    "without NaN": ([PLAIN, GOES_ON], lambda: (LONG[1:] * 2).nansum() * 0.5),
    "not a run": ([PLAIN, GOES_ON], lambda: (LONG[::2] * 2).amax() - 1),
    "nothing before": ([PLAIN, GOES_ON], lambda: (LONG * 2).amax() + LONG.amax()),
    "two reductions": (
        [PLAIN, GOES_ON], lambda: ((X * X).mean(0) - (X * 2).mean(0).square()).sqrt()
    ),
    "two layouts": ([GOES_ON] * 2, lambda: ((X * 2).sum(0) * 3, (X * 3).sum(1).neg())),
    "one after the other": ([PLAIN, GOES_ON], lambda: ((X * 2).sum(1) + 1).amax() * 2),
    # A value that is needed elsewhere is stored, and the reduction reads the stored value.
    "a stored operand": (
        ["chain_strided", "chain_strided"], lambda: ((y := X * 2), y.sum(0) * 3 + 1)
    ),
    # A 0-d tensor on the CPU is not an operand of a kernel.
    "a number": ([PLAIN], lambda: (X * 2).sum(0) * NUMBER),
}  # fmt: skip


@pytest.mark.parametrize("name", [*CASES][:: tier.pick(8, 1)])
def test_what_follows_on_a_result_is_in_its_kernel(name: str, launched: list[str]) -> None:
    entries, run = CASES[name]
    wanted = state_of(run())
    launched.clear()
    with gt.fuse():
        found = run()
    assert [x for x in launched if not x.startswith("binary_contiguous")] == entries
    assert state_of(found) == wanted


def test_a_function_that_goes_on_is_replayed() -> None:
    fused = gt.fuse(lambda x, row: ((x - row).square().mean(0) + 0.5).sqrt())
    for k in range(4):
        x = X + k
        assert state_of(fused(x, ROW)) == state_of(((x - ROW).square().mean(0) + 0.5).sqrt())
    told = gt.fuse.explain(fused, X, ROW)
    assert told.replays and len(told.chains) == 1
    text = str(told)
    assert "struct chain_epilogue" in text and "// aten::sqrt" in text
    assert told.bytes_moved == X.nbytes + 2 * ROW.nbytes


def test_writes_between_are_seen_in_their_order() -> None:
    def program(is_fused: bool) -> Any:
        x, row = X.clone(), ROW.clone()
        with gt.fuse() if is_fused else nullcontext():
            a = (x * 2).sum(0)
            b = a * row
            x.add_(1)
            row.mul_(2)
            c = a + row
            a.add_(1)
            d = (x * 2).sum(1)
            first = d[0].item()
            e = d * first
        return a, b, c, d, e, x, row

    assert state_of(program(True)) == state_of(program(False))


def test_a_result_that_is_looked_at_runs_what_follows_later() -> None:
    with gt.fuse():
        total = (X * 2).sum(0)
        numbers = total.tolist()
        after = total * 2
    assert numbers == (X * 2).sum(0).tolist()
    assert state_of(after) == state_of((X * 2).sum(0) * 2)


def test_what_reads_a_result_may_be_gone_before_what_is_beside_it() -> None:
    def program(is_fused: bool) -> Any:
        with gt.fuse() if is_fused else nullcontext():
            x = X * 2
            total = x.sum(0)
            beside = (ROW > 0).half()
            dropped = beside + total
            kept = beside * 2
            del dropped, total
        return x, beside, kept

    assert state_of(program(True)) == state_of(program(False))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_a_row_has_once_needs_no_reduction_beside_it(device: str) -> None:
    def program(is_fused: bool) -> Any:
        x, column = X.to(device), COLUMN.to(device).reshape(20, 1)
        with gt.fuse() if is_fused else nullcontext():
            y = x * 2
            dropped = y.sum(1, keepdim=True)
            half = column / 2
            del dropped
        return y, half

    assert state_of(program(True)) == state_of(program(False))


@pytest.mark.full
def test_a_result_that_two_chains_go_on_over_is_stored_for_the_second() -> None:
    def program(is_fused: bool) -> Any:
        with gt.fuse() if is_fused else nullcontext():
            totals, rows, thirds = (X * 2).sum(0), (X * 2).sum(1), (X * 3).sum(0)
            a = totals * 2
            b = rows * 2
            part = a[:3] + 1
            c = totals + thirds
            del totals, rows, thirds
        return a, b, c, part

    assert state_of(program(True)) == state_of(program(False))


@pytest.mark.full
def test_backward_goes_on_over_results() -> None:
    def step(is_fused: bool) -> Any:
        weight = ROW.clone().requires_grad_()
        with gt.fuse() if is_fused else nullcontext():
            loss = ((X * weight).sum(1) * COLUMN).square().mean().sqrt()
            loss.backward()
        return loss, weight.grad

    assert state_of(step(True)) == state_of(step(False))


# --- random programs ------------------------------------------------------------------------------

SIZES = [(6, 5), (3, 4, 5), (70,), (1, 9), (2, 3, 1, 8), (5000,), (3, 90_000), (4, 3000)]
DTYPES = [gt.float32] * 3 + [gt.float16, gt.bfloat16, gt.float64, gt.int32, gt.bool]
REDUCTIONS = ["sum", "mean", "amax", "amin", "prod", "any", "all", "nansum"]
UNARY = ["neg", "abs", "square", "sign", "relu", "logical_not", "exp", "isnan"]
BINARY = ["add", "mul", "sub", "maximum", "lt", "div", "logical_or"]


def some(rng: random.Random, sizes: tuple[int, ...]) -> Any:
    numbers = np.random.default_rng(rng.randrange(1000)).integers(-2, 3, sizes)
    x = gt.tensor(numbers).to(rng.choice(DTYPES)).to("cuda")
    return x.movedim(0, -1).contiguous().movedim(-1, 0) if rng.random() < 0.3 else x


def operator(rng: random.Random, x: Any, more: list[Any]) -> Any:
    if rng.random() < 0.4:
        return getattr(gt, rng.choice(UNARY))(x)
    return getattr(gt, rng.choice(BINARY))(x, rng.choice([2, 0.5, x, *more]))


def program(seed: int, is_fused: bool) -> list[Any]:
    """Compute values of a tensor, reduce them, and compute with the results and with operands that
    broadcast; write to operands and read values in between."""
    rng = random.Random(seed)
    x = some(rng, rng.choice(SIZES))
    made, told = [x], list[Any]()
    with warnings.catch_warnings(), gt.fuse() if is_fused else nullcontext():
        warnings.simplefilter("ignore")
        for _ in range(rng.randint(1, 4)):
            try:
                y = x
                for _ in range(rng.randint(0, 3)):
                    y = operator(rng, y, [])
                dims = rng.sample(range(x.ndim), rng.randint(0, x.ndim))
                if rng.random() < 0.8 and dims:
                    y = getattr(gt, rng.choice(REDUCTIONS[:4]))(y, dims[0], rng.random() < 0.4)
                else:
                    y = getattr(gt, rng.choice(REDUCTIONS))(y)
                y = y[0] if isinstance(y, tuple) else y
                made.append(y)
                if rng.random() < 0.4:
                    continue  # another reduction of the same recording
                beside = [some(rng, tuple(y.shape)), some(rng, tuple(y.shape)[-1:])]
                beside += [z for z in made if z.shape == y.shape]
                for _ in range(rng.randint(0, 4)):
                    y = operator(rng, y, beside)
                    made.append(y)
                pick = rng.random()
                if pick < 0.15:
                    rng.choice(made).add_(1)
                elif pick < 0.25:
                    told.append(rng.choice(made).sum().item())
                elif pick < 0.6 and len(made) > 2:
                    del made[rng.randrange(1, len(made))]
            except (RuntimeError, ValueError, TypeError) as error:
                told.append(str(error))
        for _ in range(rng.randint(0, 6)):
            y = rng.choice(made)
            if rng.random() < 0.2 and y.ndim:
                y = y[:1]
            try:
                made.append(operator(rng, y, [z for z in made if z.shape == y.shape]))
            except (RuntimeError, ValueError, TypeError) as error:
                told.append(str(error))
            if rng.random() < 0.3 and len(made) > 2:
                del made[rng.randrange(1, len(made))]
    return [state_of(unsigned(y)) for y in (*made, *told)]


def unsigned(x: Any) -> Any:
    """Replace all NaNs by one: g++ may compile -x + 1 as 1 - x, which keeps the sign of a NaN."""
    if not isinstance(x, gt.Tensor) or not x.dtype.is_floating_point:
        return x
    return gt.where(x.isnan(), float("nan"), x)


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, FUZZ or 60, 20))
def test_random_programs_equal_eager(first: int, launched: list[str]) -> None:
    seeds = range(first, first + 20)
    compile_together(lambda: [program(seed, True) for seed in seeds])
    launched.clear()
    for seed in seeds:
        assert program(seed, True) == program(seed, False), seed
    assert launched.count(GOES_ON) > 1
