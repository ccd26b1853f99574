"""The Python numbers that a dtype can hold, and the errors for other numbers.

A number that is stored (fill_, full, where, alpha, tensor) must fit its dtype. A number in
arithmetic or in a comparison wraps around in an integer dtype, but must have at most 64 bits.
Floating dtypes accept any integer within the range of a double. `kernels/cpu/cast.py` converts the
numbers.
Source: c10/util/TypeCast.h, checked_convert, and c10/util/TypeSafeSignMath.h.
"""

from __future__ import annotations

from functools import cache
from math import inf
from sys import float_info
from typing import Any

from . import errors
from .dtype import BOOL, COMPLEX, INTEGER, dtype

_LOWEST, _HIGHEST = -(1 << 63), (1 << 64) - 1
_LARGEST_FLOAT32 = (2 - 2.0**-23) * 2.0**127


@cache
def integer_range(of: dtype) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer dtype."""
    bits = 8 * of.itemsize
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if of.is_signed else (0, (1 << bits) - 1)


def fits(value: Any, of: dtype) -> bool:
    """True if this number may be stored in the dtype `of`.

    Conversion truncates fractions. Negative integers wrap around in unsigned types. Large numbers
    become infinity in f16 and bf16. A complex number counts as real if its imaginary part is 0.
    """
    if type(value) is complex:
        if of.category == BOOL:
            return True
        if of.category != COMPLEX:
            return value.imag == 0 and fits(value.real, of)
        return fits(value.real, of.to_real) and fits(value.imag, of.to_real)
    if of.category == BOOL:
        return type(value) is not int or _LOWEST <= value <= _HIGHEST
    if of.category == INTEGER:
        low, high = integer_range(of)
        if not of.is_signed and type(value) is int:
            low = max(-high, _LOWEST)
        is_within: bool = low <= value <= high
        return is_within
    if value != value or value in (inf, -inf):
        return True
    is_close: bool = abs(value) <= largest_float(of)
    return is_close


def largest_float(of: dtype) -> float:
    """Return the largest finite number that `fits` accepts for a floating or complex dtype."""
    return _LARGEST_FLOAT32 if of.to_real.short == "f32" else float_info.max


def check(op: str, arg: str, value: complex, of: dtype) -> None:
    """Check that the number fits the dtype. Raises: NumberRangeError, which is a RuntimeError and
    an OverflowError, if it does not."""
    if not fits(value, of):
        raise errors.number_out_of_range(op, of, value, arg)


def in_64_bits(op: str, arg: str, value: complex) -> complex:
    """Return the number if it has at most 64 bits. Raises: NumberRangeError for wider integers."""
    if type(value) is int and not _LOWEST <= value <= _HIGHEST:
        raise errors.number_too_wide(op, arg, value)
    return value


def signed_word(number: int) -> int:
    """Return the low 64 bits of an integer as an int64."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
