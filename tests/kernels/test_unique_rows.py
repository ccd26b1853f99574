"""Distinct rows: the order of rows with equal first elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt

_random = np.random.default_rng(0)
_HIGH = 1 << 63


def _rows(kind: str) -> np.ndarray:
    if kind == "few values":
        return _random.integers(0, 3, (300, 9))
    if kind == "equal rows":
        return np.repeat(_random.standard_normal((20, 33)), 7, 0)[_random.permutation(140)]
    if kind == "last column":
        return np.concatenate((np.ones((50, 40)), _random.integers(0, 9, (50, 1))), 1)
    if kind == "large integers":
        return _random.integers(0, 3, (60, 5)).astype(np.uint64) + np.uint64(_HIGH - 1)
    return np.ones((4, 1))


@pytest.mark.parametrize(
    "kind", ["few values", "equal rows", "last column", "large integers", "one column"]
)
def test_distinct_rows_are_numpys(kind: str) -> None:
    x = _rows(kind)
    wanted = np.unique(x, axis=0, return_inverse=True, return_counts=True)
    found: Any = gt.unique(gt.from_numpy(x), dim=0, return_inverse=True, return_counts=True)
    for a, b in zip(found, wanted):
        assert np.array_equal(a.numpy(), b.reshape(a.shape))


def test_rows_with_nan_are_distinct_and_ordered_by_their_other_elements() -> None:
    nan = float("nan")
    x = gt.tensor([[nan, 2.0, 1.0], [nan, 1.0, 5.0], [0.0, nan, 1.0], [-0.0, nan, 0.0]])
    rows, inverse, counts = gt.unique(x, dim=0, return_inverse=True, return_counts=True)
    assert inverse.tolist() == [3, 2, 1, 0] and counts.tolist() == [1] * 4
    assert rows[:, 2].tolist() == [0.0, 1.0, 5.0, 1.0]
