"""Casts of the float8 dtypes, made of other operators: the same on every device.

A number of eight bits has a sign, an exponent with a bias, and a fraction. Shifted to float32's
positions, these bits are the number times a power of two: one multiplication decodes it, and
rounding float32's bits encodes it. Source: c10/util/Float8_e4m3fn.h and its kin; https://arxiv.org/abs/2209.05433,
and https://arxiv.org/abs/2206.02915 for fnuz: no infinity, and NaN in the place of negative zero.
"""

from __future__ import annotations

from typing import NamedTuple

from .._generated import calls
from ..core.dtype import (
    dtype, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float32, int32,
    uint8,
)  # fmt: skip
from ..tensor.make import as_bytes
from ..tensor.tensor import Tensor


class _Format(NamedTuple):
    """fraction: bits of it. bias: of the exponent. largest: the code of the largest number.
    beyond: the code of a larger one. nan: of what is no number. infinity: where there is one."""

    fraction: int
    bias: int
    largest: int
    beyond: int
    nan: int
    infinity: int | None = None


_FORMATS = {
    float8_e4m3fn: _Format(3, 7, 0x7E, 0x7E, 0x7F),  # saturates, as PyTorch's does since 2.13
    float8_e5m2: _Format(2, 15, 0x7B, 0x7C, 0x7F, 0x7C),
    float8_e4m3fnuz: _Format(3, 8, 0x7F, 0x80, 0x80),
    float8_e5m2fnuz: _Format(2, 16, 0x7F, 0x80, 0x80),
}
_SIGN, _REST = 0x80, 0x7F


def decoded(x: Tensor) -> Tensor:
    """The numbers as float32, exactly."""
    form = _FORMATS[x._geometry.dtype]
    code = calls.to_dtype(as_bytes(x), int32, False, False, None)
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
    """The codes of the nearest numbers of a dtype, ties to even, as uint8. x: float32."""
    form = _FORMATS[to]
    shift = 23 - form.fraction
    bits = calls.view_dtype(x, int32)
    size = calls.abs(x)
    whole = bits & 0x7FFFFFFF
    # Half of the last bit, and one more where the code is odd; then the exponent's bias is changed.
    odd = (whole >> shift) & 1
    code = (whole + (odd + ((1 << (shift - 1)) - 1)) - ((127 - form.bias) << 23)) >> shift
    # Below the smallest normal number the sum with `magic` is rounded where the last bit is.
    magic = 2.0 ** (24 - form.fraction - form.bias)
    sum_bits = calls.view_dtype(size + magic, int32)
    start = (127 + 24 - form.fraction - form.bias) << 23
    code = calls.where_self(size < 2.0 ** (1 - form.bias), sum_bits - start, code)
    code = calls.where_self(code > form.largest, form.beyond, code)
    code = calls.where_self(x != x, form.nan, code)
    is_signed = bits < 0
    if form.nan == _SIGN:  # whose zero has no sign, and whose NaN is that code
        is_signed = is_signed & (code != 0)
    code = calls.where_self(is_signed, code | _SIGN, code)
    return calls.to_dtype(code, uint8, False, False, None)
