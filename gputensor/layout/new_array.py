"""New arrays of a given array's library, and conversion of the library's dtypes and memory
formats."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..core import dtype as dtypes, errors, memory_format as formats
from ..core.dtype import dtype
from ..core.geometry import geometry
from ..core.memory_format import memory_format
from ..exchange.foreign import ForeignArray
from ..tensor.make import allocate


def empty(like: ForeignArray, sizes: tuple[int, ...], element: dtype, form: memory_format) -> Any:
    """Return an uninitialised array in the library and on the device of `like`, dense in a memory
    format.

    The result is a tensor for an image, for a library without a constructor, and for a library with
    immutable arrays. `given` converts the tensor after it was written.
    """
    order = range(len(sizes)) if form.order is None else form.order[::-1]
    strides = formats.strides_for("empty", sizes, form)
    if like.library == "numpy":
        return _permuted(np.empty([sizes[d] for d in order], element.np), order)
    if like.library == "torch":
        torch = sys.modules["torch"]
        given = getattr(torch, element.name)
        return torch.empty_strided(sizes, strides, dtype=given, device=like.owner.device)
    if like.library == "cupy":
        with like.owner.device:
            made = sys.modules["cupy"].empty([sizes[d] for d in order], element.np)
        return _permuted(made, order)
    return allocate(geometry(sizes, strides, element), like.place)


def _permuted(dense: Any, order: Any) -> Any:
    """Return the dense array with its dimensions permuted back to the logical order."""
    order = list(order)
    if order == sorted(order):
        return dense
    return dense.transpose([order.index(d) for d in range(len(order))])


def given(like: ForeignArray, made: Any) -> Any:
    """Convert `made` to an array of `like`'s library. made: a result of `empty`, after it has been
    written."""
    if like.library != "jax":
        return made
    return sys.modules["jax"].dlpack.from_dlpack(made)


def as_dtype(op: str, value: Any) -> dtype:
    """Return our dtype for a dtype of any library, or for its name."""
    if isinstance(value, dtype):
        return value
    name = str(value).rpartition(".")[2] if type(value).__module__ == "torch" else value
    found = dtypes.ALIASES.get(name) if isinstance(name, str) else None
    if found is None:
        try:
            known = next((d for d in dtypes.HELD if d.name == name), None)
            found = known or dtypes.from_numpy(np.dtype(name))
        except Exception:  # NumPy raises errors of many classes
            found = None
    if found is None:
        raise errors.wrong_type(op, "dtype", "be a dtype that tensors have", value)
    return found


def as_format(op: str, value: Any) -> memory_format:
    """Return our memory format for a format of gputensor or PyTorch, or for its name."""
    if isinstance(value, memory_format):
        return value
    name = value if isinstance(value, str) else ""
    if type(value).__module__ == "torch":
        name = repr(value)
    name = name.rpartition(".")[2]
    for form in formats.ALL:
        if form.name == name:
            return form
    raise errors.wrong_type(op, "memory_format", "be a memory format", value)
