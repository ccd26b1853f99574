"""Norms of vectors on the emulator: launches, layouts, segments, dtypes and special values."""

from __future__ import annotations

import random
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
ORDERS = (0, 1, 2, np.inf, -np.inf, 3, 0.5, -1.5)
BOUNDS = {"f4": 2e-6, "f8": 1e-14, "f2": 2e-3, "c8": 2e-6, "c16": 1e-14}


def norm(x: Any, p: float, dims: Any = None, keepdim: bool = False) -> Any:
    return gt.linalg.vector_norm(x, p, dims, keepdim)


def norm_of(x: np.ndarray, p: float, dims: tuple[int, ...]) -> Any:
    size = np.abs(x.astype("c16" if x.dtype.kind == "c" else "f8"))
    if p == 0:
        return (size != 0).sum(dims)
    if np.isinf(p):
        return size.max(dims) if p > 0 else size.min(dims)
    return (size**p).sum(dims) ** (1 / p)


@pytest.mark.parametrize("p", ORDERS)
def test_one_launch(p: float, launched_grids: list[Any]) -> None:
    for of in (gt.float32, gt.bfloat16, gt.complex64):
        x = gt.ones(16, 33, device="cuda", dtype=of)
        for run in (
            lambda x: norm(x, p), lambda x: norm(x, p, 0), lambda x: norm(x, p, -1, True),
            lambda x: x.norm(p), lambda x: x[:, ::2].norm(p, -1),
        ):  # fmt: skip
            for _ in range(4):  # later calls use the plan, then a short cut
                launched_grids.clear()
                run(x)
                assert len(launched_grids) == 1


def test_two_launches_if_an_output_has_segments(launched_grids: list[Any]) -> None:
    x = gt.ones(3, 70_000, device="cuda")
    for p in ORDERS:
        launched_grids.clear()
        norm(x, p, 1)
        assert len(launched_grids) == 2, p


def check_any(seed: int, count: int) -> None:
    """Compare norms over any dimensions and layouts with NumPy in f64."""
    rng = random.Random(seed)
    for number in range(count):
        of, p = [*BOUNDS][number % len(BOUNDS)], rng.choice(ORDERS)
        sizes = some_sizes(rng, 3_000)
        view = View(rng, sizes, of)
        dims = tuple(sorted(rng.sample(range(len(sizes)), rng.randint(1, len(sizes)))))
        found = norm(view.tensor, p, dims)
        with np.errstate(all="ignore"):
            wanted = norm_of(view.array, p, dims)
            wanted = wanted.astype(found.cpu().numpy().dtype)
        what = f"{of} {p} {view.tensor.stride()} of {sizes} over {dims}"
        got = found.cpu().numpy()
        np.testing.assert_allclose(got, wanted, rtol=BOUNDS[of] * 8, err_msg=what)


def test_any_layout() -> None:
    check_any(1, tier.pick(80, 600))


def test_any_layout_in_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduce_launch, "_PER_SEGMENT", 1)
    check_any(2, tier.pick(80, 600))


def test_any_layout_in_several_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "MAX_NUMEL", 50)
    check_any(3, tier.pick(40, 200))


@pytest.mark.parametrize("of", ["f4", "f8"])
def test_bits_are_those_of_composed_operators(of: str) -> None:
    x = gt.from_numpy(np.random.default_rng(0).normal(size=(9, 300)).astype(of)).to("cuda")
    for dims in (0, 1, (0, 1)):
        assert gt.equal(norm(x, 0, dims), (x != 0).sum(dims, dtype=x.dtype))
        assert gt.equal(norm(x, 1, dims), x.abs().sum(dims))
        assert gt.equal(norm(x, 2, dims), (x * x).sum(dims).sqrt())
        assert gt.equal(norm(x, np.inf, dims), x.abs().amax(dims))
        assert gt.equal(norm(x, -np.inf, dims), x.abs().amin(dims))
        assert gt.equal(norm(x, 2.5, dims), (x.abs() ** 2.5).sum(dims) ** 0.4)


def test_a_chain_gives_the_bits_of_eager_operators() -> None:
    def run(x: Any) -> Any:
        y = x * 2 + 1
        return [norm(y, p, -1) for p in ORDERS] + [y / y.norm()]

    for sizes, of in (((9, 40), "f4"), ((9, 40), "f2"), ((2, 40_000), "f4"), ((5, 6), "f8")):
        x = gt.from_numpy(np.random.default_rng(3).normal(size=sizes).astype(of)).to("cuda")
        for given in (x, x[:, 1:], x.t()):
            wanted = run(given)
            with gt.fuse():
                found = run(given)
            for a, b in zip(found, wanted):
                assert gt.equal(a, b), (sizes, of)


@pytest.mark.parametrize("schedule", ["reversed", "random"])
def test_checks_of_memory_and_races(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduce_launch, "_PER_SEGMENT", 1)
    for sizes, dims in (((6000,), 0), ((7, 900), 1), ((900, 70), 0), ((9, 300, 8), 1)):
        x = gt.from_numpy(np.random.default_rng(1).normal(size=sizes).astype("f4")).to("cuda")
        plain = [norm(x, p, dims) for p in (2, np.inf, 1.5)]
        with settings.emulator_settings(sanitize="all", schedule=schedule, seed=4):
            for a, p in zip(plain, (2, np.inf, 1.5)):
                assert gt.equal(a, norm(x, p, dims))


INFINITE: list[list[float]] = [
    [np.inf, 1.0], [-np.inf, -np.inf], [-np.inf, 2.0], [np.nan, 1.0], [np.nan, np.inf], [0.0, -0.0],
    [-0.0], [1e-30, 3e-30],
]  # fmt: skip


def test_special_values() -> None:
    for values in INFINITE:
        for count in (1, 7, 3000):
            x = gt.tensor(values * count)
            for p in ORDERS:
                for dims, y in ((0, x), (0, x.unsqueeze(1).expand(-1, 5).contiguous())):
                    a, b = norm(y.to("cuda"), p, dims).cpu(), norm(y, p, dims)
                    what = f"{values} {p}"
                    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, err_msg=what)


def test_other_results_stay() -> None:
    for device in ("cpu", "cuda"):
        empty = gt.ones(3, 0, device=device)
        assert norm(empty, 2, 1).tolist() == [0, 0, 0] and norm(empty, 3).item() == 0
        assert norm(empty, np.inf, 0).shape == (0,)
        for p in ORDERS:
            assert norm(gt.tensor(-2.0, device=device), p).item() == (1 if p == 0 else 2)
        with pytest.raises(Exception, match="non-zero size"):
            norm(empty, np.inf, 1)
        x = gt.tensor([3.0, 4.0], dtype=gt.float16, device=device)
        assert gt.linalg.vector_norm(x, dtype=gt.float64).dtype is gt.float64
        made = gt.empty((), dtype=gt.float16, device=device)
        assert gt.linalg.vector_norm(x, out=made) is made and made.item() == 5
