"""Special functions: the rounding errors of compiled ones, and calls that could be endless."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels.compiled import library
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


# The range of arguments, and the greatest difference from SciPy's f64 results in ulps of f64.
COMPILED = {
    "erfinv": (-1, 1, 8), "i0": (-80, 80, 16), "i0e": (-80, 80, 16), "i1": (-80, 80, 32),
    "i1e": (-80, 80, 32), "logit": (0, 1, 4), "ndtr": (-5, 5, 64),
}  # fmt: skip


@pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)
@pytest.mark.parametrize("name", [*COMPILED, "lgamma"])
def test_results_are_those_of_scipy_in_f64(name: str) -> None:
    scipy = pytest.importorskip("scipy.special")
    low, high, most = COMPILED.get(name, (0, 300, 64))
    random = np.random.default_rng(0)
    ends = [low, high, 0.5, 1, 2, math.nan, math.inf, 1e-30]
    for dtype in (np.float64, np.float32, np.float16):
        if name == "lgamma" and dtype is not np.float64:
            low = -15  # SciPy's f64 results are not accurate to some ulps there
        inside = random.uniform(low, high, 3000)
        x = np.concatenate([inside, inside * 1e-3, ends]).astype(dtype)
        exact = getattr(scipy, "gammaln" if name == "lgamma" else name)(x.astype(np.float64))
        if name == "lgamma":
            # relative errors of SciPy's function are large near its zeros
            x, exact = x[np.abs(exact) > 1e-3], exact[np.abs(exact) > 1e-3]
        made = getattr(gt.special, "gammaln" if name == "lgamma" else name)(gt.from_numpy(x))
        found = made.numpy()
        limit = most if dtype is np.float64 else 2 if name == "logit" else 1
        with np.errstate(over="ignore", invalid="ignore"):
            wanted = exact.astype(dtype)
            is_near = np.abs(found - wanted) <= limit * np.spacing(np.abs(wanted))
        is_right = is_near | (found == wanted) | np.isnan(found) & np.isnan(wanted)
        assert is_right.all(), x[~is_right]


def test_zeros_and_ends_are_exact() -> None:
    for dtype in (gt.float32, gt.float64):
        x = gt.tensor([0.0, 1.0, 2.0], dtype=dtype)
        assert gt.lgamma(x).tolist() == [math.inf, 0, 0] and gt.i0(x)[0] == 1
        assert gt.special.i0e(x)[0] == 1 and gt.special.i1(x)[0] == 0
        assert gt.erfinv(x)[:2].tolist() == [0, math.inf] and gt.erfinv(x).isnan()[2]
        assert gt.logit(gt.tensor([0.0, -0.0, 0.5, 1.0], dtype=dtype)).tolist() == [
            -math.inf, -math.inf, 0, math.inf,
        ]  # fmt: skip
    assert gt.logit(gt.tensor([5e-324], dtype=gt.float64)).item() == pytest.approx(-744.4400719)


def test_igammac_of_small_numbers() -> None:
    # exact values, from mpmath
    wanted = [
        (1e-9, 0.3, 9.056766518378571e-10), (0.01, 1e-5, 0.1036632017328028),
        (0.3, 0.9, 0.09774735197033045), (0.5, 1.1, 0.13801073756865953),
        (0.75, 0.5, 0.4720628901653282), (1.2, 1.05, 0.43341054854396033),
    ]  # fmt: skip
    a, x, exact = gt.tensor(wanted, dtype=gt.float64).unbind(1)
    made = gt.special.gammaincc(a, x)
    assert gt.allclose(made, exact, rtol=5e-15, atol=0)
    assert gt.allclose(gt.special.gammaincc(a.float(), x.float()).double(), exact, rtol=1e-5)


def test_mvlgamma_of_a_dimension_that_no_memory_holds() -> None:
    with pytest.raises(gt.cuda.OutOfMemoryError, match="cannot allocate"):
        gt.mvlgamma(gt.ones(2), 2**60)
