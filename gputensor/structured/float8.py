"""Casts and copies of the float8 dtypes. They are composed of other operators, so that all devices
give the same results.

A float8 number has a sign, an exponent with a bias, and a fraction. If these bits are shifted to
float32's bit positions, they are the number times a power of two. So one multiplication decodes a
number, and rounding float32's bits encodes it. Source: c10/util/Float8_e4m3fn.h and similar
headers; https://arxiv.org/abs/2209.05433; and https://arxiv.org/abs/2206.02915 for the fnuz types,
which have no infinity and have NaN in place of negative zero. float8_e8m0fnu has only an exponent,
like the scales of the OCP Microscaling formats (c10/util/Float8_e8m0fnu.h).

Operators that only move elements, such as `cat` and indexing, move the bytes: see `moved`.
Operators that PyTorch computes in float8 are computed in float32 and rounded once: see `written`
and pointwise/wide.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._generated import calls
from ..core.dtype import (
    dtype, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu,
    float32, int32, uint8,
)  # fmt: skip
from ..core.geometry import geometry
from ..tensor.make import as_bytes, view_of
from ..tensor.tensor import Tensor


class _Format(NamedTuple):
    """An 8-bit format. fraction: the number of bits of the fraction. bias: the exponent's bias.
    largest: the code of the largest number. beyond: the code for numbers above the largest number.
    nan: the code of NaN. infinity: the code of infinity, or None."""

    fraction: int
    bias: int
    largest: int
    beyond: int
    nan: int
    infinity: int | None = None


_FORMATS = {
    # In float8_e4m3fn, numbers that are too large become the largest number, as in PyTorch since
    # 2.13.
    float8_e4m3fn: _Format(3, 7, 0x7E, 0x7E, 0x7F),
    float8_e5m2: _Format(2, 15, 0x7B, 0x7C, 0x7F, 0x7C),
    float8_e4m3fnuz: _Format(3, 8, 0x7F, 0x80, 0x80),
    float8_e5m2fnuz: _Format(2, 16, 0x7F, 0x80, 0x80),
}
_SIGN, _REST = 0x80, 0x7F


def decoded(x: Tensor) -> Tensor:
    """Return the numbers as float32, exactly."""
    code = calls.to_dtype(as_bytes(x), int32, False, False, None)
    if x._geometry.dtype is float8_e8m0fnu:
        return _power_of_two(code)
    form = _FORMATS[x._geometry.dtype]
    rest = code & _REST
    number = calls.view_dtype(rest << (23 - form.fraction), float32) * 2.0 ** (127 - form.bias)
    if form.infinity is not None:
        number = calls.where_self(rest == form.infinity, float("inf"), number)
        number = calls.where_self(rest > form.infinity, float("nan"), number)
    else:
        is_nan = (code if form.nan == _SIGN else rest) == form.nan
        number = calls.where_self(is_nan, float("nan"), number)
    return calls.where_self(code >= _SIGN, -number, number)


def encoded(x: Tensor, to: dtype) -> Tensor:
    """Round float32 numbers to a float8 dtype, ties to even, and return their codes as uint8."""
    if to is float8_e8m0fnu:
        return _exponent(x)
    form = _FORMATS[to]
    shift = 23 - form.fraction
    bits = calls.view_dtype(x, int32)
    size = calls.abs(x)
    whole = bits & 0x7FFFFFFF
    # To round, ties to even, add half of the last kept bit, minus 1, and add 1 more if the code is
    # odd. In the same sum, subtract the difference of the two exponent biases.
    odd = (whole >> shift) & 1
    code = (whole + (odd + ((1 << (shift - 1)) - 1)) - ((127 - form.bias) << 23)) >> shift
    # For numbers below the smallest normal number, the addition of `magic` rounds to the last bit
    # of the fraction.
    magic = 2.0 ** (24 - form.fraction - form.bias)
    sum_bits = calls.view_dtype(size + magic, int32)
    start = (127 + 24 - form.fraction - form.bias) << 23
    code = calls.where_self(size < 2.0 ** (1 - form.bias), sum_bits - start, code)
    code = calls.where_self(code > form.largest, form.beyond, code)
    code = calls.where_self(x != x, form.nan, code)
    is_signed = bits < 0
    if form.nan == _SIGN:  # The code of -0 is NaN in this format, so zero has no sign.
        is_signed = is_signed & (code != 0)
    code = calls.where_self(is_signed, code | _SIGN, code)
    return calls.to_dtype(code, uint8, False, False, None)


# --- powers of two --------------------------------------------------------------------------------

_POINT = 23  # float32's exponent begins at this bit.
_NO_NUMBER = 0xFF


def _power_of_two(code: Tensor) -> Tensor:
    """Return 2 ** (code - 127) as float32. The smallest of these numbers is subnormal."""
    bits = calls.where_self(code == 0, 1 << (_POINT - 1), code << _POINT)
    number = calls.view_dtype(bits, float32)
    return calls.where_self(code == _NO_NUMBER, float("nan"), number)


def _exponent(x: Tensor) -> Tensor:
    """Return the code of the nearest power of two. The sign is dropped, and infinity becomes
    NaN."""
    bits = calls.view_dtype(x, int32) & 0x7FFFFFFF
    code, fraction = bits >> _POINT, bits & ((1 << _POINT) - 1)
    half = 1 << (_POINT - 1)
    is_up = (fraction > half) | ((fraction == half) & (code > 0))
    code = calls.where_self(is_up & (code < _NO_NUMBER), code + 1, code)
    return calls.to_dtype(code, uint8, False, False, None)


# --- moves ----------------------------------------------------------------------------------------


def moved(kernel: Callable[..., Any], key_set: int, *args: Any) -> Tensor:
    """Call a kernel on the bytes of float8 tensors, and view its result as float8. The kernel may
    move elements, but not compute with them.

    args: tensors of one float8 dtype, indices, and numbers in the form that the kernel takes.
    """
    of = next(x._geometry.dtype for x in _tensors(args) if x._geometry.dtype.is_float8)
    made = kernel(key_set, *[_bytes_of(value, of) for value in args])
    return with_dtype(made, of)


def with_dtype(codes: Tensor, of: dtype) -> Tensor:
    """View uint8 codes as numbers of a float8 dtype. The memory is shared."""
    shape = codes._geometry
    return view_of(codes, geometry(shape.sizes, shape.strides, of), codes._offset)


def code_of(value: Any, of: dtype) -> int:
    """Return the code of a number in a float8 dtype."""
    wide = calls.scalar_tensor(value, float32, None, None, None)
    return int(calls.item(encoded(wide, of)))


def rounded(value: Any, of: dtype) -> float:
    """Return the nearest number of a float8 dtype."""
    return float(np.uint8(code_of(value, of)).view(of.np))


def written(compute: Callable[..., Tensor], out: Tensor, *args: Any) -> Tensor:
    """Call `compute` on float8 tensors decoded to float32, and round its result into `out`."""
    wide = [decoded(x) if isinstance(x, Tensor) else x for x in args]
    calls.copy_(out, compute(*wide), False)
    return out


def _tensors(args: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for value in args:
        found += [x for x in (value if isinstance(value, (list, tuple)) else (value,))
                  if isinstance(x, Tensor)]  # fmt: skip
    return found


def _bytes_of(value: Any, of: dtype) -> Any:
    if isinstance(value, (list, tuple)):
        return [_bytes_of(x, of) for x in value]
    if isinstance(value, Tensor) and value._geometry.dtype is of:
        return as_bytes(value)
    return value
