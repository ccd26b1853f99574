"""Reductions and softmax, with the operators around them, as programs whose blocks are rows: the
bits equal those of the operators one by one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.fusion import running
from gputensor.fusion.cpu import rows as cpu_rows
from gputensor.kernels.compiled import library

from ..same import state_of

F = gt.nn.functional

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="NumPy's loops run; nothing is compiled"
)
DTYPES = [gt.float32, gt.float32, gt.float64, gt.float16, gt.bfloat16, gt.int32]
ADDED = ["sum", "mean", "amax", "amin", "nansum", "logsumexp", "any"]
WHOLE = ["sum", "mean", "amax", "amin", "nansum", "prod", "all"]
ELEMENTWISE: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x - y, lambda x, y: x * 0.5,
    lambda x, y: 2 - x, lambda x, y: gt.maximum(x, y), lambda x, y: x / 3, lambda x, y: gt.tanh(x),
    lambda x, y: gt.where(x > y, x, y), lambda x, y: x.to(gt.float16).to(x.dtype),
]  # fmt: skip


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = gt.get_num_threads()
    gt.set_num_threads(request.param)
    yield request.param
    gt.set_num_threads(before)


def numbers(rng: random.Random, sizes: tuple[int, ...], of: Any) -> gt.Tensor:
    values = np.random.default_rng(rng.randrange(1 << 30))
    if not of.is_floating_point:
        return gt.tensor(values.integers(-9, 9, sizes), dtype=of)
    made = values.normal(size=sizes)
    if rng.random() < 0.3:
        made = np.where(values.random(sizes) < 1e-3, rng.choice([np.nan, np.inf, -0.0]), made)
    return gt.tensor(made, dtype=of)


def operands(rng: random.Random) -> list[gt.Tensor]:
    of = rng.choice(DTYPES)
    lead = rng.choice([(3,), (40,), (2, 5)])
    tail = rng.choice([(256,), (1000,), (1500,), (2049,), (4, 129), (5000,)])
    if rng.random() < 0.6:  # blocks of several rows
        lead = rng.choice([(3,), (40,), (700,), (90, 9), (1,)])
        tail = rng.choice([(1,), (2,), (7,), (40,), (128,), (3, 5), (1, 17)])
    given = [numbers(rng, (*lead, *tail), of) for _ in range(2)]
    given.append(numbers(rng, rng.choice([tail, (1,) * len(lead) + tail, ()]), of))
    given.append(numbers(rng, (*lead, *[1] * len(tail)), of))
    given.append(numbers(rng, (), rng.choice([gt.int64, gt.float32, of])))
    return given


def by_rows(seed: int, given: list[gt.Tensor]) -> list[gt.Tensor]:
    """A random chain with reductions over the last dimensions; it uses some of their results."""
    rng, full, rows, one = random.Random(seed), given[:2], given[3:4], given[4]
    is_float, n = given[0].is_floating_point(), given[0].ndim
    dims = [d for d in range(n) if given[3].shape[d] == 1]
    kept: list[gt.Tensor] = []
    for _ in range(rng.randrange(3, 14)):
        kind, x = rng.random(), rng.choice(full[-3:])
        if kind < 0.25:
            name = rng.choice(ADDED if is_float else ["sum", "amax", "amin", "any"])
            made = getattr(x, name)(dims, True) if name != "any" else (x > 0).any(-1, True)
            if made.dtype is x.dtype and len(dims) == 1 or name not in ("any", "sum"):
                rows.append(made)
            else:
                kept.append(made)
        elif kind < 0.32 and is_float and len(dims) == 1:
            full.append(rng.choice([gt.softmax, gt.log_softmax])(x, -1))
        elif kind < 0.37 and is_float:
            full.append(normalized(rng, x, len(dims)))
        elif kind < 0.41 and len(dims) == 1:
            found = rng.choice([gt.max, gt.min])(x, -1, rng.random() < 0.7)
            places = rng.choice([gt.argmax, gt.argmin])(x, -1, True)
            kept += rng.sample([*found, places], rng.randrange(1, 4))
            if found[0].ndim == x.ndim:
                rows.append(found[0])
        elif kind < 0.5 and is_float:
            rows.append(
                rng.choice(ELEMENTWISE)(rng.choice(rows), rng.choice([*rows[-2:], one, one]))
            )
        elif kind < 0.7:
            full.append(rng.choice([gt.add, gt.sub, gt.mul])(x, rng.choice([*rows, given[2]])))
        elif is_float:
            full.append(rng.choice(ELEMENTWISE)(x, rng.choice(full)))
    made = [*full[2:], *rows[1:], *kept]
    return rng.sample(made, min(len(made), rng.randrange(1, 4)))


def normalized(rng: random.Random, x: gt.Tensor, n_tail: int) -> gt.Tensor:
    """layer_norm with or without weight and bias, sometimes of the statistics' own dtype; or
    rms_norm."""
    tail = tuple(x.shape[x.ndim - n_tail :])
    of = gt.float32 if x.dtype.itemsize == 2 and rng.random() < 0.7 else x.dtype
    beside = [numbers(rng, tail, of) if rng.random() < 0.6 else None for _ in range(2)]
    eps = rng.choice([1e-5, 1e-3])
    if rng.random() < 0.3:
        return F.rms_norm(x, tail, beside[0], rng.choice([eps, None]))
    made, mean, rstd = gt.native_layer_norm(x, tail, *beside, eps)
    kind = rng.randrange(4)
    if mean.dtype is not made.dtype or kind > 1:
        return made
    return made * rstd if kind else made + mean


def of_everything(seed: int, given: list[gt.Tensor]) -> list[gt.Tensor]:
    rng, values = random.Random(seed), given[:2]
    is_float = given[0].is_floating_point()
    for _ in range(rng.randrange(1, 6)):
        one = rng.choice(ELEMENTWISE) if is_float else rng.choice([gt.add, gt.mul])
        values.append(one(rng.choice(values), rng.choice(values)))
    made = []
    for _ in range(rng.randrange(1, 4)):
        name = rng.choice(WHOLE if is_float else ["sum", "amax", "amin", "all"])
        if is_float and rng.random() < 0.25:
            loss = rng.choice([F.mse_loss, F.smooth_l1_loss, F.huber_loss])
            made.append(loss(*values[-2:], reduction=rng.choice(["mean", "sum"])))
        else:
            made.append(getattr(rng.choice(values[-2:]), name)())
    return [*made, *values[2:][: rng.randrange(2)]]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return for each chain with reductions True if it was one program."""
    seen: list[bool] = []
    program = cpu_rows.program

    def told(chain: Any) -> Any:
        made = program(chain)
        seen.append(made is not None)
        return made

    monkeypatch.setattr(cpu_rows, "program", told)
    monkeypatch.setattr(running, "_plans", {})
    return seen


@pytest.mark.parametrize("first", range(0, 240, 60))
def test_random_chains_over_rows(first: int, threads: int, found: list[bool]) -> None:
    for seed in range(first, first + 60):
        given = operands(random.Random(seed))
        with gt.fuse():
            made = by_rows(seed, given)
        assert state_of(made) == state_of(by_rows(seed, given)), seed
    assert sum(found) > len(found) / 4


@pytest.mark.parametrize("of", [gt.float16, gt.bfloat16], ids=str)
@pytest.mark.parametrize("dims", [(1,), (0, 1)], ids=str)
@pytest.mark.parametrize("sizes", [(300, 7), (100, 1000)], ids=str)
def test_extremes_have_the_operators_nan(of: gt.dtype, dims: Any, sizes: tuple[int, int]) -> None:
    x = gt.ones(sizes, dtype=of)
    x[1] = -2.0  # the square root of it is a NaN with a sign

    def extremes(x: gt.Tensor) -> list[gt.Tensor]:
        return [x.sqrt().amax(dims), x.sqrt().amin(dims)]

    assert state_of(gt.fuse(extremes)(x)) == state_of(extremes(x))


@pytest.mark.parametrize("n", [1, 100, 2048, 16_384, 16_385, 100_003, 700_001])
def test_random_chains_that_reduce_everything(n: int, threads: int, found: list[bool]) -> None:
    for seed in range(20):
        rng = random.Random(seed)
        of = rng.choice(DTYPES)
        sizes = (n,) if n % 7 or n < 100 else (n // 7, 7)
        given = [numbers(rng, sizes, of), numbers(rng, sizes, of)]
        with gt.fuse():
            made = of_everything(seed, given)
        assert state_of(made) == state_of(of_everything(seed, given)), seed
    assert sum(found) > len(found) / 4


@pytest.mark.parametrize("of", [gt.float32, gt.float64], ids=str)
def test_an_operand_of_one_element_is_reduced(of: gt.dtype) -> None:
    code, total = of.code, f"sum {of.short}"
    steps = (
        ("binary", "sub", code, code, (0, 1), (), False),
        ("reduce", total, code, code, (0,), (), True, (0, -1), (2,), ()),
    )
    run = library.program((code, code), (2, 3), steps, 1, ((1, 1),) * 4, (None, None))
    made = [np.full((1, 1), -1, of.np) for _ in range(2)]
    assert run is not None
    assert run(*made, np.full((1, 1), 3, of.np), np.full((1, 1), 2, of.np), (), False)
    assert [x.item() for x in made] == [1, 3]


def test_norms_and_losses_are_one_program(found: list[bool]) -> None:
    x, y, weight = gt.randn(300, 400), gt.rand(300, 400), gt.rand(400)

    def normal(x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        centred = x - x.mean(-1, True)
        return centred / ((centred * centred).mean(-1, True) + 1e-5).sqrt() * weight + y

    def entropy(x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        return (gt.log_softmax(x * 2, -1) * y).sum(-1)

    def distance(x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        return ((x - y) * (x - y)).mean()

    def layer_norm(x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        return F.layer_norm(x * y, (400,), weight, weight).relu()

    def without_bias(x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        return F.layer_norm(x * y, (400,), weight) + F.layer_norm(x - y, (400,), None, weight)

    def rms_norm(x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        return F.rms_norm(x * y, (400,), weight) * F.rms_norm(x + y, (400,), None, 1e-3)

    def places(x: gt.Tensor, y: gt.Tensor) -> Any:
        z = x * y
        return (*z.max(-1), *z.min(-1, True), z.argmax(-1), (z - z.max(-1, True)[0]).argmin(-1))

    def loss(x: gt.Tensor, y: gt.Tensor) -> Any:
        return F.smooth_l1_loss(x * 2, y), F.mse_loss(x * 2, y), F.huber_loss(x * 2, y)

    for function in (
        normal, entropy, distance, layer_norm, without_bias, rms_norm, places, loss,
    ):  # fmt: skip
        explained = gt.fuse.explain(function, x, y)
        assert len(explained.chains) == 1
        assert state_of(explained.result) == state_of(function(x, y))
    assert all(found)


@pytest.mark.parametrize("of", [gt.int32, gt.uint8, gt.bool, gt.float16, gt.float32], ids=str)
@pytest.mark.parametrize("sizes", [(3,), (2100,), (5, 300)], ids=str)
def test_sums_of_another_dtype(of: gt.dtype, sizes: tuple[int, ...], found: list[bool]) -> None:
    x, y = (gt.randint(0, 9, sizes).to(of) for _ in range(2))

    def sums(x: gt.Tensor, y: gt.Tensor) -> list[gt.Tensor]:
        z = gt.maximum(x, y)
        kinds = [gt.float32, gt.float64, gt.int64]
        return [z.sum(-1, dtype=kind) for kind in kinds] + [z.to(gt.float32).mean(-1)]

    assert state_of(gt.fuse(sums)(x, y)) == state_of(sums(x, y))


def test_a_row_with_many_temporaries_is_no_program(found: list[bool]) -> None:
    x = gt.randn(6, 16_384, dtype=gt.float64)

    def many(x: gt.Tensor) -> gt.Tensor:
        found = [x.exp() for x in [x * n for n in range(1, 13)]]
        top = found[0].amax(-1, True)
        for one in found:
            top = top + (one - top) * 0.5
        return top

    assert state_of(gt.fuse(many)(x)) == state_of(many(x))
    assert not all(found)
