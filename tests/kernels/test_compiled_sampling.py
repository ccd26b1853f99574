"""The compiled loops of grid_sample against a composition of NumPy functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu.quiet import run
from gputensor.native import sampling
from gputensor.native.sampling import How, _compute
from gputensor.runtime.libraries import HOST

from .layouts import LAYOUTS

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

# Sizes of x, and of the grid without its last dimension.
CASES = [((2, 3, 5, 7), (4, 6)), ((1, 70, 9, 8), (20, 15)), ((2, 1, 1, 1), (3, 3)),
         ((3, 5, 30, 20), (1, 700)), ((1, 2, 4, 3), (0, 2))]  # fmt: skip
_random = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = gt.get_num_threads()
    yield
    gt.set_num_threads(before)


def _operands(of: Any, sizes: tuple[int, ...], places: tuple[int, int]) -> tuple[Any, Any]:
    x = _random.standard_normal(sizes).astype(of)
    x[0, 0, 0, 0] = np.inf
    grid = (_random.random((sizes[0], *places, 2)) * 3 - 1.5).astype(of)
    flat = grid.reshape(-1)
    special = [-1, 1, 0, np.nan, np.inf, -np.inf, 1e30, -1e30, 5.25, -7.5]
    flat[: len(special)] = special[: flat.size]
    return x, grid


@pytest.mark.parametrize("of", [np.float32, np.float64])
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("align", [False, True])
def test_grid_sample(
    of: Any, mode: int, padding: int, align: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = sampling._grid_sample
    assert stub.is_compiled(loop)
    for sizes, places in CASES:
        x, grid = _operands(of, sizes, places)
        if not grid.size:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(sampling, "_grid_sample", lambda *given: False)
            expected = run(_compute, HOST, x, grid, How(sizes[2:], mode, padding, align))
        for layout in LAYOUTS:
            for threads in (1, 3):
                gt.set_num_threads(threads)
                out = np.full(expected.shape, 7, of)
                assert loop(layout(x), layout(grid), out, mode, padding, align)
                np.testing.assert_array_equal(out, expected)
        pixels = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        assert loop(pixels, grid, out, mode, padding, align)
        np.testing.assert_array_equal(out, expected)
