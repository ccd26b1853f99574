"""Images resized by the compiled loop have the bits of NumPy's functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor._generated import calls
from gputensor.kernels.compiled import library
from gputensor.native import upsample

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)
_random = np.random.default_rng(0)
OPS = (
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
)
SIZES = [((7, 9), (14, 18)), ((7, 9), (3, 20)), ((12, 5), (5, 5)), ((1, 6), (4, 1))]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("of", [np.float32, np.float64])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize(("given", "wanted"), SIZES, ids=str)
def test_the_same_bits(
    op: str, of: Any, align: bool, given: Any, wanted: Any, monkeypatch: Any
) -> None:
    x = _random.standard_normal((2, 3, *given)).astype(of)
    x[0, 0, 0, 0] = np.inf
    grad = gt.tensor(_random.standard_normal((2, 3, *wanted)).astype(of))
    served: list[bool] = []
    loop = upsample._line

    def noted(*args: Any) -> bool:
        served.append(loop(*args))
        return served[-1]

    for form in (gt.contiguous_format, gt.channels_last):
        image, back = (
            gt.tensor(x).contiguous(memory_format=form),
            grad.contiguous(memory_format=form),
        )
        found = []
        for line in (noted, lambda *args: False):
            monkeypatch.setattr(upsample, "_line", line)
            found.append((
                getattr(calls, op)(image, wanted, align, None, None),
                getattr(calls, f"{op}_backward")(back, wanted, (2, 3, *given), align, None, None),
            ))  # fmt: skip
        for made, plain in zip(*found):
            assert made.stride() == plain.stride()
            np.testing.assert_array_equal(made.numpy(), plain.numpy())
    assert served and all(served)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest", "nearest-exact"])
def test_many_planes_are_resized_like_each_one(mode: str) -> None:
    """Planes are processed some at a time, so that intermediate results stay in the cache."""
    interpolate = gt.nn.functional.interpolate
    for of in (gt.float32, gt.float64):
        for given, wanted in (
            ((200, 190), (300, 450)),
            ((300, 310), (90, 70)),
            ((64, 64), (64, 130)),
        ):
            x = gt.randn(3, 5, *given).to(of)
            leaf = x.clone().requires_grad_()
            made = interpolate(leaf, wanted, mode=mode)
            weights = gt.randn(*made.shape).to(of)
            (made * weights).sum().backward()
            for n, c in ((0, 0), (1, 3), (2, 4)):
                one = x[n : n + 1, c : c + 1].clone().requires_grad_()
                alone = interpolate(one, wanted, mode=mode)
                (alone * weights[n, c]).sum().backward()
                assert gt.equal(alone[0, 0], made[n, c]) and gt.equal(
                    one.grad[0, 0], leaf.grad[n, c]
                )
