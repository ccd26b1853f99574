"""Compiled extremes and their places, called as those of kernels/cpu/argreduce.py; see
loops/argreduce.cpp."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...core.dtype import STORED
from ..cpu import argreduce as numpys
from . import library

_HALVES = ("f16", "bf16")
_NAMES = {d.np: d.short for d in STORED}


def argmax(x: np.ndarray, axis: int, out: np.ndarray, keepdims: bool) -> None:
    if not _is_found("max", x, axis, None, out):
        numpys.argmax(x, axis, out, keepdims)


def argmin(x: np.ndarray, axis: int, out: np.ndarray, keepdims: bool) -> None:
    if not _is_found("min", x, axis, None, out):
        numpys.argmin(x, axis, out, keepdims)


def max(x: np.ndarray, axis: int, values: np.ndarray, out: np.ndarray, keepdims: bool) -> None:
    if not _is_found("max", x, axis, values, out):
        numpys.max(x, axis, values, out, keepdims)


def min(x: np.ndarray, axis: int, values: np.ndarray, out: np.ndarray, keepdims: bool) -> None:
    if not _is_found("min", x, axis, values, out):
        numpys.min(x, axis, values, out, keepdims)


def _is_found(op: str, x: np.ndarray, axis: int, values: Any, out: np.ndarray) -> bool:
    """Whether the library serves: then `out` and `values` are written."""
    found = _function(op, x.dtype) if x.flags.aligned else None
    return found is not None and not found(x, out, values, axis)


@cache
def _function(op: str, of: Any) -> Any:
    """of: NumPy's dtype, which knows its hash."""
    name: Any = _NAMES.get(of)
    name = {"b8": "u8"}.get(name, "f32" if name in _HALVES else name)
    return library.function("argreduce", f"{op} {name}")
