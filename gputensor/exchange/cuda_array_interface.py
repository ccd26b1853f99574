"""Reading of the CUDA array interface, version 3, by which Numba, CuPy and other libraries describe
arrays on a GPU.
"""

from __future__ import annotations

import operator
import sys
from typing import Any, NamedTuple

import numpy as np

from ..core import errors
from ..core.geometry import Sizes, unholdable
from ..core.memory_format import contiguous_strides


class Described(NamedTuple):
    """The memory and the layout of an array, as its library describes them. Strides are in bytes
    and may be negative."""

    address: int
    is_readonly: bool
    sizes: Sizes
    stride_bytes: Sizes
    dtype: np.dtype[Any]
    stream: int | None  # the stream to wait for, or None


def read(op: str, arg: str, x: Any) -> Described:
    """Read `x.__cuda_array_interface__`, and check each part before it is used.

    Raises: ArgumentTypeError for missing parts or wrong types; ArgumentValueError for impossible
    numbers, a null pointer to existing elements, and stream 0.
    """
    given = x.__cuda_array_interface__
    if not isinstance(given, dict):
        raise _incomplete(op, arg, "a dict", given)
    sizes = _ints(op, arg, given, "shape")
    element = getattr(x, "dtype", None)
    # a typestr cannot express bfloat16, so prefer the array's own NumPy dtype if it has one
    if not isinstance(element, np.dtype):
        try:
            element = np.dtype(operator.getitem(given, "typestr"))
        except (KeyError, TypeError, ValueError):
            raise _incomplete(op, arg, "a typestr", given.get("typestr")) from None
    data = given.get("data")
    if not isinstance(data, (tuple, list)) or len(data) != 2 or not isinstance(data[0], int):
        raise _incomplete(op, arg, "data of an address and a bool", data)
    if given.get("mask") is not None:
        raise errors.wrong_type(op, arg, "have no mask", errors.Got("a mask"))
    if given.get("strides") is None:
        strides = () if min(sizes, default=0) < 0 else contiguous_strides(sizes)
        strides = tuple([s * element.itemsize for s in strides])
    else:
        strides = _ints(op, arg, given, "strides")
    _check_range(op, arg, data[0], sizes, strides, element.itemsize)
    return Described(data[0], bool(data[1]), sizes, strides, element, _stream(op, arg, x, given))


def _incomplete(op: str, arg: str, part: str, got: Any) -> errors.GpuTensorError:
    return errors.wrong_type(op, arg, f"have a CUDA array interface with {part}", got)


def _ints(op: str, arg: str, given: dict[str, Any], name: str) -> Sizes:
    try:
        return tuple(map(operator.index, given[name]))
    except (KeyError, TypeError):
        raise _incomplete(op, arg, f"{name} of ints", given.get(name)) from None


def _check_range(
    op: str, arg: str, address: int, sizes: Sizes, strides: Sizes, itemsize: int
) -> None:
    wrong = unholdable(sizes, tuple(map(abs, strides)), itemsize)
    spans = [(n - 1) * s for n, s in zip(sizes, strides)]
    first = address + sum(s for s in spans if s < 0)
    last = address + sum(s for s in spans if s > 0) + itemsize
    if not wrong and 0 not in sizes and not 0 < first < last <= 1 << 64:
        wrong = f"address {address:#x}"
    if wrong:
        rule = "have all elements within the address space"
        raise errors.wrong_value(op, arg, rule, errors.Got(wrong))


def _stream(op: str, arg: str, x: Any, given: dict[str, Any]) -> int | None:
    stream = given.get("stream")
    if isinstance(x, getattr(sys.modules.get("cupy"), "ndarray", ())):
        # gputensor uses CuPy's current stream, so no wait is needed. `stream` belongs to the
        # current device, even if the array is on another device.
        return None
    if stream is None or isinstance(stream, int) and not isinstance(stream, bool) and stream > 0:
        return stream
    rule = "name its stream as the CUDA array interface does: 1, 2 or an address, or None"
    raise errors.wrong_value(op, arg, rule, errors.Got(f"stream {errors.describe(stream)}"))
