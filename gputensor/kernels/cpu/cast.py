"""The rules of casts between dtypes, for arrays and for Python numbers.

Note [Numeric casts]: the rules are equal on all devices. Float to integer truncates, saturates to
int64 and then keeps the low bits; NaN becomes 0. For uint64, values in [2^63, 2^64) are also exact.
Integer to integer keeps the low bits. Complex to real keeps the real part. Any type to bool tests
for not equal to 0. Casts from integers to f16, and from integers and f64 to bf16, go through f32,
so wide values are rounded twice. The parts of complex32 are f16. All other casts are one IEEE
rounding.

NumPy and ml_dtypes follow these rules except in three cases: casts from float to integer of values
out of range, which C leaves undefined; casts from complex to bf16; and casts from complex to real,
for which NumPy warns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...core.dtype import (
    BOOL, COMPLEX, FLOATING, INTEGER, STORED, bfloat16, complex32, complex64, dtype, float16,
    float32, uint64,
)  # fmt: skip

Converter = Callable[[np.ndarray], np.ndarray]

_int32 = np.dtype(np.int32)
_int64 = np.dtype(np.int64)
_uint64 = np.dtype(np.uint64)
_float16, _float32 = float16.np, float32.np
# The NumPy dtype of a complex32 element is a pair of f16.
_PAIR = np.dtype([("real", _float16), ("imag", _float16)])
_TWO_31 = 2.0**31
_TWO_63 = 2.0**63
_TWO_64 = 2.0**64
_LAST = 2**63 - 1
_HALF = (float16, bfloat16)
# Constants for the conversion of f16. _MANY: from this number of elements on, bit operations are
# faster than NumPy's cast. _KEPT: a mask of the bits of a shifted word that come from the f16
# number. _BIAS: 2 to the power of the difference of the exponent biases. _INFINITE: the bits of
# infinity, shifted left by one bit.
_MANY, _KEPT, _BIAS, _INFINITE = 512, np.int32(-0x70002000), np.float32(2.0**112), 0xF800


def converter(src: dtype, dst: dtype) -> Converter | None:
    """Return a function that converts a `src` array to `dst`; None if NumPy's unsafe cast is
    enough."""
    return _CONVERTERS[src.np, dst.np]


def convert(array: np.ndarray, to: np.dtype) -> np.ndarray:
    """Return `array` cast to dtype `to` by the rules of Note [Numeric casts], or `array` itself if
    it has this dtype."""
    found = _CONVERTERS[array.dtype, to]
    return array.astype(to, copy=False) if found is None else found(array)


def convert_into(dst: np.ndarray, src: np.ndarray) -> None:
    """Write `src` into `dst`, cast by the rules of Note [Numeric casts]. `src` may be broadcast."""
    found = _CONVERTERS[src.dtype, dst.dtype]
    np.copyto(dst, src if found is None else found(src), casting="unsafe")


def number(value: complex, to: np.dtype) -> Any:
    """Return a Python number as a NumPy scalar of dtype `to`."""
    kind = to.kind
    if kind == "b":
        return np.bool_(value)
    if kind in "iu":
        return to.type(wrap(value, to))
    if kind == "c":
        return to.type(value)
    if to == complex32.np:
        parts = [_float16.type(part) for part in (value.real, value.imag)]
        return np.array(parts).view(to)[0]
    real = value.real
    return to.type(real) if kind == "f" else np.float32(real).astype(to)


def readable(array: np.ndarray) -> np.ndarray:
    """Return an array whose elements Python can read: a complex64 copy of a complex32 array,
    otherwise the array itself."""
    is_opaque = array.dtype == complex32.np
    return _from_complex32(array, complex64.np) if is_opaque else array


def wrap(value: complex, to: np.dtype) -> int:
    """Truncate a Python number and wrap it to the range of the integer dtype `to`. Return an
    int."""
    if isinstance(value, (float, complex)):
        value = _truncate(value.real, to)
    bits = 8 * to.itemsize
    low = int(value) & ((1 << bits) - 1)
    return low - (1 << bits) if to.kind == "i" and low >> (bits - 1) else low


def _truncate(value: float, to: np.dtype) -> int:
    if value != value:
        return 0
    if to == _uint64 and _TWO_63 <= value < _TWO_64:
        return int(value)
    if value >= _TWO_63:
        return _LAST
    return max(int(value), -_LAST - 1) if value > -_TWO_63 else -_LAST - 1


def widened(array: np.ndarray) -> np.ndarray:
    """Return an f16 array as f32, computed by operations on its bits. NumPy casts one element at a
    time and takes twice as long."""
    if array.size < _MANY:
        return array.astype(_float32)
    bits = array.view(np.int16)
    # Move sign, exponent and fraction to f32's bit positions. An exact product then corrects the
    # exponent bias.
    wide = bits.astype(_int32)
    np.left_shift(wide, 13, wide)
    np.bitwise_and(wide, _KEPT, wide)
    found: np.ndarray = wide.view(_float32)
    np.multiply(found, _BIAS, found)
    if np.left_shift(bits, 1).view(np.uint16).max() >= _INFINITE:
        # The product is wrong for infinities and NaN.
        outside = (bits & 0x7C00) == 0x7C00
        found[outside] = array[outside].astype(_float32)
    return found


# --- arrays -------------------------------------------------------------------------------------


def _float_to_integer(array: np.ndarray, to: np.dtype) -> np.ndarray:
    """Cast floats to an integer dtype.

    C defines the cast only for values in range. Results for other values are set explicitly.
    """
    if array.size == 0:
        return np.empty_like(array, to)
    # If an element is NaN, `low` and `high` are NaN, so all comparisons below are false.
    low, high = array.min(), array.max()
    if to.itemsize < 8 and -_TWO_31 <= low and high < _TWO_31:
        return array.astype(_int32).astype(to, copy=False)  # NumPy does this cast with SIMD.
    whole = array.astype(_int64)
    if not (-_TWO_63 <= low and high < _TWO_63):
        whole[array >= _TWO_63] = _LAST
        whole[array < -_TWO_63] = -_LAST - 1
        whole[array != array] = 0
    return whole.astype(to, copy=False)


def _float_to_uint64(array: np.ndarray) -> np.ndarray:
    whole = _float_to_integer(array, _uint64)
    large = (array >= _TWO_63) & (array < _TWO_64)
    if large.any():
        # The subtraction and the addition are exact, because floats of this size are multiples of
        # 2^11.
        whole[large] = (array[large] - _TWO_63).astype(_uint64) + _uint64.type(2**63)
    return whole


def _through_float32(array: np.ndarray, to: np.dtype) -> np.ndarray:
    return array.astype(_float32).astype(to)


def _real(array: np.ndarray, then: Converter | None, to: np.dtype) -> np.ndarray:
    return array.real.astype(to) if then is None else then(array.real)


def _widened(array: np.ndarray, then: Converter) -> np.ndarray:
    return then(array.astype(_float32))


# --- complex32 ----------------------------------------------------------------------------------


def _from_complex32(array: np.ndarray, to: np.dtype) -> np.ndarray:
    flat = np.ascontiguousarray(array).reshape(-1)
    wide = widened(flat.view(_float16)).view(complex64.np)
    return wide.reshape(array.shape).astype(to, copy=False)


def _is_nonzero(array: np.ndarray) -> np.ndarray:
    return _from_complex32(array, complex64.np).astype(np.bool_)


def _real_part(array: np.ndarray, to: np.dtype) -> np.ndarray:
    return convert(array.view(_PAIR)["real"], to)


def _to_complex32(array: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(array).reshape(-1)
    parts = flat.view(flat.real.dtype).astype(_float16)
    return parts.view(complex32.np).reshape(array.shape)


def _with_zero(array: np.ndarray) -> np.ndarray:
    made = np.zeros(array.shape, _PAIR)
    made["real"] = convert(array, _float16)
    return made.view(complex32.np)


def _choose_complex32(src: dtype, dst: dtype) -> Converter:
    if dst is complex32:
        return _to_complex32 if src.category == COMPLEX else _with_zero
    if dst.category == COMPLEX:
        return partial(_from_complex32, to=dst.np)
    return _is_nonzero if dst.category == BOOL else partial(_real_part, to=dst.np)


def _choose(src: dtype, dst: dtype) -> Converter | None:
    if src is dst:
        return None
    if complex32 in (src, dst):
        return _choose_complex32(src, dst)
    if src.category == COMPLEX and dst.category in (INTEGER, FLOATING):
        real = src.to_real
        return partial(_real, then=_choose(real, dst), to=dst.np)
    if src.category == FLOATING and dst.category == INTEGER:
        to_integer = _float_to_uint64 if dst is uint64 else partial(_float_to_integer, to=dst.np)
        return partial(_widened, then=to_integer) if src in _HALF else to_integer
    if dst is bfloat16 and src.itemsize > 4:
        return partial(_through_float32, to=dst.np)
    return None


_CONVERTERS = {(src.np, dst.np): _choose(src, dst) for src in STORED for dst in STORED}
