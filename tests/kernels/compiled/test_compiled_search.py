"""The compiled loops of family search against a binary search with PyTorch's comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels import stub
from gputensor.kernels.compiled import library

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

DTYPES = [
    gt.uint8, gt.int8, gt.uint16, gt.int16, gt.uint32, gt.int32, gt.uint64, gt.int64, gt.float16,
    gt.float32, gt.float64,
]  # fmt: skip
_random = np.random.default_rng(0)


def _values(sizes: Any, of: Any, has_nan: bool = False) -> np.ndarray:
    if of.category < gt.float32.category:
        return _random.integers(0, 100, sizes).astype(of.np)
    made = _random.integers(-50, 50, sizes) * 0.5
    made = np.where(_random.random(sizes) < 0.05, -0.0, made)
    return np.where(_random.random(sizes) < 0.1 * has_nan, np.nan, made).astype(of.np)


def _halved(row: np.ndarray, x: Any, right: bool) -> int:
    low, high = 0, len(row)
    while low < high:
        middle = (low + high) // 2
        if row[middle] > x if right else row[middle] >= x:
            high = middle
        else:
            low = middle + 1
    return low


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("of", DTYPES, ids=lambda d: d.short)
def test_places_are_those_of_halving(of: Any, right: bool) -> None:
    for n in (0, 1, 2, 3, 7, 64, 1000):
        for has_nan in (False, True):
            sequence, x = np.sort(_values((3, n), of, has_nan)), _values((3, 19), of, has_nan)
            for narrow in (False, True):
                found = stub.cpu("search").places(sequence, x, right, narrow)
                wanted = [[_halved(r, v, right) for v in vs] for r, vs in zip(sequence, x)]
                assert found.tolist() == wanted
                assert found.dtype == (np.int32 if narrow else np.int64)
            found = stub.cpu("search").places(sequence[0], x[::2, ::3], right, False)
            assert found.tolist() == [
                [_halved(sequence[0], v, right) for v in row] for row in x[::2, ::3]
            ]


def test_operators_on_any_number_of_threads() -> None:
    before, edges, x = gt.get_num_threads(), gt.randn(500).sort()[0], gt.randn(300, 100)
    wanted = np.searchsorted(edges.numpy(), x.numpy())
    try:
        for count in (1, 2, 3):
            gt.set_num_threads(count)
            assert (gt.bucketize(x, edges).numpy() == wanted).all()
            assert (gt.searchsorted(edges, x.t()).numpy() == wanted.T).all()
            found = gt.searchsorted(edges, x, out_int32=True)
            assert found.dtype is gt.int32 and (found.numpy() == wanted).all()
    finally:
        gt.set_num_threads(before)
