"""Note [Numeric casts] for every pair of dtypes, against rules written with Python's own
numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gputensor.core.dtype import (
    ALL, COMPLEX, INTEGER, bfloat16, bool_, dtype, float16, float32, float64,
    int64, uint64,
)  # fmt: skip
from gputensor.kernels.cpu import cast, copy, quiet

from ..cpu_arrays import awkward, same_bits


def by_the_rules(value: complex | int | bool, src: dtype, dst: dtype):
    """Cast one element to a NumPy scalar of dst; `value` is exact in Python."""
    if dst is bool_:
        return np.bool_(value != 0)
    if dst.category == COMPLEX:
        part = dst.to_real
        return dst.np.type(
            complex(floating(value.real, src, part), floating(value.imag, src, part))
        )
    value = value.real
    return integer(value, dst) if dst.category == INTEGER else floating(value, src, dst)


def integer(value: float | int, dst: dtype):
    if isinstance(value, float):
        if math.isnan(value):
            value = 0
        elif dst is uint64 and 2.0**63 <= value < 2.0**64:
            value = int(value)
        else:
            value = (
                int(min(max(value, -(2.0**63)), 2.0**63))
                if math.isfinite(value)
                else (2**63 if value > 0 else -(2**63))
            )
            value = min(value, 2**63 - 1)
    bits = 8 * dst.itemsize
    low = int(value) & (2**bits - 1)
    return dst.np.type(low - 2**bits if dst.is_signed and low >= 2 ** (bits - 1) else low)


def floating(value: float | int, src: dtype, dst: dtype):
    with np.errstate(all="ignore"):
        if dst is bfloat16 or (dst is float16 and isinstance(value, int)):
            return float32_of(value).astype(dst.np)
        if dst is float32:
            return float32_of(value)
        return dst.np.type(value)


def float32_of(value: float | int):
    # convert an int directly, because through f64 it would be rounded twice
    return (
        np.array(value, np.int64 if value < 2**63 else np.uint64).astype(np.float32)[()]
        if (isinstance(value, int))
        else np.float32(value)
    )


def python_values(array: np.ndarray) -> list:
    if array.dtype.kind in "biufc":
        return array.tolist()
    return array.astype(np.float64).tolist()


@pytest.mark.parametrize("src", ALL, ids=lambda d: d.short)
def test_every_pair(src):
    given = awkward(src)
    for dst in ALL:
        expected = np.array([by_the_rules(v, src, dst) for v in python_values(given)], dst.np)
        same_bits(quiet.run(cast.convert, given, dst.np), expected)
        into = np.zeros((2, given.size), dst.np)
        with np.errstate(all="raise"):
            copy.copy(into.T, given[:, None])  # broadcast, transposed, and without warnings
        same_bits(into[0], expected)
        same_bits(into[1], expected)


def test_dtypes_are_not_empty():
    assert len(ALL) == 15


@pytest.mark.parametrize("dst", ALL, ids=lambda d: d.short)
def test_numbers_follow_the_rules_for_arrays(dst):
    for value in (True, 0, 7, -1, 300, 2**40 + 3, -(2**63), 2.75, -1.5, 1e30, -1e30, 2.0**63,
                  float("nan"), float("inf"), 1 + 2.0**-11 + 2.0**-40):  # fmt: skip
        found = quiet.run(cast.number, value, dst.np)
        expected = by_the_rules(value, int64 if isinstance(value, int) else float64, dst)
        same_bits(np.asarray(found), np.asarray(expected, dst.np))
    if dst.category != COMPLEX and dst is not bool_:
        assert quiet.run(cast.number, 3 + 4j, dst.np) == 3
    if dst.category == COMPLEX:
        assert cast.number(3 + 4j, dst.np) == 3 + 4j


def test_an_array_of_the_right_dtype_is_itself():
    given = np.arange(3)
    assert cast.convert(given, int64.np) is given


def test_f16_by_its_bits_is_numpys_cast():
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    for x in (every, every[::-1], every.reshape(256, 256).T, every[np.isfinite(every)], every[:9]):
        found, expected = cast.widened(x), x.astype(np.float32)
        assert found.dtype == np.float32
        assert (found.view(np.uint32) == expected.view(np.uint32)).all()
