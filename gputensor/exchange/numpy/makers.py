"""NumPy's creation functions with a tensor as the prototype: `np.zeros_like(x)`, `like=x`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from ..._generated import calls
from ...core import errors
from ...core.arguments import element_type
from ...tensor.tensor import Tensor
from .bridge import from_numpy
from .memory import by_numpy
from .rule import check

# Maps each function with a prototype argument to the names of its parameters in NumPy, in order.
LIKE: dict[str, tuple[str, ...]] = {
    "empty_like": ("prototype", "dtype", "order", "subok", "shape", "device"),
    "full_like": ("a", "fill_value", "dtype", "order", "subok", "shape", "device"),
    "ones_like": ("a", "dtype", "order", "subok", "shape", "device"),
    "zeros_like": ("a", "dtype", "order", "subok", "shape", "device"),
}
# Functions that accept existing arrays. They reach this module only through `like=`.
_FROM = {"array", "asanyarray", "asarray", "ascontiguousarray"}
MAKERS = _FROM | {"arange", "empty", "eye", "full", "identity", "linspace", "ones", "tri", "zeros"}


def beside(
    like: Tensor, name: str, function: Callable[..., Any], args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    """Return the result of a NumPy function with `like=`, on the device of `like`. A tensor
    argument must be on this device."""
    x = args[0] if args else None
    if isinstance(x, (list, tuple)) and x and all([isinstance(y, Tensor) for y in x]):
        x = calls.stack(x, 0)
    if name in _FROM and isinstance(x, Tensor) and len(args) < 3 and not (
        kwargs.keys() - {"dtype", "copy"}
    ):  # fmt: skip
        dtype = args[1] if len(args) == 2 else kwargs.get("dtype")
        if x._device is not like._device:
            raise errors.mixed_devices(name, like, "like", x, "a")
        element = x.dtype if dtype is None else element_type(name, dtype, by_name=True)
        return calls.to_dtype(x, element, False, kwargs.get("copy", name == "array"))
    check(name, (args, kwargs), False)
    made = by_numpy(function, args, kwargs, False)
    return made.to(like.device) if isinstance(made, Tensor) else made


def made_like(name: str, given: dict[str, Any]) -> Tensor:
    """Return a new tensor with the sizes, dtype and device of a prototype, unless arguments
    override them."""
    x = given[LIKE[name][0]]
    if not isinstance(x, Tensor):  # the prototype is an array: only the fill value is a tensor
        x = from_numpy(np.asarray(x))
    gt = import_module("gputensor")
    named: dict[str, Any] = {"dtype": x.dtype, "device": given.get("device") or x.device}
    if given.get("dtype") is not None:
        named["dtype"] = element_type(name, given["dtype"], by_name=True)
    fill = [given["fill_value"]] if "fill_value" in given else []
    sizes, order = given.get("shape"), given.get("order", "K")
    made: Tensor
    if sizes is None and order in ("K", "A"):
        made = getattr(gt, name)(x, *fill, **named)
        return made
    sizes = x.shape if sizes is None else sizes
    sizes = tuple(sizes) if isinstance(sizes, (tuple, list)) else (int(sizes),)
    make = getattr(gt, name.removesuffix("_like"))
    if order == "F":
        made = make(sizes[::-1], *fill, **named).permute(tuple(range(len(sizes)))[::-1])
    else:
        made = make(sizes, *fill, **named)
    return made
