"""Conversion and checks of arguments: of integers (sizes, strides, dimensions), and of operands
that must have the same dtype and device.

These functions run only if there is no cached result or plan, so repeated calls skip them.
"""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from ..core import errors
from ..core.arguments import real
from ..core.dtype import FLOATING
from ..core.geometry import Geometry
from ..tensor.storage import Storage
from ..tensor.tensor import Tensor


def ints(op: str, arg: str, value: Any) -> tuple[int, ...]:
    """Return a tuple of ints, given one int or a sequence of ints."""
    if type(value) is int:
        return (value,)
    if type(value) is tuple and all([type(x) is int for x in value]):
        return value
    is_one = hasattr(value, "__index__") and not hasattr(value, "__iter__")
    given = (value,) if is_one and not isinstance(value, bool) else value
    try:
        found = tuple([index(x) for x in given])
        if bool not in map(type, given) and not isinstance(given, (dict, set, bytes)):
            return found
    except Exception:  # The __index__ or __iter__ of a foreign class may raise any error.
        pass
    raise errors.wrong_type(op, arg, "be a tuple of ints", value)


def sizes(op: str, value: Any, arg: str = "size") -> tuple[int, ...]:
    """Return a tuple of non-negative ints."""
    found = ints(op, arg, value)
    for size in found:
        if size < 0:
            raise errors.must(op, arg, "hold no negative number", found)
    return found


def per_dim(op: str, arg: str, value: Any, count: int, least: int = 0) -> tuple[int, ...]:
    """Return one number per dimension. A single number is repeated for all dimensions."""
    found = ints(op, arg, value)
    found = found * count if len(found) == 1 else found
    if len(found) != count:
        raise errors.must(op, arg, f"be one int or {count}", value)
    if min(found) < least:
        raise errors.must(op, arg, f"be at least {least} everywhere", value)
    return found


def integer(op: str, arg: str, value: Any, least: int | None = None) -> int:
    """Return a 64-bit int, as kernels require it. A bool is rejected. least: the lower bound, 0 or
    1."""
    number = _integer(op, arg, value)
    if not -(2**63) <= number < 2**63:
        raise errors.must(op, arg, "fit into 64 bits", number)
    if least is not None and number < least:
        raise errors.must(op, arg, "be positive" if least else "not be negative", number)
    return number


def _integer(op: str, arg: str, value: Any) -> int:
    if type(value) is int:
        return value
    try:
        # A tensor is rejected here. dispatch/refusal.py then reads the number in the tensor and
        # repeats the call with the number. If a tensor passed this check, later code would receive
        # it in place of an int.
        if not isinstance(value, bool) and not hasattr(value, "_keys"):
            return index(value)
    except Exception:  # The __index__ of a foreign class may raise any error.
        pass
    raise errors.wrong_type(op, arg, "be an int", value)


def reals(op: str, arg: str, value: Any) -> tuple[float, ...]:
    """Return a tuple of floats, given a sequence of numbers."""
    try:
        given = None if isinstance(value, str) else tuple(value)
    except Exception:  # A 0-d array has an __iter__ too, but it raises an error.
        given = None
    if given is None:
        raise errors.wrong_type(op, arg, "be a tuple of numbers", value)
    return tuple([real(op, arg, x) for x in given])


def boolean(op: str, arg: str, value: Any) -> bool:
    """Return a Python bool, as plan keys must contain. In a look-up, a NumPy bool and the equal
    Python bool would be one key, so NumPy bools are converted."""
    if type(value) is not bool and not isinstance(value, np.bool_):
        raise errors.wrong_type(op, arg, "be a bool", value)
    return bool(value)


def dim(op: str, value: Any, ndim: int, arg: str = "dim") -> int:
    """Return the number of a dimension, counted from the front. A 0-d tensor has the dimensions 0
    and -1."""
    number = _integer(op, arg, value)
    bound = ndim or 1
    if not -bound <= number < bound:
        raise errors.dim_out_of_range(op, number, ndim, arg)
    return number % bound


def dims(op: str, value: Any, ndim: int, arg: str = "dim") -> tuple[int, ...]:
    """Return the numbers of dimensions, counted from the front. No dimension may occur twice."""
    if type(value) is int:
        return (dim(op, value, ndim, arg),)
    found = tuple([dim(op, x, ndim, arg) for x in ints(op, arg, value)])
    if len(set(found)) != len(found):
        raise errors.must(op, arg, "name each dimension at most once", tuple(value))
    return found


def check_device(op: str, first: str, a: Tensor, second: str, b: Tensor) -> None:
    """Raise unless both operands are on one device."""
    if b._device is not a._device:
        raise errors.mixed_devices(op, a, first, b, second)


def check_dtype(op: str, first: str, a: Tensor, second: str, b: Tensor) -> None:
    """Raise unless operand `second` has the dtype of operand `first`."""
    if b._geometry.dtype is not a._geometry.dtype:
        rule = f"have {first}'s dtype {a._geometry.dtype.short}"
        raise errors.wrong_dtype(op, second, rule, b)


def check_alike(op: str, first: str, a: Tensor, second: str, b: Tensor) -> None:
    """Raise unless both operands have the same device and dtype."""
    check_device(op, first, a, second, b)
    check_dtype(op, first, a, second, b)


def check_sizes(op: str, sizes: tuple[int, ...], **operands: Tensor | None) -> None:
    """Raise unless all operands except None have these sizes."""
    for arg, x in operands.items():
        if x is not None and x._geometry.sizes != sizes:
            raise errors.wrong_shape(op, arg, f"have sizes {list(sizes)}", x)


def check_is_floating(op: str, arg: str, x: Tensor, or_complex: bool = False) -> None:
    """Raise unless the operand is floating or, if `or_complex`, complex."""
    category = x._geometry.dtype.category
    if category < FLOATING or category != FLOATING and not or_complex:
        rule = "be floating or complex" if or_complex else "be floating"
        raise errors.wrong_dtype(op, arg, rule, x)


def check_bounds(op: str, storage: Storage, offset: int, wanted: Geometry) -> None:
    """Raise an error for a geometry that reaches outside its storage."""
    if offset < 0:
        raise errors.must(op, "storage_offset", "not be negative", offset)
    if any(s < 0 for s in wanted.strides):
        raise errors.must(op, "stride", "hold no negative number", wanted.strides)
    needed = (offset + wanted.extent) * wanted.dtype.itemsize
    if wanted.numel and needed > storage._nbytes:
        raise errors.must(
            op, "size", f"stay within the storage of {storage._nbytes} bytes",
            errors.Got(
                f"{errors.describe(needed)} bytes for size {wanted.sizes}, "
                f"stride {errors.describe(wanted.strides)}, offset {errors.describe(offset)}"
            ),
        )  # fmt: skip
