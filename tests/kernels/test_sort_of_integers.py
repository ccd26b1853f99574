"""Sorting 64-bit integers, which are packed with their indices into one number if both fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt

_random = np.random.default_rng(0)
SHAPES = [((1000,), 0), ((5, 300), 1), ((300, 5), 0), ((2,), 0), ((1,), 0)]


def _ranges(of: Any) -> list[tuple[int, int]]:
    info = np.iinfo(of)
    ends = [(info.min, info.min + 9), (info.max - 9, info.max), (info.min // 3, info.max // 3)]
    return [(0, 50), (max(info.min, -30), 30), *ends, (info.min, info.max)]


@pytest.mark.parametrize("of", [np.int64, np.uint64])
@pytest.mark.parametrize("shape,dim", SHAPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_order(of: Any, shape: tuple[int, ...], dim: int, order: Any) -> None:
    for low, high in _ranges(of):
        x = np.array(_random.integers(low, high, shape, of, endpoint=True), order=order)
        for descending in (False, True):
            key = (
                np.iinfo(of).max - x if descending and of == np.uint64 else ~x if descending else x
            )
            expected = np.argsort(key, axis=dim, kind="stable")
            values, places = gt.sort(gt.from_numpy(x), dim=dim, descending=descending, stable=True)
            np.testing.assert_array_equal(places.numpy(), expected)
            np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected, dim))


@pytest.mark.parametrize("of", [np.int64, np.uint64, np.float32, np.uint8])
def test_unique(of: Any) -> None:
    for low, high in _ranges(of) if np.dtype(of).itemsize == 8 else [(0, 50)]:
        x = _random.integers(low, high, 500, np.int64 if of == np.float32 else of).astype(of)
        values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
        found = gt.unique(gt.from_numpy(x), return_inverse=True, return_counts=True)
        counted = gt.unique(gt.from_numpy(x), return_counts=True)
        for one, other in zip((*found, *counted), (values, inverse, counts, values, counts)):
            np.testing.assert_array_equal(one.numpy(), other)
