"""Special functions return for degrees and dimensions that could make their loops endless."""

from __future__ import annotations

import math

import pytest

import gputensor as gt
from gputensor.kernels.cpu.special import LOOPS

POLYNOMIALS = sorted(name for name in LOOPS if "polynomial" in name)
BEYOND = 2**20 + 1


def test_all_polynomials_are_known() -> None:
    assert len(POLYNOMIALS) == 12


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_of_any_degree_end(name: str, device: str) -> None:
    if device != "cpu" and not gt.cuda.is_available():
        pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
    polynomial = getattr(gt.special, name)
    degrees = [0, -1, math.inf, -math.inf, math.nan, BEYOND, 2.0**62, 1e300]
    n = gt.tensor(degrees, dtype=gt.float64, device=device)
    x = gt.full((len(degrees),), 0.25, dtype=gt.float64, device=device)
    found = polynomial(x, n).tolist()
    assert found[:5] == [1, 0, 0, 0, 0] and all(map(math.isnan, found[5:]))
    assert all(map(math.isnan, polynomial(x, BEYOND).tolist()))
    assert math.isfinite(polynomial(x, 3).tolist()[0])


def test_mvlgamma_of_a_dimension_that_no_memory_holds() -> None:
    with pytest.raises(gt.cuda.OutOfMemoryError, match="cannot allocate"):
        gt.mvlgamma(gt.ones(2), 2**60)
