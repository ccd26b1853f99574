"""Checks of a call's arguments against the kernel's signature, and their conversion to the
parameter bytes of a launch."""

from __future__ import annotations

from collections.abc import Callable
from struct import error as StructError, Struct
from typing import Any

import ml_dtypes
import numpy as np

from ..core import dtype as dtypes, errors
from ..iterator.coalesce import coalesce
from ..iterator.order import dimension_order
from .declaration import LAYOUT_DIMS, NUMBER, VECTOR, Parameter
from ..exchange.foreign import ForeignArray

_LAYOUT = Struct(f"<iI{2 * LAYOUT_DIMS}q")
# Complex arrays match pointers to vectors of two numbers: complex64 matches float2.
_PAIRS = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}


def check_pointer(
    entry: str, parameter: Parameter, operand: ForeignArray, has_layout: bool
) -> None:
    """Raise an error unless the array matches the pointer parameter."""
    element = parameter.element
    assert element is not None
    if element.dtype is not None and element.name != "a pointer":
        _check_dtype(entry, parameter, operand)
    if not parameter.is_const and operand.is_readonly:
        rule = f"be writable, as {parameter.text} is"
        raise errors.wrong_value(entry, parameter.name, rule, errors.Got(f"{operand}, read-only"))
    if element.lanes > 1:
        own = element.size
        if operand.address % element.alignment or operand.numel * operand.itemsize % own:
            rule = f"be aligned to {element.alignment} bytes and a multiple of {own} bytes long"
            rule += f", as {parameter.text} needs"
            raise errors.must(
                entry, parameter.name, rule, errors.Got(f"{operand} at {operand.address:#x}"),
                kind=errors.ArgumentValueError,
            )  # fmt: skip
    if any(s < 0 for s, n in zip(operand.stride_bytes, operand.sizes) if n > 1):
        raise errors.wrong_value(
            entry,
            parameter.name,
            "have no negative strides",
            errors.Got(str(operand)),
            remedy="use a contiguous copy",
        )
    if not has_layout and not operand.is_contiguous:
        raise errors.wrong_value(
            entry,
            parameter.name,
            "be contiguous, since the kernel takes no Layout of it",
            errors.Got(str(operand)),
            remedy="use .contiguous(), or add a Layout parameter "
            "(docs/extensions/kernels_without_a_gpu.md)",
        )


def _check_dtype(entry: str, parameter: Parameter, operand: ForeignArray) -> None:
    element, given = parameter.element, operand.dtype
    assert element is not None
    allowed = {element.dtype}
    if element.lanes == 2 and element.dtype in _PAIRS.values():
        allowed |= {pair for pair, part in _PAIRS.items() if part is element.dtype}
    if element.dtype is dtypes.uint8:
        allowed.add(dtypes.bool_)
    if element.dtype is dtypes.int8 and element.name == "char":
        allowed.add(dtypes.uint8)
    if given not in allowed:
        raise errors.must(
            entry, parameter.name, f"be {element.dtype.name}, as {parameter.text} says",
            errors.Got(str(operand)), kind=errors.DtypeError,
        )  # fmt: skip


# --- values -------------------------------------------------------------------------------------


def packer(entry: str, parameter: Parameter) -> Callable[[Any], bytes]:
    """Return a function that packs a parameter that is not a pointer; plain numbers take a fast
    path."""
    element = parameter.element
    without_code = (dtypes.bfloat16, dtypes.bool_)
    if parameter.kind != NUMBER or element is None or element.dtype in without_code:
        return lambda value: value_bytes(entry, parameter, value)
    pack = Struct("<" + element.format).pack
    takes = (int,) if not element.dtype.is_floating_point else (float, int)

    def packed(value: Any) -> bytes:
        if type(value) in takes:
            try:
                return pack(value)
            except (StructError, OverflowError):
                pass  # the number is out of range, and the slow path raises the error
        return value_bytes(entry, parameter, value)

    return packed


def value_bytes(entry: str, parameter: Parameter, value: Any) -> bytes:
    """Return the bytes of a parameter that is not a pointer."""
    if parameter.kind == NUMBER:
        return _number(entry, parameter, value)
    if parameter.kind == VECTOR:
        element = parameter.element
        assert element is not None
        try:
            parts = list(value)
        except TypeError:
            parts = []
        if len(parts) != element.lanes:
            raise _wrong(
                entry, parameter, f"be {element.lanes} numbers, as {parameter.text} says", value
            )
        return b"".join(_number(entry, parameter, part) for part in parts)
    try:
        data = value if isinstance(value, bytes) else bytes(memoryview(value))
    except TypeError:
        rule = f"be the bytes of a {parameter.text}, or a NumPy scalar of that layout"
        raise _wrong(entry, parameter, rule, value) from None
    if parameter.size and len(data) != parameter.size:
        raise _wrong(
            entry, parameter, f"be the {parameter.size} bytes of a {parameter.text}",
            f"{len(data)} bytes",
        )  # fmt: skip
    return data


def _number(entry: str, parameter: Parameter, value: Any) -> bytes:
    element = parameter.element
    assert element is not None and element.dtype is not None
    if isinstance(value, (np.generic, np.ndarray)) and getattr(value, "ndim", 0) == 0:
        value = value.item()
    kind = element.dtype
    if not isinstance(value, (bool, int, float)):
        raise _wrong(entry, parameter, f"be a number, as {parameter.text} says", value)
    if kind is dtypes.bfloat16:
        return np.asarray(value, ml_dtypes.bfloat16).tobytes()
    if kind.is_floating_point:
        if kind is dtypes.float16:
            return np.asarray(value, np.float16).tobytes()
        return np.asarray(value, kind.np).tobytes()
    if isinstance(value, float) and not value.is_integer():
        raise _wrong(entry, parameter, f"be an integer, as {parameter.text} says", value)
    number = int(value)
    if kind is dtypes.bool_:
        return bytes([number != 0])
    limits = np.iinfo(kind.np)
    if not limits.min <= number <= limits.max:
        rule = f"be in [{limits.min}, {limits.max}], as {parameter.text} says"
        raise errors.wrong_value(entry, parameter.name, rule, number)
    return number.to_bytes(kind.itemsize, "little", signed=kind.is_signed)


def _wrong(entry: str, parameter: Parameter, rule: str, value: Any) -> Exception:
    return errors.wrong_type(entry, parameter.name, rule, value)


# --- layouts ------------------------------------------------------------------------------------


def layouts(entry: str, pointers: dict[int, tuple[Parameter, ForeignArray]]) -> dict[int, bytes]:
    """Return the Layouts of these pointers, over their common broadcast shape."""
    shape = _broadcast(entry, [(p, o) for p, o in pointers.values()])
    for parameter, operand in pointers.values():
        if not parameter.is_const and operand.sizes != shape:
            raise errors.must(
                entry, parameter.name, f"have the broadcast shape {list(shape)}",
                errors.Got(str(operand)), kind=errors.ShapeError,
            )  # fmt: skip
    strides = [_broadcast_strides(operand, shape) for _, operand in pointers.values()]
    written = [i for i, (p, _) in enumerate(pointers.values()) if not p.is_const]
    # the outputs determine the order of dimensions, as in TensorIterator
    first = [strides[i] for i in written] + [s for i, s in enumerate(strides) if i not in written]
    sizes, joined = coalesce(shape, strides, dimension_order(shape, first))
    if len(sizes) > LAYOUT_DIMS:
        raise errors.too_many_dims(entry, len(sizes), LAYOUT_DIMS)
    if not sizes:
        sizes, joined = (1,), [(0,) for _ in strides]
    return {number: pack_layout(sizes, own) for number, own in zip(pointers, joined)}


def pack_layout(shape: tuple[int, ...], stride_bytes: tuple[int, ...]) -> bytes:
    pad = (0,) * (LAYOUT_DIMS - len(shape))
    return _LAYOUT.pack(len(shape), 0, *shape, *pad, *stride_bytes, *pad)


def _broadcast(entry: str, given: list[tuple[Parameter, ForeignArray]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(operand.sizes for _, operand in given))
    except ValueError:
        shapes = ", ".join(f"{p.name}={o}" for p, o in given)
        raise errors.must(
            entry, given[-1][0].name, "broadcast with the other arrays that have a Layout",
            errors.Got(shapes), kind=errors.ShapeError,
        ) from None  # fmt: skip


def _broadcast_strides(operand: ForeignArray, shape: tuple[int, ...]) -> tuple[int, ...]:
    missing = len(shape) - len(operand.sizes)
    own = [0 if n == 1 else s for n, s in zip(operand.sizes, operand.stride_bytes)]
    return (*(0,) * missing, *own)
