"""Runs of arithmetic that a program keeps in registers: the bits equal those of separate
operators."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels.compiled import library

from ..same import state_of

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="NumPy's loops run; nothing is compiled"
)
ONE = [gt.neg, gt.relu, gt.reciprocal, gt.sqrt, gt.rsqrt]
TWO = [gt.add, gt.sub, gt.mul, gt.div, gt.maximum, gt.minimum]
COMPARED = [gt.eq, gt.ne, gt.lt, gt.le, gt.gt, gt.ge]
# Operators without an instruction, whose loops run over a tile; and operators that end a run.
CALLED = [
    lambda x, y: gt.exp(x), lambda x, y: gt.nn.functional.elu(y, 0.7),
    lambda x, y: gt.pow(x, y), lambda x, y: gt.lerp(x, y, y), lambda x, y: gt.clamp(x, -1, 2),
    lambda x, y: gt.addcmul(x, y, x, value=0.7), lambda x, y: gt.add(x, y, alpha=3),
]  # fmt: skip
ENDING = [lambda x: x.to(gt.float16).to(x.dtype), lambda x: (x > 0).to(x.dtype)]
NUMBERS = [0.5, -2, 0.0, -0.0, 3, 1e-3, float("inf"), float("nan")]
# Sizes near one tile and one block, and no elements.
SIZES = [1, 7, 63, 64, 65, 127, 128, 129, 1000, 4099, 9000, 70_001]


def operand(rng: random.Random, sizes: tuple[int, ...], of: Any) -> gt.Tensor:
    values = np.random.default_rng(rng.randrange(1 << 30))
    made = values.normal(size=sizes) * 10.0 ** values.integers(-3, 4, sizes)
    for special in (np.nan, np.inf, -np.inf, -0.0, 1e-320):
        made = np.where(values.random(sizes) < 0.02, special, made)
    return gt.tensor(made, dtype=of)


def operands(rng: random.Random, of: Any) -> list[gt.Tensor]:
    n = rng.choice(SIZES)
    rows = rng.choice([1, 1, 3, 40]) if n < 5000 else 1
    sizes = (rows, n)
    made = [operand(rng, sizes, of), operand(rng, sizes, of)]
    made.append(operand(rng, rng.choice([(n,), (1, 1), (rows, 1), ()]), of))
    if rng.random() < 0.3:
        made.append(operand(rng, (n, rows), of).t())
    if rng.random() < 0.2:
        made.append(operand(rng, (rows, 2 * n), of)[:, ::2])
    return made


def chain(seed: int, given: list[gt.Tensor]) -> Any:
    """A random chain. The returned values, which are stored, are random too."""
    rng, values = random.Random(seed), [*given]
    truths: list[gt.Tensor] = []
    for _ in range(rng.randrange(2, 30)):
        x, y = (rng.choice(values[-6:] if rng.random() < 0.8 else values) for _ in range(2))
        kind = rng.random()
        if kind < 0.2:
            values.append(rng.choice(ONE)(x))
        elif kind < 0.25:
            values.append(rng.choice(ENDING)(x))
        elif kind < 0.32:
            values.append(rng.choice(CALLED)(x, y))
        elif kind < 0.4:
            truths.append(rng.choice(COMPARED)(x, rng.choice([y, rng.choice(NUMBERS)])))
        elif kind < 0.48 and truths:
            values.append(gt.where(rng.choice(truths[-2:]), x, y))
        elif kind < 0.6:
            values.append(x * rng.choice(NUMBERS) if kind < 0.54 else rng.choice(NUMBERS) - x)
        else:
            values.append(rng.choice(TWO)(x, y))
    kept = rng.sample(values[len(given) :], min(len(values) - len(given), rng.randrange(1, 4)))
    return [*kept, *truths[: rng.randrange(2)]]


@pytest.mark.parametrize("of", [gt.float32, gt.float64], ids=str)
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_chains_have_the_bits_of_their_operators(of: Any, first: int) -> None:
    for seed in range(first, first + 50):
        given = operands(random.Random(seed), of)
        with gt.fuse():
            made = chain(seed, given)
        assert state_of(made) == state_of(chain(seed, given)), seed


OTHERS = [gt.uint8, gt.int8, gt.int16, gt.int32, gt.int64, gt.float16, gt.bfloat16, gt.bool]


def mixed(seed: int, given: list[gt.Tensor]) -> list[gt.Tensor]:
    """A random chain of operands of several dtypes: casts between its arithmetic."""
    rng, values = random.Random(seed), [*given]
    for _ in range(rng.randrange(2, 20)):
        x, y = (rng.choice(values[-5:] if rng.random() < 0.7 else values) for _ in range(2))
        kind = rng.random()
        if kind < 0.2:
            values.append(x.to(rng.choice([*OTHERS, gt.float32, gt.float64, gt.float32])))
        elif kind < 0.3:
            values.append(gt.clamp(x, -1, 9) if x.dtype is not gt.bool else x)
        elif kind < 0.4:
            values.append(gt.where(x > y, x, y))
        elif kind < 0.5 and x.is_floating_point():
            values.append(gt.exp(x))
        else:
            values.append(rng.choice([gt.add, gt.mul, gt.maximum])(x, y))
    made = values[len(given) :]
    return rng.sample(made, min(len(made), rng.randrange(1, 4)))


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_random_chains_of_several_dtypes(first: int) -> None:
    for seed in range(first, first + 100):
        rng = random.Random(seed)
        n, rows = rng.choice(SIZES), rng.choice([1, 3])
        given = [operand(rng, (rows, n), rng.choice([gt.float32, gt.float32, gt.float64]))]
        for of in rng.sample(OTHERS, 3):
            sizes = rng.choice([(rows, n), (n,), (rows, 1), (1, 1)])
            numbers = gt.tensor(np.random.default_rng(seed).integers(0, 99, sizes))
            given.append((numbers - 40 * of.is_signed).to(of))
        if rng.random() < 0.5:
            given.append(gt.tensor(np.arange(rows * n * 3, dtype="u1").reshape(rows, n, 3))[..., 1])
        with gt.fuse():
            made = mixed(seed, given)
        assert state_of(made) == state_of(mixed(seed, given)), seed


def test_chains_that_keep_many_values() -> None:
    def function(x: gt.Tensor, y: gt.Tensor) -> list[gt.Tensor]:
        kept = [x * n + y for n in range(10)]
        total = kept[0]
        for first, second in zip(kept, reversed(kept)):
            total = gt.where(first > second, total * second, total - first) + first.sqrt()
        return [total, kept[3]]

    for n in SIZES:
        x, y = gt.rand(n), gt.rand(n) - 0.5
        assert state_of(gt.fuse(function)(x, y)) == state_of(function(x, y)), n


def test_nans_of_two_operands_are_chosen_as_by_the_loops() -> None:
    bits = np.array([0x7FC00001, 0xFFC00002, 0x3F800000, 0x7FC00003], np.uint32)
    x, y = np.meshgrid(bits, bits)
    x, y = (gt.tensor(np.tile(v.reshape(-1), 20).view(np.float32)) for v in (x, y))

    def arithmetic(x: gt.Tensor, y: gt.Tensor) -> list[gt.Tensor]:
        found = []
        for two in TWO:
            a, b = -x, -y
            found += [two(x, y), two(a, y), two(y, b), two(two(x, y), x), two(x, two(x, y))]
        return found

    assert state_of(gt.fuse(arithmetic)(x, y)) == state_of(arithmetic(x, y))


@pytest.mark.parametrize("n", [100, 1000])
def test_a_run_may_write_over_its_operands(n: int) -> None:
    def write(x: gt.Tensor, y: gt.Tensor) -> list[gt.Tensor]:
        half = y - 0.5 * x
        x.add_(half * 0.01).mul_(y)
        y.copy_(half - 0.5 * x)
        return [half, x]

    found = []
    for run in (write, gt.fuse(write)):
        x, y = gt.arange(n).float(), gt.arange(n).float() * 0.3
        found.append(state_of([run(x, y), x, y]))
    assert found[0] == found[1]


@pytest.mark.parametrize("element", [gt.float32, gt.float64], ids=str)
@pytest.mark.parametrize("offset", [0, 1])
def test_large_results_past_the_caches(element: Any, offset: int) -> None:
    """Results of 8 MiB, aligned or not, also in memory that the chain reads and in parts."""
    n = (8 << 20) // element.itemsize + 77
    x, y = gt.rand(n, dtype=element) + 0.5, gt.rand(n, dtype=element)
    place = gt.empty(n + offset, dtype=element)[offset:]

    def every(x: gt.Tensor, y: gt.Tensor) -> list[gt.Tensor]:
        first = x * y + 1
        second = (first - y).exp() * 2  # the first one is stored and read again
        return [first, second, second.sum()]

    def written(x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        place.copy_(x * y - 1)
        return place.clone()

    def over(x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        return x.clone()[1:].mul_(y[1:]).add_(y[1:] * 0.5)

    for function in (every, written, over):
        wanted = state_of(function(x, y))
        with gt.fuse():
            made = function(x, y)
        assert state_of(made) == wanted
    rows = (x[: n // 2048 * 2048].view(-1, 2048), y[: n // 2048 * 2048].view(-1, 2048))

    def softmax(x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        return (x * y).softmax(-1) * y

    assert state_of(gt.fuse(softmax)(*rows)) == state_of(softmax(*rows))
