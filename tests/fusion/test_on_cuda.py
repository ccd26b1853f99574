"""`gt.fuse()` on CUDA: one launch a chain, and the bits of the operators one by one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels.cuda import launch

from ..cuda.chains import assert_same, compile_together
from ..cuda.support import requires_emulator
from ..harness import tier

pytestmark = [
    requires_emulator,
    pytest.mark.skipif(not gt.cuda.is_emulated(), reason="counts the emulator's launches"),
]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The entries that are launched."""
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
    x = operands()[0]
    for rate in (0.5, 0.25):
        expected = x * rate + 1
        launched.clear()
        with gt.fuse():
            found = x * rate + 1
        assert launched == ["chain_strided"]
        assert_same(found, expected, "scaled")
    from gputensor.kernels.cuda import module

    texts = {key[0] for key, _ in module._functions if key[0].startswith("chain_")}
    assert len([t for t in texts if module.text(t).count("    // aten::") == 2]) == 1


def test_what_nobody_holds_is_not_stored(launched: list[str]) -> None:
    from gputensor.fusion import cuda, running

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


# --- random programs ------------------------------------------------------------------------------

Step = Callable[[list[Any], random.Random], Any]


def pick(values: list[Any], rng: random.Random) -> Any:
    return rng.choice(values)


STEPS: list[Step] = [
    lambda v, r: pick(v, r) + pick(v, r),
    lambda v, r: pick(v, r) * pick(v, r),
    lambda v, r: pick(v, r) * r.choice((2, 0.5, -3)),
    lambda v, r: pick(v, r).neg() if v[0].dtype is not gt.bool else v[0],
    lambda v, r: (pick(v, r) < pick(v, r)) * pick(v, r),
    lambda v, r: gt.where(pick(v, r) < 0.5, pick(v, r), pick(v, r)),
    lambda v, r: pick(v, r).abs(),
    lambda v, r: pick(v, r).half(),
    lambda v, r: pick(v, r).to(gt.bfloat16),
    lambda v, r: pick(v, r).float().mul_(pick(v, r)),
    lambda v, r: pick(v, r).clone().add_(2),
    lambda v, r: pick(v, r).t().contiguous().t(),
    lambda v, r: pick(v, r)[:, ::2].neg().sum(1, keepdim=True) + pick(v, r),
]


def program(seed: int, given: tuple[Any, ...]) -> list[Any]:
    rng = random.Random(seed)
    values = list(given)
    for _ in range(rng.randint(3, 14)):
        values.append(rng.choice(STEPS)(values, rng))
        if len(values) > 6:
            del values[rng.randrange(len(values) - 1)]
    return values


@pytest.mark.full
@pytest.mark.parametrize("seed", range(tier.pick(1, 5)))
def test_random_programs_equal_eager(seed: int) -> None:
    given = operands()
    seeds = range(12 * seed, 12 * seed + 12)

    def run() -> list[list[Any]]:
        found = []
        for each in seeds:
            with gt.fuse():
                found.append(program(each, given))
        return found

    compile_together(lambda: run() and None)
    for each, found in zip(seeds, run()):
        for got, wanted in zip(found, program(each, given)):
            assert got.dtype is wanted.dtype and got.stride() == wanted.stride()
            assert_same(got, wanted, f"program {each}")
