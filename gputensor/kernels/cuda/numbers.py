"""Packing of a Python number into sixteen bytes of a kernel's parameters.

Casts follow the rules that hold on all devices (`kernels/cpu/cast.py`, Note [Numeric casts]).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from sys import float_info
from typing import Any

from ...core import errors
from ...core.dtype import dtype
from ...core.number_range import in_64_bits, integer_range
from ..cpu import cast, quiet

Packer = Callable[[Any], bytes]  # Packs a Python number into bytes.
EMPTY = bytes(16)

_SIGNED, _UNSIGNED = struct.Struct("<q8x").pack, struct.Struct("<Q8x").pack
_FLOAT, _DOUBLE = struct.Struct("<f12x").pack, struct.Struct("<d8x").pack
_PAIR = struct.Struct("<dd").pack
_UNSIGNED_PAIR = struct.Struct("<QQ").pack
_WORD = (1 << 64) - 1


def stored(of: dtype) -> Packer:
    """Return a function that packs a number as an element of dtype `of`, padded with zeros."""
    to = of.np
    if of.category < 2:
        return arithmetic("u64" if of.short == "u64" else "i64", of, is_rounded=True)
    if of.short == "f32":
        return _float
    if of.short == "f64":
        return lambda value: _DOUBLE(value.real)
    if of.itemsize >= 8:
        return lambda value: cast.number(value, to).tobytes().ljust(16, b"\0")
    return lambda value: _rounded(value, to).tobytes().ljust(16, b"\0")


def arithmetic(
    name: str, common: dtype, *, is_rounded: bool, op: str = "number", arg: str = "value"
) -> Packer:
    """Return a function that packs a number as the arithmetic type `name` (i64 u64 f32 f64 c64
    c128).

    Integers are first wrapped to the range of `common`. is_rounded: a floating number is first
    rounded to `common`; if false, a number beside f16 or bf16 operands is an f32. op, arg: names
    for the error that is raised if a number exceeds the range of a double, or an integer has more
    than 64 bits.
    """
    if common.category == 0:
        return lambda value: _SIGNED(bool(value))
    if name in ("i64", "u64"):
        return _whole(common, _UNSIGNED if name == "u64" else _SIGNED, op, arg)
    if name == "f32" and not (is_rounded and common.itemsize == 2):
        return _float32(common, op, arg)
    pack = _floating(name, common, is_rounded)

    def packed(value: complex) -> bytes:
        try:
            return pack(value)
        except (OverflowError, struct.error):
            raise errors.number_out_of_range(op, common, value, arg) from None

    return packed


def _float32(common: dtype, op: str, arg: str) -> Packer:
    # The body of `_floating` is repeated here, which saves a Python frame in `x * 2.5`.
    def packed(value: complex) -> bytes:
        try:
            return _FLOAT(value.real)
        except (OverflowError, struct.error):
            if type(value) is int and abs(value) > float_info.max:
                raise errors.number_out_of_range(op, common, value, arg) from None
            return _float(value)

    return packed


def _floating(name: str, common: dtype, is_rounded: bool) -> Packer:
    to = common.np
    if name == "f32":
        return lambda value: _float(float(cast.number(value, to)))
    if name == "f64":
        return lambda value: _DOUBLE(value.real)
    if name == "c64":
        if is_rounded and common.itemsize < 8:
            return lambda value: cast.readable(_rounded(value, to)).tobytes().ljust(16, b"\0")
        return lambda value: _float(value)[:4] + _float(value.imag)[:12]
    if is_rounded and common.itemsize < 16:
        return lambda value: _pair(cast.readable(_rounded(value, to)).item())
    return _pair


def _rounded(value: complex, to: Any) -> Any:
    """Convert a number to a NumPy scalar. A number out of range becomes infinity, without NumPy's
    warning."""
    return quiet.run(cast.number, value, to)


def negated(pack: Packer, common: dtype) -> Packer:
    """Return a function that packs the negated number. 0 becomes -0 if the type has a negative
    zero."""
    if common.category < 2:
        return lambda value: pack(-int(value) & _WORD)
    return lambda value: pack(-(value if type(value) is complex else float(value)))


def pair(low: int, high: int) -> bytes:
    """Pack two unsigned 64-bit words, each modulo 2^64."""
    return _UNSIGNED_PAIR(low & _WORD, high & _WORD)


def _whole(common: dtype, pack: Callable[[int], bytes], op: str, arg: str) -> Packer:
    to = common.np
    low, high = integer_range(common)

    def packed(value: complex) -> bytes:
        if type(value) is int and low <= value <= high:
            return pack(value)
        return pack(cast.wrap(in_64_bits(op, arg, value), to))

    return packed


def _float(value: complex) -> bytes:
    try:
        return _FLOAT(value.real)
    except OverflowError:  # struct rejects numbers that round to infinity in float32.
        return _FLOAT(math.copysign(math.inf, value.real))


def _pair(value: complex) -> bytes:
    return _PAIR(value.real, value.imag)
