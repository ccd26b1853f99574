"""Functions that combine items into a batch. Source: torch/utils/data/_utils/collate.py."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from ..._generated import functions
from ...core import errors
from ...core.dtype import float64
from ...exchange.construct import as_tensor, tensor
from ...tensor.tensor import Tensor
from . import segments
from .workers import get_worker_info


def default_convert(data: Any) -> Any:
    """Convert arrays, also in containers, to tensors. Return other values unchanged."""
    if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind in "biufc":
        return as_tensor(data)
    return _within(data, default_convert)


def _within(data: Any, change: Any) -> Any:
    """Apply a function to each element of a container. Return a new container."""
    if isinstance(data, Mapping):
        return _rebuilt(data, {name: change(x) for name, x in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*[change(x) for x in data])
    if isinstance(data, tuple):
        return [change(x) for x in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _rebuilt(data, [change(x) for x in data])
    return data


def _rebuilt(like: Any, made: Any) -> Any:
    """Convert `made` to the class of `like` if the class allows it."""
    try:
        if isinstance(like, MutableMapping):  # a copy keeps a defaultdict's factory
            same = copy.copy(like)
            same.update(made)
            return same
        return type(like)(made)
    except TypeError:
        return made


# Maps a class, or a tuple of classes, to the function that combines its items. The function is
# called as function(batch, collate_fn_map=...).
Collate = Callable[..., Any]
default_collate_fn_map: dict[type | tuple[type, ...], Collate] = {}


def collate(batch: Sequence[Any], *, collate_fn_map: dict[Any, Collate] | None = None) -> Any:
    """Combine items with the function that `collate_fn_map` has for their class or a base class.
    Mappings and sequences of equal structure are combined element by element.

    Raises: ArgumentTypeError for items of other classes; ArgumentValueError for sequences of
    different lengths.
    """
    known = collate_fn_map or {}
    first = batch[0]
    chosen = known.get(type(first)) or next(
        (function for kind, function in known.items() if isinstance(first, kind)), None
    )
    if chosen is not None:
        return chosen(batch, collate_fn_map=known)

    def of(group: Any) -> Any:
        return collate(group, collate_fn_map=known)

    if isinstance(first, Mapping):
        return _rebuilt(first, {name: of([x[name] for x in batch]) for name in first})
    if isinstance(first, Sequence):
        if any(len(x) != len(first) for x in batch):
            rule = "hold sequences of one length"
            raise errors.wrong_value("default_collate", "batch", rule, errors.Got("others"))
        made = [of(group) for group in zip(*batch)]
        if isinstance(first, tuple) and hasattr(first, "_fields"):
            return type(first)(*made)
        return made if isinstance(first, tuple) else _rebuilt(first, made)
    raise _cannot(first)


def default_collate(batch: Sequence[Any]) -> Any:
    """Combine items into a batch. Tensors and arrays are stacked, numbers become a tensor, strings
    stay in a list, and containers of equal structure are combined element by element."""
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: Any = None) -> Tensor:
    """Return the stacked tensors."""
    return _stacked(batch)


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Tensor:
    """Return a tensor of stacked NumPy arrays or numbers."""
    if np.asarray(batch[0]).dtype.kind not in "biufc":
        raise _cannot(batch[0])
    return _stacked([as_tensor(np.asarray(x)) for x in batch])


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: Any = None) -> Tensor:
    """Return a float64 tensor of these floats."""
    return tensor(batch, dtype=float64)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: Any = None) -> Tensor:
    """Return a tensor of these integers."""
    return tensor(batch)


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Sequence[Any]:
    """Return the list of strings unchanged."""
    return batch


# classes of NumPy numbers come first, because NumPy's float64 is a subclass of float
default_collate_fn_map.update({
    Tensor: collate_tensor_fn, (np.ndarray, np.generic): collate_numpy_array_fn,
    float: collate_float_fn, int: collate_int_fn, str: collate_str_fn, bytes: collate_str_fn,
})  # fmt: skip


def _stacked(batch: Sequence[Any]) -> Tensor:
    """Stack tensors. In a worker, the result is in memory shared with the main process."""
    first, out = batch[0], None
    if get_worker_info() is not None and all(
        isinstance(x, Tensor) and x.is_cpu and not x.requires_grad
        and x.dtype is first.dtype and x.shape == first.shape for x in batch
    ):  # fmt: skip
        out = segments.empty((len(batch), *first.shape), first.dtype)
    return functions.stack(tuple(batch), 0, out=out)


def _cannot(item: Any) -> Exception:
    rule = "hold tensors, arrays, numbers, texts, and containers of them"
    return errors.wrong_type("default_collate", "batch", rule, item)
