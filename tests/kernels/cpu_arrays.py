"""Shared arrays of tests of CPU kernels, and their comparison."""

from __future__ import annotations

import numpy as np

from gputensor.core.dtype import (
    ALL, COMPLEX, FLOATING, INTEGER, bfloat16, bool_, dtype, float16,
)  # fmt: skip

INTEGERS = tuple(d for d in ALL if d.category == INTEGER)
FLOATS = tuple(d for d in ALL if d.category == FLOATING)
COMPLEXES = tuple(d for d in ALL if d.category == COMPLEX)
HALVES = (float16, bfloat16)

_REALS = [
    0.0, -0.0, 0.5, -0.5, 1.0, -1.5, 2.75, 127.9, 128.0, -128.9, 255.5, 256.0, 300.0, -1.0, 32768.0,
    65504.0, 65536.0, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, 2.0**63 + 2.0**40, -(2.0**63), 2.0**64,
    -(2.0**64), 1e30, -1e30, 1e-8, 1.0 + 2.0**-11 + 2.0**-40, float("inf"), float("-inf"),
    float("nan"),
]  # fmt: skip


def awkward(of: dtype) -> np.ndarray:
    """Values at and beyond the limits of the other dtypes, as far as `of` can represent them."""
    if of is bool_:
        return np.array([False, True, True, False])
    if of.category == INTEGER:
        info = np.iinfo(of.np)
        whole = [0, 1, 2, 7, 100, 127, 128, 255, 256, 2049, 65535, 65536, 2**24 + 1, 2**53 + 1]
        edges = [info.min, info.min + 1, info.max, info.max - 1, -1, -7, -128, -129]
        return np.array([x for x in whole + edges if info.min <= x <= info.max], of.np)
    with np.errstate(all="ignore"):
        reals = np.array(_REALS).astype(np.float32 if of in HALVES else of.to_real.np)
        if of.category == FLOATING:
            return reals.astype(of.np)
        together = np.empty(reals.size + 2, of.np)
        together.real = [*reals, 0.0, 2.0]
        together.imag = [*(3.0 for _ in reals), 1.0, 0.0]
        return together


def small(of: dtype, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Small values: sums and products of a few stay in range and, in f64, exact."""
    random = np.random.default_rng(seed)
    low = -5 if of.is_signed else 0
    values = random.integers(low, 6, shape)
    if of.category == COMPLEX:
        return (values + 1j * random.integers(-5, 6, shape)).astype(of.np)
    return values.astype(np.float32).astype(of.np) if of in HALVES else values.astype(of.np)


def wide(array: np.ndarray) -> np.ndarray:
    """Return the values in f64, complex128 or Python's integers, for the computation of
    references."""
    if array.dtype.kind in "biu":
        return array.astype(object)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    """Raise unless dtypes, shapes and values agree; NaN equals NaN and 0 differs from -0."""
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
        return
    kind = np.complex128 if found.dtype.kind == "c" else np.float64
    x, y = found.astype(kind), expected.astype(kind)
    np.testing.assert_array_equal(x, y)
    for a, b in ((x.real, y.real), (x.imag, y.imag)):
        number = ~np.isnan(a)
        np.testing.assert_array_equal(np.signbit(a[number]), np.signbit(b[number]))
