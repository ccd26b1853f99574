"""The compiled loops of grid_sample against the composition of operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.native import sampling

from ..layouts import LAYOUTS

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

# Sizes of x, and of the grid without its last dimension.
CASES = [((2, 3, 5, 7), (4, 6)), ((1, 70, 9, 8), (20, 15)), ((2, 1, 1, 1), (3, 3)),
         ((3, 5, 30, 20), (1, 700)), ((1, 2, 4, 3), (0, 2)),
         ((2, 3, 4, 5, 3), (3, 5, 20)), ((1, 5, 1, 2, 1), (1, 2, 3))]  # fmt: skip
_random = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = gt.get_num_threads()
    yield
    gt.set_num_threads(before)


def _operands(of: Any, sizes: tuple[int, ...], places: tuple[int, ...]) -> tuple[Any, Any]:
    x = _random.standard_normal(sizes).astype(of)
    x[0, 0, 0, 0, ...] = np.inf
    grid = (_random.random((sizes[0], *places, len(places))) * 3 - 1.5).astype(of)
    flat = grid.reshape(-1)
    special = [-1, 1, 0, np.nan, np.inf, -np.inf, 1e30, -1e30, 5.25, -7.5]
    flat[: len(special)] = special[: flat.size]
    return x, grid


@pytest.mark.parametrize("of", [np.float32, np.float64])
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("align", [False, True])
def test_grid_sample(
    of: Any, mode: int, padding: int, align: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = sampling._grid_sample
    assert stub.is_compiled(loop)
    for sizes, places in CASES:
        x, grid = _operands(of, sizes, places)
        if not grid.size or (mode == 2 and x.ndim == 5):
            continue
        with monkeypatch.context() as patch:
            patch.setattr(sampling, "_grid_sample", lambda *given: False)
            sampler = getattr(gt.ops.aten, f"grid_sampler_{len(places)}d")
            expected = sampler(gt.tensor(x), gt.tensor(grid), mode, padding, align).numpy()
        for layout in LAYOUTS:
            for threads in (1, 3):
                gt.set_num_threads(threads)
                out = np.full(expected.shape, 7, of)
                assert loop(layout(x), layout(grid), out, mode, padding, align)
                np.testing.assert_array_equal(out, expected)
        pixels = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
        assert loop(pixels, grid, out, mode, padding, align)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("of", [np.float32, np.float64])
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_gradients(of: Any, mode: int, padding: int) -> None:
    """They differ from the gradients of composed operators only by rounding, and have the same bits
    for any number of threads."""
    for sizes, places in CASES:
        if 0 in places or (mode == 2 and len(places) == 3):
            continue
        given = [_random.standard_normal(sizes), _random.random((sizes[0], *places, len(places)))]
        given[1] = given[1] * 3 - 1.5
        numbers = (mode, padding, bool(mode))
        grad = gt.tensor(_random.standard_normal((*sizes[:2], *places)).astype(of))
        x, grid = (gt.tensor(a.astype(of)) for a in given)
        turned = gt.tensor(np.moveaxis(np.moveaxis(given[0].astype(of), 1, -1).copy(), -1, 1))
        by_operators = getattr(gt.ops.aten, f"grid_sampler_{len(places)}d_backward")
        wanted = by_operators(grad, x, grid, *numbers, (True, True))
        found = []
        for threads, like in ((1, x), (3, x), (2, turned)):
            gt.set_num_threads(threads)
            found.append(
                gt.ops.aten._grid_sampler_backward(grad, like, grid, *numbers, (True, True))
            )
        for made in found:
            assert all(gt.equal(a, b) for a, b in zip(made, found[0]))
        for a, b in zip(found[0], wanted):
            scale = max(1.0, float(b.abs().max()))
            near = 2e-5 if of is np.float32 else 1e-13
            assert a.shape == b.shape and float((a - b).abs().max()) <= near * scale
        alone = gt.ops.aten._grid_sampler_backward(grad, x, grid, *numbers, (False, True))
        assert alone[0] is None and gt.equal(alone[1], found[0][1])


def test_gradients_of_what_has_any_strides() -> None:
    """A sum's gradient has strides of 0, and a NaN outside of the image reaches nothing."""
    x, grid = gt.randn(2, 5, 6, 7, requires_grad=True), gt.rand(2, 3, 4, 2, requires_grad=True)
    F = gt.nn.functional
    F.grid_sample(x, grid, align_corners=True).sum().backward()
    found, wanted = [x.grad, grid.grad], gt.autograd.grad(
        F.grid_sample(x, grid, align_corners=True).sum(), (x, grid), create_graph=True
    )  # fmt: skip
    for a, b in zip(found, wanted):
        assert a is not None and gt.allclose(a, b, rtol=1e-4, atol=1e-5)
    far = gt.full((1, 2, 2, 2), 5.0, requires_grad=True)
    image = gt.randn(1, 1, 3, 3, requires_grad=True)
    F.grid_sample(image, far, align_corners=True).backward(gt.full((1, 1, 2, 2), np.nan))
    assert image.grad is not None and not image.grad.any()


def test_what_does_not_fit_is_refused() -> None:
    x, grid = gt.ones(1, 2, 3, 3), gt.ones(1, 2, 2, 2)
    backward = gt.ops.aten._grid_sampler_backward
    with pytest.raises(errors.ShapeError, match="'grad_output' must have sizes"):
        backward(gt.ones(1, 2, 2, 1), x, grid, 0, 0, True, (True, True))
    with pytest.raises(errors.ShapeError, match="'input' must have 4 or 5 dimensions"):
        backward(x, x[0], grid, 0, 0, True, (True, True))
    with pytest.raises(errors.ArgumentError, match="'padding_mode' must be"):
        backward(gt.ones(1, 2, 2, 2), x, grid, 0, 3, True, (True, True))
