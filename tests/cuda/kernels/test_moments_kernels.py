"""The kernels of variances and logsumexp on the emulator: launches, layouts, segments and bits.

With lowered limits, small tensors are divided into segments and into several launches.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels.cuda import launch, reduce_launch
from gputensor.runtime.emulator import settings

from ...harness import tier
from ..support import requires_emulator
from .test_pointwise_kernels import View, some_sizes

pytestmark = [
    requires_emulator,
    pytest.mark.usefixtures("fresh_plans"),
    pytest.mark.skipif(not gt.cuda.is_emulated(), reason="compiles for the emulator"),
]


@pytest.fixture
def segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide every row of two units per lane or more."""
    monkeypatch.setattr(reduce_launch, "_PER_SEGMENT", 1)


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide outputs, and the elements of an output, among launches."""
    monkeypatch.setattr(launch, "MAX_NUMEL", 50)


CALLS: dict[str, Callable[[Any], Any]] = {
    "var": lambda x: x.var(-1), "var of all": lambda x: x.var(),
    "var over columns": lambda x: x.var(0, keepdim=True), "std": lambda x: x.std(),
    "std with correction": lambda x: gt.std(x, dim=-1, correction=0),
    "var_mean": lambda x: gt.var_mean(x, -1), "std_mean": lambda x: gt.std_mean(x),
    "logsumexp": lambda x: x.logsumexp(-1), "logsumexp of all": lambda x: x.logsumexp((0, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_one_launch(name: str, launched_grids: list[Any]) -> None:
    for of in (gt.float32, gt.bfloat16):
        x = gt.ones(16, 33, device="cuda", dtype=of)
        for _ in range(4):  # later calls use the plan, then a short cut
            launched_grids.clear()
            CALLS[name](x)
            assert len(launched_grids) == 1


def test_two_launches_if_an_output_has_segments(launched_grids: list[Any]) -> None:
    x = gt.ones(3, 70_000, device="cuda")
    for name in ("var", "std", "std_mean", "logsumexp"):
        launched_grids.clear()
        CALLS[name](x)
        assert len(launched_grids) == 2 and launched_grids[0][0] > 6, name


def spread_of(x: np.ndarray, dims: tuple[int, ...], correction: float) -> tuple[Any, Any]:
    wide = x.astype("c16" if x.dtype.kind == "c" else "f8")
    mean = wide.mean(dims, keepdims=True)
    total = (np.abs(wide - mean) ** 2).sum(dims)
    return total / max(wide.size / max(total.size, 1) - correction, 0), wide.mean(dims)


def check_any(seed: int, count: int) -> None:
    """Compare operators over any dimensions and layouts with NumPy in f64."""
    rng = random.Random(seed)
    bounds = {"f4": 2e-6, "f8": 1e-14, "f2": 2e-3, "c8": 2e-6, "c16": 1e-14}
    for number in range(count):
        of = [*bounds][number % len(bounds)]
        sizes = some_sizes(rng, 3_000)
        view = View(rng, sizes, of)
        dims = tuple(sorted(rng.sample(range(len(sizes)), rng.randint(1, len(sizes)))))
        correction = rng.choice((0, 1, 1.5))
        what = f"{of} {view.tensor.stride()} of {sizes} over {dims}"
        with np.errstate(all="ignore"):
            wanted, mean = spread_of(view.array, dims, correction)
        close = {"rtol": bounds[of], "atol": bounds[of] * 9, "err_msg": what}
        got, middle = gt.var_mean(view.tensor, dims, correction=correction)
        np.testing.assert_allclose(got.cpu().numpy(), wanted, **close)
        np.testing.assert_allclose(middle.cpu().numpy(), mean, **close)
        root = gt.std(view.tensor, dims, correction=correction)
        np.testing.assert_allclose(root.cpu().numpy(), np.sqrt(wanted), **close)
        if of[0] == "f":
            wanted = np.log(np.exp(view.array.astype("f8")).sum(dims))
            got = view.tensor.logsumexp(dims).cpu().numpy()
            np.testing.assert_allclose(got, wanted, **close)


def test_any_layout() -> None:
    check_any(1, tier.pick(40, 300))


def test_any_layout_in_segments(segments: None) -> None:
    check_any(2, tier.pick(40, 300))


def test_any_layout_in_several_launches(segments: None, pieces: None) -> None:
    check_any(3, tier.pick(20, 100))


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((6000,), (0,)), ((7, 900), (1,)), ((900, 70), (0,)), ((9, 300, 8), (1,)),
    ((6, 40, 33), (0, 2)),
]  # fmt: skip


@pytest.mark.parametrize("schedule", ["forward", "reversed", "random"])
@pytest.mark.parametrize("of", ["f4", "f2"])
def test_checks_of_memory_and_races(of: str, schedule: str, segments: None) -> None:
    """The kernels touch only their memory, without races, and their bits do not depend on the order
    of threads."""
    rng = np.random.default_rng(1)
    for sizes, dims in SHAPES:
        x = gt.from_numpy(rng.normal(size=sizes).astype(of)).to("cuda")
        plain = [*gt.std_mean(x, dims), x.logsumexp(dims)]
        with settings.emulator_settings(sanitize="all", schedule=schedule, seed=4):
            for a, b in zip(plain, [*gt.std_mean(x, dims), x.logsumexp(dims)]):
                assert a.cpu().numpy().tobytes() == b.cpu().numpy().tobytes()


@pytest.mark.parametrize("shape, dims", SHAPES)
def test_bits_do_not_depend_on_alignment(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=int(np.prod(shape))).astype("f4")
    bits = set()
    for shift in range(4):
        at = gt.from_numpy(np.concatenate([x[:shift], x])).to("cuda")[shift:].reshape(shape)
        found = [*gt.var_mean(at, dims), at.logsumexp(dims)]
        bits.add(b"".join([y.cpu().numpy().tobytes() for y in found]))
    assert len(bits) == 1


@pytest.mark.parametrize(
    "shape, dims", [*SHAPES[:2], ((90, 70), (0,)), ((9, 80, 8), (1,)), SHAPES[4]]
)
def test_bits_are_those_of_composed_operators(shape: tuple[int, ...], dims: Any) -> None:
    """If an output has one segment."""
    for of in ("f4", "f8"):
        array = np.random.default_rng(0).normal(size=shape).astype(of)
        x = gt.from_numpy(array).to("cuda")
        mean, top = x.mean(dims, keepdim=True), x.amax(dims, keepdim=True)
        rest = x - mean
        found, middle = gt.var_mean(x, dims, keepdim=True, correction=0)
        count = x.numel() // mean.numel()
        sums = (x - top).exp().sum(dims, keepdim=True)
        assert gt.equal(middle, mean)
        assert gt.equal(found, (rest * rest).sum(dims, keepdim=True) / count)
        assert gt.equal(x.logsumexp(dims, True), sums.log() + top)


def test_a_chain_gives_the_bits_of_eager_operators() -> None:
    def run(x: Any) -> Any:
        y = x * 2 + 1
        return y.var(-1), *gt.std_mean(y, 0), y.logsumexp(-1), (y - y.mean()) / y.std()

    rng = np.random.default_rng(3)
    for sizes, of in (((9, 40), "f4"), ((9, 40), "f2"), ((2, 40_000), "f4"), ((5, 6), "f8")):
        x = gt.from_numpy(rng.normal(size=sizes).astype(of)).to("cuda")
        for given in (x, x[:, 1:], x.t()):
            wanted = run(given)
            with gt.fuse():
                found = run(given)
            for a, b in zip(found, wanted):
                assert gt.equal(a, b), (sizes, of)


INFINITE: list[list[float]] = [
    [np.inf, 1.0], [np.inf, np.inf], [-np.inf, -np.inf], [-np.inf, 2.0], [np.nan, 1.0],
    [np.nan, np.inf], [np.inf, -np.inf, 0.0], [1e30, -1e30], [5.0], [-0.0],
]  # fmt: skip


def check_special_values() -> None:
    for values in INFINITE:
        for count in (1, 7, 3000):
            x = gt.tensor(values * count)
            for dims, on_cpu in ((0, x), ((0,), x.unsqueeze(1).expand(-1, 5).contiguous())):
                on_cuda = on_cpu.to("cuda")
                for run in (
                    lambda y, d=dims: [y.logsumexp(d), y.var(d), y.std(d)],
                    lambda y, d=dims: [*gt.var_mean(y, d), *gt.std_mean(y, d, correction=0)],
                ):
                    for a, b in zip(run(on_cuda), run(on_cpu)):
                        np.testing.assert_allclose(a.cpu().numpy(), b.numpy(), rtol=1e-6)


def test_special_values() -> None:
    check_special_values()


def test_special_values_in_segments(segments: None) -> None:
    check_special_values()


def test_a_large_mean_costs_no_digits() -> None:
    """The variance's error is the square of the mean's. In one pass it would be 3000² eps."""
    rng = np.random.default_rng(5)
    for sizes, dim in (((5000,), 0), ((100_000,), 0), ((3000, 5), 0), ((3, 40_000), 1)):
        x = (rng.normal(size=sizes) + 3000).astype("f4")
        got = gt.from_numpy(x).to("cuda").var(dim).cpu().numpy()
        np.testing.assert_allclose(got, x.astype("f8").var(dim, ddof=1), rtol=5e-5)


def test_other_results_stay() -> None:
    """Without elements, and for one element."""
    for device in ("cpu", "cuda"):
        empty = gt.ones(3, 0, device=device)
        assert empty.var(1).isnan().all() and empty.sum(1).tolist() == [0, 0, 0]
        assert empty.logsumexp(1).tolist() == [-np.inf] * 3 and empty.var(0).shape == (0,)
        assert gt.tensor(2.0, device=device).var().isnan()
        assert gt.tensor(2.0, device=device).var(correction=0).item() == 0
        assert gt.tensor([2.0], device=device).logsumexp(0).item() == 2
        assert gt.tensor([1, 1], device=device).logsumexp(0).dtype == gt.float32
