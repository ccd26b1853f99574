"""The compiled polynomials against NumPy's loops, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gputensor.core.dtype import bfloat16, float16, float32, float64
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import special
from gputensor.kernels.cpu.quiet import run

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

POLYNOMIALS = [op for op in special.LOOPS if "_polynomial_" in op]
_random = np.random.default_rng(0)


def test_there_are_polynomials() -> None:
    assert len(POLYNOMIALS) == 12


@pytest.mark.parametrize("of", [float16, bfloat16, float32, float64], ids=lambda d: d.short)
@pytest.mark.parametrize("op", POLYNOMIALS)
def test_bits_are_numpys(op: str, of: Any) -> None:
    edges = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-30, 3e4]
    degrees = [0, 1, 2, 3, -1, -0.5, 4.7, np.nan, np.inf]
    with np.errstate(over="ignore"):
        x = np.array([*_random.standard_normal(300), *edges]).astype(of.np)
        n = np.array([*_random.integers(0, 40, 300), *degrees]).astype(of.np)
    found = stub.cpu_loop("special", op, (of, of), of, of)
    assert stub.is_compiled(found)
    wanted = special.bind(op, (of, of), of, of)
    many = np.full(2, 2.0**21 if of in (float32, float64) else 600, of.np)
    pairs = [(x, n), (x[:, None], n[:7]), (x, n[5:6]), (x[::3], n[::3]), (x[:2], many)]
    with np.errstate(all="ignore"):
        for a, b in pairs:
            made, expected = run(found, a, b, None), run(wanted, a, b, None)
            is_number = ~np.isnan(expected.astype(np.float64))
            assert made.dtype == expected.dtype and made.shape == expected.shape
            assert (np.isnan(made.astype(np.float64)) == ~is_number).all()
            assert made[is_number].tobytes() == expected[is_number].tobytes()
