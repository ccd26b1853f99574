"""Type promotion: the common dtype of operands of different dtypes.

This module only holds the rules. It converts no values, and the default dtype is an argument.
Operands are (geometry, device) pairs for tensors and Python types for numbers. Source: PyTorch's
c10/core/ScalarType.cpp (promoteTypes) and ATen/native/TypeProperties.cpp (result_type).
tests/golden/promotion.txt holds the table.
"""

from __future__ import annotations

from typing import Any

from . import errors
from .arguments import element_type
from .dtype import (
    BOOL, COMPLEX, FLOATING, HELD, INTEGER, bool_, dtype, float32, int8, int16, int32,
    int64, uint8, uint16, uint32, uint64,
)  # fmt: skip

# PyTorch promotes these unsigned types only with floating types and with themselves. Here they
# promote as in the array API standard: to the smallest type that can represent the values of both
# types. uint64 and a signed type have no such type.
_BAREBONES = (uint16, uint32, uint64)
_BY_ITEMSIZE = {1: int8, 2: int16, 4: int32, 8: int64}


def _integers(a: dtype, b: dtype) -> dtype:
    """Return the smallest type that can represent the values of both types. Each type is uint8 or a
    signed integer type."""
    if a is uint8 or b is uint8:
        # uint8 and int8 need int16; wider signed types can represent uint8.
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    return _BY_ITEMSIZE[max(a.itemsize, b.itemsize)]


def _beside_unsigned(a: dtype, b: dtype) -> dtype | None:
    if a.is_signed == b.is_signed:
        return a if a.itemsize > b.itemsize else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    return _BY_ITEMSIZE.get(max(signed.itemsize, 2 * unsigned.itemsize))


def _floats(a: dtype, b: dtype) -> dtype:
    if a.itemsize == b.itemsize:
        return float32  # neither float16 nor bfloat16 can represent the other
    return a if a.itemsize > b.itemsize else b


def _promote(a: dtype, b: dtype) -> dtype | None:
    if a is b:
        return a
    if a.is_float8 or b.is_float8:
        return None
    low, high = (a, b) if a.category <= b.category else (b, a)
    if low in _BAREBONES or high in _BAREBONES:
        return high if low.category != high.category else _beside_unsigned(low, high)
    if high.category == COMPLEX and low.category >= FLOATING:
        low = low.to_complex
        return low if low.itemsize > high.itemsize else high
    if low.category < high.category:
        return high
    return _integers(a, b) if high.category == INTEGER else _floats(a, b)


# _TABLE[a.code][b.code]; None if no promotion is defined.
_TABLE = tuple([tuple([_promote(a, b) for b in HELD]) for a in HELD])

# The promoted dtypes of a Python bool and int. The promoted dtype of a float or complex is the
# default dtype.
_NUMBER = {bool: bool_, int: int64}


def promote_types(a: dtype, b: dtype, op: str = "promote_types") -> dtype:
    """Return the smallest dtype to which both dtypes may be cast.

    Raises: DtypeError for uint64 with a signed integer, and for float8 with any other dtype.
    """
    try:
        promoted = _TABLE[a.code][b.code]
    except AttributeError:  # an argument may be the name of a dtype; others raise
        first, second = [errors.plainly(element_type, op, x) for x in (a, b)]
        return promote_types(first, second, op)
    if promoted is None:
        raise errors.no_promotion(op, a, b)
    return promoted


def can_cast(from_: dtype, to: dtype) -> bool:
    """True unless the cast goes to a lower category: complex to real, floating to integer, or
    another type to bool."""
    try:
        return from_.category <= to.category
    except AttributeError:
        first = errors.plainly(element_type, "can_cast", from_, "from_")
        return can_cast(first, errors.plainly(element_type, "can_cast", to, "to"))


def number_dtype(kind: type, default_dtype: dtype) -> dtype:
    """Return the dtype that a Python number of type `kind` has in promotion."""
    fixed = _NUMBER.get(kind)
    if fixed is not None:
        return fixed
    return default_dtype if kind is float else default_dtype.to_complex


# If True, 0-d tensors promote like tensors with dimensions, as in the array API standard.
# dispatch/defaults.py sets this variable and drops the plans made under the previous rule.
_zero_dim_counts = False


def count_zero_dim(as_others: bool) -> None:
    global _zero_dim_counts
    _zero_dim_counts = as_others


def result_type(op: str, operands: tuple[Any, ...], default_dtype: dtype) -> dtype:
    """Return the promoted dtype of `operands`.

    Tensors with dimensions take precedence over 0-d tensors, and 0-d tensors over numbers.
    operands: (geometry, device) for a tensor, bool | int | float | complex for a Python number.
    """
    dimensioned = zero_dim = wrapped = None
    for x in operands:
        if type(x) is tuple:
            geometry = x[0]
            d = geometry.dtype
            if geometry.ndim or _zero_dim_counts:
                dimensioned = d if dimensioned is None else promote_types(dimensioned, d, op)
            else:
                zero_dim = d if zero_dim is None else promote_types(zero_dim, d, op)
        else:
            d = number_dtype(x, default_dtype)
            wrapped = d if wrapped is None else promote_types(wrapped, d, op)
    result = _combine(op, dimensioned, _combine(op, zero_dim, wrapped))
    if result is None:
        raise errors.no_operands(op)
    return result


def _combine(op: str, high: dtype | None, low: dtype | None) -> dtype | None:
    """Combine the dtypes of two precedence classes (tensors with dimensions, 0-d tensors, numbers).

    The class of lower precedence can raise the category of the result, but never the width within a
    category.
    """
    if low is None or high is None:
        return high or low
    if high.category == COMPLEX:
        return high
    if high.category == FLOATING:
        return high.to_complex if low.category == COMPLEX else high
    if low.category >= FLOATING:
        return low
    return promote_types(high, low, op) if high.category == BOOL else high
