"""binary_cross_entropy_with_logits on the emulator: launches, and results as on the CPU."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.runtime.emulator import settings

from ..support import requires_emulator

pytestmark = [
    requires_emulator,
    pytest.mark.usefixtures("fresh_plans"),
    pytest.mark.skipif(not gt.cuda.is_emulated(), reason="compiles for the emulator"),
]
F = gt.nn.functional
REDUCTIONS = {"none": 1, "mean": 2, "sum": 2}


def operands(of: str, sizes: tuple[int, ...], device: str = "cuda") -> list[Any]:
    """Return logits, targets in [0, 1], weights of elements, and weights of the last dimension."""
    rng = np.random.default_rng(0)
    arrays = [
        rng.normal(size=sizes) * 4, rng.random(sizes), rng.random(sizes) + 0.5,
        rng.random(sizes[-1:]) * 3,
    ]  # fmt: skip
    return [gt.from_numpy(x.astype("f4")).to(getattr(gt, of)).to(device) for x in arrays]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_one_launch_and_a_reduction(
    weighted: bool, positive: bool, reduction: str, launched_grids: list[Any]
) -> None:
    x, target, weight, pos_weight = operands("float32", (7, 9))
    options: Any = {"weight": weight if weighted else None, "reduction": reduction}
    options["pos_weight"] = pos_weight if positive else None
    x.requires_grad_()
    grad = gt.ones((7, 9) if reduction == "none" else (), device="cuda")
    for _ in range(3):
        launched_grids.clear()
        loss = F.binary_cross_entropy_with_logits(x, target, **options)
        assert len(launched_grids) == REDUCTIONS[reduction]
        launched_grids.clear()
        gt.autograd.grad(loss, x, grad)
        assert len(launched_grids) == 1


def results(device: str, of: str, sizes: tuple[int, ...], view: Any, **given: bool) -> list[Any]:
    made = []
    x, target, weight, pos_weight = (view(y) for y in operands(of, sizes, device))
    x = x.detach().requires_grad_()
    for reduction in REDUCTIONS:
        loss = F.binary_cross_entropy_with_logits(
            x, target, weight=weight if given["weighted"] else None, reduction=reduction,
            pos_weight=pos_weight if given["positive"] else None,
        )  # fmt: skip
        made += [loss, gt.autograd.grad(loss.sum(), x)[0]]
    return [y.detach().cpu() for y in made]


VIEWS = {
    "dense": lambda x: x, "steps": lambda x: x[..., ::2],
    "turned": lambda x: x if x.ndim == 1 else x.t().contiguous().t(),
    "shifted": lambda x: x[..., 1:],
}  # fmt: skip
BOUNDS = {"float32": 2e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 2e-2}


@pytest.mark.parametrize("of", BOUNDS)
@pytest.mark.parametrize("view", VIEWS)
def test_results_of_the_cpu(of: str, view: str) -> None:
    for sizes, weighted, positive in product(((5, 33), (0, 4)), (False, True), (False, True)):
        check(of, view, sizes, weighted=weighted, positive=positive)


@pytest.mark.parametrize("view", ["steps", "turned"])
def test_kernels_for_large_layouts(view: str) -> None:
    check("float32", view, (300, 260), weighted=True, positive=True)


def check(of: str, view: str, sizes: tuple[int, ...], **given: bool) -> None:
    found = results("cuda", of, sizes, VIEWS[view], **given)
    for a, b in zip(found, results("cpu", of, sizes, VIEWS[view], **given)):
        assert a.stride() == b.stride() and a.dtype is b.dtype
        x, y = a.double().numpy(), b.double().numpy()
        np.testing.assert_allclose(x, y, rtol=BOUNDS[of] * 4, atol=BOUNDS[of])


def test_more_than_eight_dimensions() -> None:
    x, target, weight, pos_weight = (
        gt.from_numpy(np.random.default_rng(n).random((2,) * 18).astype("f4")) for n in range(4)
    )
    order = [*range(0, 18, 2), *range(1, 18, 2)]
    given = [x, target.permute(order), weight.permute(order[::-1]), pos_weight]
    wanted = gt.binary_cross_entropy_with_logits(*given, 0)
    found = gt.binary_cross_entropy_with_logits(*[y.to("cuda") for y in given], 0)
    np.testing.assert_allclose(found.cpu().numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_special_values() -> None:
    x = gt.tensor([0.0, -0.0, np.inf, -np.inf, np.nan, 200.0, -200.0, 1e30, -1e30])
    for target in (0.0, 1.0, 0.5):
        wanted = F.binary_cross_entropy_with_logits(x, gt.full_like(x, target), reduction="none")
        y = x.to("cuda")
        found = F.binary_cross_entropy_with_logits(y, gt.full_like(y, target), reduction="none")
        np.testing.assert_allclose(found.cpu().numpy(), wanted.numpy(), rtol=1e-6)


def test_a_chain_gives_the_bits_of_eager_operators() -> None:
    x, target, weight, pos_weight = operands("float32", (40, 33))

    def run() -> list[Any]:
        made = [F.binary_cross_entropy_with_logits(x * 2, target) + 1]
        given = {"weight": weight, "pos_weight": pos_weight}
        each = F.binary_cross_entropy_with_logits(x * 2, target, reduction="none", **given)
        return [*made, each * 3]

    wanted = run()
    with gt.fuse():
        found = run()
    for a, b in zip(found, wanted):
        assert gt.equal(a, b)


def test_checks_of_memory() -> None:
    with settings.emulator_settings(sanitize="all", schedule="random", seed=1):
        results("cuda", "float16", (5, 33), VIEWS["shifted"], weighted=True, positive=True)
