"""Conversion of arguments of NumPy functions to tensors, numbers and dtypes for our operators."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ..._generated import calls
from ...core import dtype as dtypes
from ...core.arguments import number
from ...core.device import CPU
from ...tensor import export
from ...tensor.tensor import Tensor
from .rule import BOOLEAN, check, get_numpy_on_devices

# Types of arguments that need no conversion: numbers and NumPy dtypes.
PLAIN = frozenset({bool, int, float, complex, str, type(None)}) | {
    type(element.np) for element in dtypes.ALL
}


def cast(x: Tensor, element: dtypes.dtype) -> Tensor:
    """Cast x to a dtype. Raises: KeyError for a cast that NumPy's rule "same_kind" does not
    allow."""
    if x._geometry.dtype is element:
        return x
    if not np.can_cast(x._geometry.dtype.np, element.np, "same_kind"):
        raise KeyError(element)
    return calls.to_dtype(x, element)


def operands(inputs: Any) -> list[Any]:
    """Convert operands to tensors and numbers. Raises: KeyError for objects of other types."""
    return [operand(x) for x in inputs]


def operand(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x
    plain = None if isinstance(x, np.ndarray) else number(x)
    if plain is None:
        plain = export.over_array(np.asarray(x))
    if plain is None:
        raise KeyError(type(x))
    return plain


def as_tensors(given: list[Any]) -> list[Tensor]:
    """Convert the numbers among the operands to 0-d tensors.

    Their dtype is chosen so that the dtype of the operator's result does not change.
    """
    like = next(x for x in given if isinstance(x, Tensor))
    result_type = import_module("gputensor").result_type
    return [
        x
        if isinstance(x, Tensor)
        else calls.full_like(calls.new_empty(like, ()), x, dtype=result_type(like, x))
        for x in given
    ]


def taken(name: str, x: Any) -> Any:
    """Check an argument and convert it for our function.

    Raises: KeyError for a value that our function would ignore.
    """
    anywhere = get_numpy_on_devices()
    if type(x) is tuple or type(x) is list:
        kinds = {*map(type, x)}
        if kinds <= PLAIN:
            return x
        if kinds == {Tensor} and all(
            [y._autograd is None and (y._device is CPU or anywhere) for y in x]
        ):
            return x
    elif x is np._NoValue:
        raise KeyError(name)
    check(name, (x,), name in BOOLEAN, anywhere)
    return _argument(x)


def _argument(x: Any) -> Any:
    """Convert arrays to tensors, also in lists, and NumPy scalars to numbers."""
    if isinstance(x, np.ndarray):
        return operand(x)
    if isinstance(x, np.generic):
        return number(x)
    if isinstance(x, (list, tuple)) and any([isinstance(y, (Tensor, np.ndarray)) for y in x]):
        return [operand(y) for y in x]
    return x
