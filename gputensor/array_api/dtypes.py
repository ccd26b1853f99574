"""Data types: kinds, limits, promotion and casts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import gputensor as gt
from gputensor import Tensor, device, dtype

from ..core import errors
from ..core.promotion import number_dtype, promote_types

Number: TypeAlias = bool | int | float | complex

_KINDS = {
    "bool": (gt.bool,),
    "signed integer": (gt.int8, gt.int16, gt.int32, gt.int64),
    "unsigned integer": (gt.uint8, gt.uint16, gt.uint32, gt.uint64),
    "real floating": (gt.float32, gt.float64),
    "complex floating": (gt.complex64, gt.complex128),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def of_kinds(op: str, kind: str | tuple[str, ...] | None) -> dict[str, dtype]:
    """Return a dict that maps names to the standard's dtypes of this kind. For None, the dict
    contains all dtypes."""
    kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
    for each in kinds:
        if each not in _KINDS:
            raise errors.wrong_value(op, "kind", f"be one of {', '.join(_KINDS)}", each)
    return {d.name: d for each in kinds for d in _KINDS[each]}


def isdtype(dtype: dtype, kind: dtype | str | tuple[dtype | str, ...]) -> bool:
    """Return True if a dtype belongs to a kind such as "integral", or is equal to the dtype `kind`.
    For a tuple, return True if this holds for one of its items."""
    if not isinstance(dtype, gt.dtype):
        raise errors.not_a_dtype("isdtype", dtype)
    given = kind if isinstance(kind, tuple) else (kind,)
    return any([dtype is k if isinstance(k, gt.dtype) else _is(dtype, k) for k in given])


def _is(element: dtype, kind: str) -> bool:
    # float16 and bfloat16 are not in the standard, but are floating dtypes
    if element in (gt.float16, gt.bfloat16):
        element = gt.float32
    return element in of_kinds("isdtype", kind).values()


def result_type(*arrays_and_dtypes: Tensor | Number | dtype) -> dtype:
    """Return the promoted dtype of tensors, dtypes and numbers. 0-d tensors promote like other
    tensors."""
    found, numbers = None, []
    for x in arrays_and_dtypes:
        element = x if isinstance(x, gt.dtype) else x.dtype if isinstance(x, Tensor) else None
        if element is None:
            numbers.append(x)
        else:
            found = element if found is None else promote_types(found, element, "result_type")
    if found is None:
        raise errors.no_operands("result_type")
    for value in numbers:
        found = beside(found, value)
    return found


def beside(element: dtype, value: Any) -> dtype:
    """Return the promoted dtype of a tensor of dtype `element` and a number. The result differs
    from `element` only if the number is of a higher kind, such as a float beside integers."""
    if type(value) not in (bool, int, float, complex):
        raise errors.wrong_type("result_type", "x", "be a tensor or a number", value)
    own = number_dtype(type(value), gt.get_default_dtype())
    if own.category <= element.category:
        return element
    return element.to_complex if own.is_complex and element.is_floating_point else own


def like(x: Tensor, other: Tensor | Number) -> Tensor:
    """Convert a number to a 0-d tensor. Its dtype is the promoted dtype of the number and `x`.
    Return a tensor unchanged."""
    if isinstance(other, Tensor):
        return other
    return gt.full((), other, dtype=beside(x.dtype, other), device=x.device)


def together(op: str, x1: Tensor | Number, x2: Tensor | Number) -> tuple[Tensor, Tensor]:
    """Return two operands as tensors of the standard's promoted dtype."""
    if isinstance(x1, Tensor):
        if not isinstance(x2, Tensor):
            return x1, like(x1, x2)
        if x1.dtype is not x2.dtype and 0 in (x1.ndim, x2.ndim):
            found = promote_types(x1.dtype, x2.dtype, op)
            return x1.to(found), x2.to(found)
        return x1, x2
    if not isinstance(x2, Tensor):
        raise errors.wrong_type(op, "x1 or x2", "be a tensor", x1)
    return like(x2, x1), x2


def astype(
    x: Tensor, dtype: dtype, /, *, copy: bool = True, device: device | str | None = None
) -> Tensor:
    """Return x with another dtype and on another device. The result is a copy, unless `copy` is
    False and x has this dtype and device already."""
    return x.to(x.device if device is None else device, dtype, copy=copy)


def can_cast(from_: dtype | Tensor, to: dtype, /) -> bool:
    """Return True if promotion can convert the first dtype to the second."""
    element = from_.dtype if isinstance(from_, Tensor) else from_
    if element is to:
        return True
    is_within = element.category == to.category or element.is_floating_point and to.is_complex
    try:
        return is_within and promote_types(element, to, "can_cast") is to
    except errors.DtypeError:
        return False


@dataclass(frozen=True)
class finfo_object:
    """Limits of a floating dtype, or of the real and imaginary parts of a complex dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: dtype


@dataclass(frozen=True)
class iinfo_object:
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: dtype


def finfo(type: dtype | Tensor, /) -> finfo_object:
    """Return the limits of a floating or complex dtype, given as a dtype or a tensor."""
    element = type.dtype if isinstance(type, Tensor) else type
    found = gt.finfo(element)
    return finfo_object(
        found.bits, found.eps, found.max, found.min, found.smallest_normal, element.to_real
    )


def iinfo(type: dtype | Tensor, /) -> iinfo_object:
    """Return the limits of an integer dtype, given as a dtype or a tensor."""
    element = type.dtype if isinstance(type, Tensor) else type
    found = gt.iinfo(element)
    return iinfo_object(found.bits, found.max, found.min, element)


def as_tuple(given: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return one int, such as an axis or a size, as a tuple; return a tuple unchanged."""
    return (given,) if isinstance(given, int) else tuple(given)


def promoted(op: str, arrays: Sequence[Tensor]) -> list[Tensor]:
    """Cast tensors to their promoted dtype."""
    if not arrays:
        raise errors.must(op, "arrays", "hold a tensor at least", errors.Got("none"))
    first = arrays[0]
    if type(first) is Tensor and all(
        [type(x) is Tensor and x.dtype is first.dtype for x in arrays]
    ):
        return list(arrays)
    found = result_type(*arrays)
    return [x.to(found) for x in arrays]
