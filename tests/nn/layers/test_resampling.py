"""Decisions of gt.nn.functional about resampling before an operator is called."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors

F = gt.nn.functional


def test_a_factor_and_the_size_it_gives_differ_unless_recomputed() -> None:
    x = gt.arange(5.0).view(1, 1, 5)
    kept = F.interpolate(x, scale_factor=1.7, mode="linear")
    by_size = F.interpolate(x, size=8, mode="linear")
    assert kept.shape == by_size.shape and not gt.equal(kept, by_size)
    again = F.interpolate(x, scale_factor=1.7, mode="linear", recompute_scale_factor=True)
    assert gt.equal(again, by_size)


def test_area_is_the_mean_of_as_many_windows() -> None:
    x = gt.arange(36.0).view(1, 1, 6, 6)
    made = F.interpolate(x, scale_factor=0.5, mode="area")
    assert gt.equal(made, F.adaptive_avg_pool2d(x, 3))


def test_channels_last_stays() -> None:
    x = gt.ones(2, 3, 4, 4).to(memory_format=gt.channels_last)
    assert F.interpolate(x, size=7, mode="bilinear").is_contiguous(memory_format=gt.channels_last)


@pytest.mark.parametrize(
    ("sizes", "options", "sentence"),
    [
        ((1, 1, 3), {}, "interpolate: 'size' must be given, or scale_factor instead"),
        ((1, 1, 3), {"size": 3, "scale_factor": 2}, "instead, and not both"),
        ((1, 1, 3), {"size": (3, 3)}, "interpolate: 'size' must be a number or 1 of them"),
        ((1, 1, 3), {"size": 3, "mode": "bilinear"}, "'input' must have 4 dimensions for mode"),
        ((1, 1, 3), {"size": 3, "mode": "cubic"}, "interpolate: 'mode' must be one of nearest"),
        ((1, 1, 3), {"size": 3, "align_corners": True}, "'align_corners' must be left out"),
        ((1, 1, 3), {"size": 3, "antialias": True}, "interpolate: 'antialias' must go with mode"),
        ((1, 1, 3, 3), {"size": 3, "mode": "lanczos"}, "interpolate: 'antialias' must go with"),
        ((1, 1, 3), {"size": 3, "recompute_scale_factor": True}, "must be left out with a size"),
        ((1, 3), {"size": 3}, "interpolate: 'input' must have 3, 4 or 5 dimensions"),
    ],
)
def test_refusals(sizes: Any, options: Any, sentence: str) -> None:
    with pytest.raises((errors.ArgumentValueError, errors.ShapeError), match=sentence):
        F.interpolate(gt.ones(sizes), **options)


def test_a_grid_of_the_identity_gives_the_image_back() -> None:
    x = gt.arange(24.0).view(1, 2, 3, 4)
    grid = F.affine_grid(gt.eye(2, 3).view(1, 2, 3), x.shape)
    assert gt.allclose(F.grid_sample(x, grid), x)


def test_places_that_are_no_numbers_lie_outside() -> None:
    x, nan, inf = gt.ones(1, 1, 3, 3), float("nan"), float("inf")
    grid = gt.tensor([[nan, 0.0], [0.0, inf], [-inf, nan], [1e30, 0.0]]).view(1, 1, 4, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        assert F.grid_sample(x, grid, mode).tolist() == [[[[0.0] * 4]]]
        for padding in ("border", "reflection"):
            F.grid_sample(x, grid, mode, padding)  # and no index is outside


@pytest.mark.parametrize("options", [{"mode": "cubic"}, {"padding_mode": "edge"}])
def test_words_of_grid_sample(options: Any) -> None:
    with pytest.raises(errors.ArgumentValueError, match="must be one of"):
        F.grid_sample(gt.ones(1, 1, 3, 3), gt.zeros(1, 1, 1, 2), **options)


def test_unpooling_takes_back_what_pooling_took() -> None:
    x = gt.tensor([[[3.0, 1.0, 2.0, 5.0, 4.0, 0.0]]])
    kept, at = F.max_pool1d(x, 2, return_indices=True)
    assert F.max_unpool1d(kept, at, 2).tolist() == [[[3.0, 0.0, 0.0, 5.0, 4.0, 0.0]]]
    assert F.max_unpool1d(kept, at, 2, output_size=(7,)).shape == (1, 1, 7)
    with pytest.raises(errors.ArgumentValueError, match="must be 1 sizes that differ from"):
        F.max_unpool1d(kept, at, 2, output_size=(9,))
    with pytest.raises(errors.IndexRangeError):
        F.max_unpool1d(kept, at + 100, 2)


def test_fractional_pooling_draws_where_its_windows_are() -> None:
    x = gt.arange(64.0).view(1, 8, 8)
    gt.manual_seed(0)
    pooled = [F.fractional_max_pool2d(x, 2, output_ratio=0.7) for _ in range(8)]
    assert {tuple(made.shape) for made in pooled} == {(1, 5, 5)}
    assert any(not gt.equal(pooled[0], other) for other in pooled[1:])
    for options in ({}, {"output_size": 2, "output_ratio": 0.5}):
        with pytest.raises(errors.ArgumentValueError, match="'output_size' must be given, or"):
            F.fractional_max_pool2d(x, 2, **options)
    with pytest.raises(errors.ArgumentValueError, match="'output_ratio' must be between"):
        F.fractional_max_pool2d(x, 2, output_ratio=1.5)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_places_of_the_largest_under_pytorchs_names(count: int) -> None:
    x = gt.arange(float(6**count)).view(1, *(6,) * count)
    values, places = getattr(F, f"adaptive_max_pool{count}d_with_indices")(x, 2)
    assert gt.equal(x.flatten()[places.flatten()], values.flatten())
    if count > 1:
        pool = getattr(F, f"fractional_max_pool{count}d_with_indices")
        values, places = pool(x, 2, output_size=3)
        assert gt.equal(x.flatten()[places.flatten()], values.flatten())
