"""Infinities, NaN and signed zeros as parts of complex numbers: the CUDA functors give the CPU's
results, which come from C's library and follow annex G of C99."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import gputensor as gt

PARTS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 1e30, -1e30, math.inf, -math.inf, math.nan]
OPS = [
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "exp2", "expm1"),
    *("log", "log10", "log1p", "log2", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh"),
]


def _kinds(values: np.ndarray) -> list[str]:
    """Return for each number NaN, or its sign and whether it is zero, finite or infinite."""
    kinds = np.where(values == 0, "zero", np.where(np.isinf(values), "infinite", "finite"))
    signs = np.where(np.signbit(values), "-", "+")
    return [
        "nan" if math.isnan(value) else sign + kind
        for value, sign, kind in zip(values, signs, kinds, strict=True)
    ]


@pytest.mark.parametrize("dtype", [gt.complex64, gt.complex128], ids=str)
@pytest.mark.parametrize("op", OPS)
def test_a_functor_gives_the_kind_of_number_that_the_cpu_gives(op: str, dtype: gt.dtype) -> None:
    x = gt.tensor([complex(*parts) for parts in product(PARTS, PARTS)], dtype=dtype)
    call = getattr(gt, op)
    cpu, cuda = call(x).numpy(), call(x.to("cuda")).cpu().numpy()
    wrong = [
        f"{op}({z}) is {b}, on the CPU {a}"
        for z, a, b, *kinds in zip(
            x.tolist(), cpu, cuda, *(_kinds(y) for y in (cpu.real, cpu.imag, cuda.real, cuda.imag))
        )
        if kinds[:2] != kinds[2:]
    ]
    assert not wrong, "\n".join(wrong)
