"""Random chains over operands of every layout, large enough to be compiled: the bits of eager."""

from __future__ import annotations

import random
import re
import shutil
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt

from .same import state_of

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not on PATH")
DTYPES: list[list[Any]] = [
    [gt.float32], [gt.float64], [gt.float32, gt.float64], [gt.float32, gt.uint8],
    [gt.float32, gt.int32, gt.bool, gt.float64],
]  # fmt: skip
ODD = [float("nan"), -float("nan"), float("inf"), -0.0, 1e30]
# a, b: earlier values of any dtype; f: one of them as floats.
STEPS = [
    "a + b", "a * b", "a - b", "a * 0.5", "a / 2.5", "abs(f).sqrt()", "gt.where(a > b, a, b)",
    "gt.clamp(f, -1, 1)", "a > b", "(f * 3).floor()", "a.to(gt.float32)", "a.to(gt.float64) * 2",
    "(a * 20.0).to(gt.int32)", "gt.clamp(a * 50.0, 0, 255).to(gt.uint8)", "f.contiguous() + 1",
    "gt.exp(-abs(f))", "f.sin()", "f.tanh()", "f.sigmoid()",
    "f - f.mean(-1, True)", "f.sum(-1, True)", "f - f.amax(-1, True)", "f.amin(-1)[..., None]",
]  # fmt: skip
ENDS = ["f.sum(-1)", "f.mean()", "f.sum()", "f.amax(-1)", "a.contiguous()", "a"]


def _sizes(rng: random.Random) -> list[int]:
    of = rng.randrange
    return rng.choice([
        [of(16_000, 90_000)], [of(60, 400), of(60, 600)], [of(1000, 4000), of(3, 40)],
        [of(2, 9), of(5000, 17_000)], [of(2, 20), of(10, 70), of(20, 120)],
        [of(1, 4), rng.choice([1, 3, 4]), of(30, 80), of(40, 130)],
    ])  # fmt: skip


def _operand(rng: random.Random, sizes: list[int], of: Any) -> gt.Tensor:
    values = np.random.default_rng(rng.randrange(1 << 30))

    def dense(sizes: list[int]) -> gt.Tensor:
        numbers = values.random(sizes) * 4 - 2
        if of is gt.bool:
            numbers = numbers > 0
        elif not of.is_floating_point:
            numbers = (numbers + 2) * 60
        made = gt.tensor(numbers.astype(of.np))
        if of.is_floating_point and rng.random() < 0.3:
            made.view(-1)[:: rng.choice([7, 1001, 5003])] = rng.choice(ODD)
        return made

    own = [1 if rng.random() < 0.15 else n for n in sizes]
    if rng.random() < 0.2:
        own = own[rng.randrange(len(own)) :]
    kind, d = rng.random(), rng.randrange(len(own))
    if kind < 0.4:
        return dense(own)
    if kind < 0.7:
        order = rng.sample(range(len(own)), len(own))
        back = [order.index(n) for n in range(len(own))]
        return dense([own[n] for n in order]).permute(*back)
    if kind < 0.85:
        own[d] *= 2
        return dense(own)[(*[slice(None)] * d, slice(rng.randrange(2), None, 2))]
    count, own[d] = own[d], 1
    return dense(own).expand(*own[:d], count, *own[d + 1 :])


def _function(rng: random.Random) -> tuple[Callable[..., Any], str]:
    names, lines = ["x", "y", "z"], []

    def step(choices: list[str]) -> str:
        a, b, f = (rng.choice(names) for _ in range(3))
        given = {"a": a, "b": b, "f": f"({f} * 1.0)"}
        return re.sub(r"\b[abf]\b", lambda found: given[found[0]], rng.choice(choices))

    for n in range(rng.randrange(2, 9)):
        lines.append(f"t{n} = {step(STEPS)}")
        names.append(f"t{n}")
    kept = [rng.choice(names[3:]) for _ in range(rng.randrange(1, 3))]
    text = "\n  ".join([
        "def function(x, y, z):", *lines, f"return {', '.join([*kept, step(ENDS)])},",
    ])  # fmt: skip
    found: dict[str, Any] = {"gt": gt}
    exec(text, found)
    return found["function"], text


def _outcome(function: Callable[..., Any], operands: list[gt.Tensor]) -> Any:
    try:
        return state_of(function(*operands))
    except (TypeError, RuntimeError) as error:  # of bool, which has no difference
        return type(error), str(error)


def _compare(seed: int) -> None:
    rng = random.Random(seed)
    sizes, dtypes = _sizes(rng), rng.choice(DTYPES)
    operands = [_operand(rng, sizes, rng.choice(dtypes)) for _ in range(3)]
    function, text = _function(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = _outcome(function, operands)
        for native in (False, True):
            found = _outcome(gt.fuse(function, native=native), operands)
            assert found == expected, (seed, native, text)


@pytest.mark.parametrize("seed", range(8))
def test_random_chains(seed: int) -> None:
    _compare(seed)


@pytest.mark.full
def test_many_random_chains() -> None:
    for seed in range(8, 120):
        _compare(seed)
