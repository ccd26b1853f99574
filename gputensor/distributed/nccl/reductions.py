"""Reductions by NCCL. The results follow the rules of distributed/transport.py.

| dtype | NCCL reduces |
|---|---|
| f32, f64, integers of 32 and 64 bits, i8, u8 | the same dtype |
| f16, bf16 | f32, rounded once at the end; NCCL would round at every rank |
| MIN, MAX of floats | integers in the floats' order, NaN outermost; NCCL would drop NaN |
| i16, u16 | i32; the lower bits are kept |
| bool | u8: MAX for any, MIN for all; XOR is the lowest bit of SUM |
| complex | pairs of floats, for SUM and AVG |

NCCL has neither bitwise operators for integers nor products of complex numbers; these raise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from ..._generated import calls
from ...autograd.modes import no_grad
from ...core import dtype as dtypes, errors, memory_format as formats
from ...dispatch.tls import AutoDispatchBelowADInplaceOrView
from ...tensor.tensor import Tensor
from .. import transport

_CODES = {
    "int8": "NCCL_INT8", "uint8": "NCCL_UINT8", "int32": "NCCL_INT32", "uint32": "NCCL_UINT32",
    "int64": "NCCL_INT64", "uint64": "NCCL_UINT64", "float32": "NCCL_FLOAT32",
    "float64": "NCCL_FLOAT64", "bool": "NCCL_UINT8", "complex64": "NCCL_FLOAT32",
    "complex128": "NCCL_FLOAT64",
}  # fmt: skip
_OPS = {
    "sum": "NCCL_SUM", "avg": "NCCL_AVG", "product": "NCCL_PROD", "min": "NCCL_MIN",
    "max": "NCCL_MAX",
}  # fmt: skip
_OF_BOOL = {
    "sum": "max", "max": "max", "bor": "max", "product": "min", "min": "min", "band": "min",
    "bxor": "sum",
}  # fmt: skip

Recode = Callable[[Tensor], Tensor]


class Reduction(NamedTuple):
    """A reduction of one dtype, as NCCL computes it. code, op: names of constants in CuPy's module.
    parts: the number of elements for NCCL per element of the tensor. encode: makes the contiguous
    tensor that NCCL reduces. decode: converts NCCL's result back."""

    code: str
    op: str
    parts: int = 1
    encode: Recode | None = None
    decode: Recode | None = None

    def dtype_of(self, library: Any) -> int:
        found: int = getattr(library, self.code)
        return found

    def op_of(self, library: Any) -> int:
        found: int = getattr(library, self.op)
        return found


@cache
def reduction(op: str, how: str, dtype: Any) -> Reduction:
    """Return the Reduction with which NCCL computes the reduction `how` of a dtype.

    Raises: as transport.reduction; DtypeError if NCCL cannot reduce the dtype.
    """
    transport.reduction(op, how, dtype)
    name, kind = dtype.name, dtype.kind
    if kind == "b":
        seen = _OPS[_OF_BOOL[how]]
        if how == "bxor":
            return Reduction("NCCL_UINT8", seen, 1, _cast(dtypes.uint8), _lowest_bit)
        return Reduction("NCCL_UINT8", seen)
    if how not in _OPS or kind == "c" and how == "product":
        got = errors.Got(f"{how} of {name}")
        raise errors.wrong_dtype(op, "tensor", "have a dtype that NCCL can reduce this way", got)
    if kind == "c":
        return Reduction(_CODES[name], _OPS[how], 2)
    if kind in "iu":
        if dtype.itemsize == 2:
            return Reduction("NCCL_INT32", _OPS[how], 1, _cast(dtypes.int32), _same)
        return Reduction(_CODES[name], _OPS[how])
    if how in ("min", "max"):
        is_wide = dtype.itemsize == 8
        code = "NCCL_INT64" if is_wide else "NCCL_INT32"
        return Reduction(code, _OPS[how], 1, _as_ordered(is_wide, how), _from_ordered(is_wide, how))
    if dtype.itemsize == 2:
        return Reduction("NCCL_FLOAT32", _OPS[how], 1, _cast(dtypes.float32), _same)
    return Reduction(_CODES[name], _OPS[how])


def put(out: Tensor, made: Tensor) -> None:
    """Copy a result to `out`, which may have any strides and dtype, on the current stream.

    The caller has already counted the write in `out`'s version.
    """
    with AutoDispatchBelowADInplaceOrView():
        out.copy_(made.view(out.shape))


def _cast(to: Any) -> Recode:
    def cast(x: Tensor) -> Tensor:
        return calls.to_dtype(x, to, False, True, formats.contiguous_format)

    return cast


def _same(x: Tensor) -> Tensor:
    return x


def _lowest_bit(x: Tensor) -> Tensor:
    return x & 1


def _as_ordered(is_wide: bool, how: str) -> Recode:
    """Return a function that maps floats to integers with the same order.

    In negative floats, all bits except the sign are flipped. NaN becomes the smallest or the
    largest integer, so that the reduction returns it.
    """
    floats, integers, bits = _kinds(is_wide)
    last = (1 << bits - 1) - 1
    nan = last if how == "max" else -last - 1

    def encode(x: Tensor) -> Tensor:
        with no_grad():
            wide = _cast(floats)(x.detach())
            seen = wide.view(integers)
            ordered = seen ^ ((seen >> (bits - 1)) & last)
            return ordered.masked_fill_(wide.isnan(), nan)

    return encode


def _from_ordered(is_wide: bool, how: str) -> Recode:
    """Return a function that maps the integers of `_as_ordered` back to floats, and the smallest
    and the largest integer to NaN."""
    floats, _, bits = _kinds(is_wide)
    last = (1 << bits - 1) - 1

    def decode(x: Tensor) -> Tensor:
        with no_grad():
            return (x ^ ((x >> (bits - 1)) & last)).view(floats)

    return decode


def _kinds(is_wide: bool) -> tuple[Any, Any, int]:
    return (dtypes.float64, dtypes.int64, 64) if is_wide else (dtypes.float32, dtypes.int32, 32)
