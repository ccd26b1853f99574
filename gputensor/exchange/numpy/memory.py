"""Calls of NumPy's own functions on the memory of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._generated import calls
from ...core import dtype as dtypes, errors
from ...tensor import export
from ...tensor.base import bump_version
from ...tensor.tensor import Tensor
from .bridge import from_numpy


def by_numpy(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], writes: bool
) -> Any:
    """Call NumPy's function on the tensors' memory, and return its results as tensors."""
    seen: dict[int, tuple[Any, Any]] = {}

    def lent(x: Any) -> Any:
        if isinstance(x, Tensor):
            # no gradient is lost, because `check` has rejected tensors that need one
            array = export.array(calls.detach(x))
            seen[id(array)] = array, x
            return array
        if isinstance(x, dtypes.dtype):
            return x.np
        if isinstance(x, dict):
            return {key: lent(y) for key, y in x.items()}
        return type(x)(map(lent, x)) if type(x) in (list, tuple) else x

    def back(x: Any) -> Any:
        if id(x) in seen:
            return seen[id(x)][1]
        if isinstance(x, (list, tuple)):
            return type(x)(*map(back, x)) if hasattr(x, "_fields") else type(x)(map(back, x))
        if not isinstance(x, (np.ndarray, np.generic)):
            return x
        return x if any([x is y for y in outs]) else _tensor_of(x)

    out = kwargs.get("out")
    outs: tuple[Any, ...] = out if isinstance(out, tuple) else () if out is None else (out,)
    written = [*outs, *(args[:1] if writes else ())]
    result = back(function(*lent(args), **lent(kwargs)))
    for x in written:
        if isinstance(x, Tensor):
            bump_version(x)
    return result


def _tensor_of(x: Any) -> Any:
    """Convert a NumPy array to a tensor. They share memory if a tensor can have the array's
    strides. Return an array whose dtype tensors lack, such as text, unchanged."""
    array = np.asarray(x)
    element = dtypes.from_numpy(array.dtype)
    if element is None:
        return x
    size = element.itemsize
    if array is not x or any([s < 0 or s % size for s in array.strides]):
        array = array.copy()
    return from_numpy(array)


def written_to(op: str, out: Any, found: Tensor) -> Any:
    """Write a result to `out`, and return `out`. The sizes must be equal, and NumPy's rule
    "same_kind" must allow the cast."""
    target = out if isinstance(out, Tensor) else from_numpy(out)
    if not np.can_cast(found._geometry.dtype.np, target._geometry.dtype.np, "same_kind"):
        rule = f"have a dtype that {found._geometry.dtype} is cast to"
        raise errors.wrong_dtype(op, "out", rule, target)
    if found._geometry.sizes != target._geometry.sizes:
        sizes = list(found._geometry.sizes)
        raise errors.wrong_shape(op, "out", f"have the sizes {sizes}", target)
    calls.copy_(target, found, False)
    return out
