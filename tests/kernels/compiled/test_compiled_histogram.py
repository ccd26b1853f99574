"""The compiled loops of family histogram count what NumPy counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import histogram

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

WHOLE = [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64]
_random = np.random.default_rng(0)


@pytest.mark.parametrize("of", WHOLE)
def test_counts_and_sums_are_numpys(of: Any) -> None:
    before = gt.get_num_threads()
    try:
        for n in (0, 1, 3, 1000, 100_001):
            x = _random.integers(0, 100, 2 * n).astype(of)[::2]
            weights = _random.standard_normal(2 * n)[::2]
            for count in (1, 2, 3):
                gt.set_num_threads(count)
                for bins in (100, 120):
                    found = stub.cpu("histogram").bincount(x, None, bins)
                    assert found.dtype == np.int64
                    assert (found == histogram.bincount(x, None, bins)).all()
                    found = stub.cpu("histogram").bincount(x, weights, bins)
                    assert (found == histogram.bincount(x, weights, bins)).all()
    finally:
        gt.set_num_threads(before)


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("of", [np.float32, np.float64])
def test_points_among_edges(of: Any, even: bool) -> None:
    before = gt.get_num_threads()
    try:
        for n, dims in ((0, 1), (5, 1), (40_000, 1), (3000, 2), (200, 3)):
            x = _random.integers(-30, 30, (n, dims)).astype(of) / 8
            x[_random.random((n, dims)) < 0.02] = np.nan
            edges = [np.linspace(-2, 3, 11 + d).astype(of) for d in range(dims)]
            if not even:
                edges = [np.sort(e + 0.1 * _random.random(e.size)).astype(of) for e in edges]
            inside = (~np.isnan(x)).all(1)
            weights = _random.standard_normal(n).astype(of)
            wanted = np.histogramdd(x[inside], edges)[0]
            summed = np.histogramdd(x[inside], edges, weights=weights[inside])[0]
            for count in (1, 2, 3):
                gt.set_num_threads(count)
                found = stub.cpu("histogram").points(x, None, even, edges)
                assert (found == wanted).all()
                found = stub.cpu("histogram").points(x, weights, even, edges)
                np.testing.assert_allclose(found, summed, 1e-9, 1e-9)
    finally:
        gt.set_num_threads(before)


@pytest.mark.parametrize("of", [gt.float32, gt.float64, gt.float16], ids=str)
def test_histc(of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = gt.get_num_threads()
    x = (gt.randn(3, 700, 80, dtype=gt.float64) * 3).to(of)
    x[0, :9, 0] = gt.tensor([np.inf, -np.inf, np.nan, -2.0, 2.0, -3.0, 2.5, 0.0, -0.0])
    calls = [
        (y, bins, ends)
        for y in (x, x.permute(2, 0, 1), x[:, ::2, 1:], x[0, :, 0])
        for bins in (1, 7, 100, 3000)
        for ends in ((-2.0, 2.0), (-2.0, 2.5))
    ]
    try:
        found = []
        for count in (1, 2, 3):
            gt.set_num_threads(count)
            found.append([y.histc(bins, *ends) for y, bins, ends in calls])
    finally:
        gt.set_num_threads(before)
    monkeypatch.setattr(stub.cpu("histogram"), "evenly", lambda *_: None)
    wanted = [y.histc(bins, *ends) for y, bins, ends in calls]
    for made in found:
        assert all(gt.equal(a, b) for a, b in zip(made, wanted))


def test_histc_of_a_range_whose_width_is_infinite() -> None:
    most = float(np.finfo(np.float32).max)
    assert int(gt.tensor([-most, 0.0, most]).histc(4).sum()) == 3
