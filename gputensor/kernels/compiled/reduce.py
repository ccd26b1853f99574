"""Compiled reductions, with the arguments of NumPy's loops in kernels/cpu/reduce.py; see
loops/reduction.cpp.

The order of additions depends only on sizes and layout; see loops/reduction.cpp.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...core.dtype import (
    BOOL, COMPLEX, FLOATING, INTEGER, bool_, complex64, complex128, dtype, float32, float64, int16,
    int32, int64, uint64,
)  # fmt: skip
from ..cpu import reduce as numpys
from . import library

Loop = numpys.Loop

_TRUTHS = ("any", "all")
_EXTREMES = ("amax", "amin")
# Maps an item size to a dtype that is twice as wide. One element of this dtype stores a pair.
_PAIRS = {1: int16, 2: int32, 4: int64, 8: complex128}


def bind(op: str, given: dtype, compute: dtype, out: dtype, numel: int | None = None) -> Loop:
    """Return the loop `(array, axes, None, out, keepdims)`. `axes` is None or a tuple, `out` an
    ndarray."""
    name = name_of(op, given, compute)
    if name is None:
        return numpys.bind(op, given, compute, out, numel)
    loop: Loop | None = None

    def otherwise(*args: Any) -> Any:
        nonlocal loop
        if loop is None:
            loop = numpys.bind(op, given, compute, out, numel)
        return loop(*args)

    found = library.reduction("reduce", name, given, out, otherwise)
    return numpys.bind(op, given, compute, out, numel) if found is None else found


@cache
def _both(of: dtype) -> Loop | None:
    return library.reduction("reduce", f"aminmax {of.short}", of, _PAIRS[of.itemsize], _in_two)


def _in_two(x: np.ndarray, axes: Any, unused: None, out: np.ndarray, keepdims: bool) -> None:
    pairs = out.reshape(*out.shape, 1).view(x.dtype)
    for n, op in enumerate(("amin", "amax")):
        pairs[..., n] = numpys.LOOPS[op](x, axes, None, None, keepdims)


def aminmax(
    x: np.ndarray, of: dtype, axes: tuple[int, ...] | None, sizes: tuple[int, ...], keepdims: bool
) -> np.ndarray | None:
    """Return the smallest and the greatest elements, computed in one pass over x. The last
    dimension of the returned array contains these two elements. Return None if there is no compiled
    loop. sizes: the result's sizes without the last dimension."""
    loop = None if of.category in (BOOL, COMPLEX) else _both(of)
    if loop is None:
        return None
    out = np.empty(sizes, _PAIRS[of.itemsize].np)
    loop(x, axes, None, out, keepdims)
    return out.reshape(*sizes, 1).view(x.dtype)


def name_of(op: str, given: dtype, compute: dtype) -> str | None:
    """Return the library's name of the reduction, or None if the library has none."""
    if op in _EXTREMES and given is bool_:
        op = "any" if op == "amax" else "all"
    if op in _TRUTHS:
        return f"{op} {_bits(given)}"
    if op == "count_nonzero":
        return f"count {_bits(given)}"
    if op in _EXTREMES:
        return f"{op} {given.short}"
    if compute.category == COMPLEX:
        parts = {complex64: float32, complex128: float64}.get(compute)
        if parts is None or given is not compute or op not in ("sum", "mean", "prod"):
            return None
        return f"{op} {(compute if op == 'prod' else parts).short}"
    if compute in (float32, float64):
        return f"{op} {compute.short}"
    if compute.category == INTEGER and op != "mean":
        if given.category == BOOL and op in ("sum", "nansum"):
            return "count 8"
        if given.category > INTEGER and compute is uint64:
            return None  # No compiled loop casts floats of 2**63 and more to uint64.
        return f"{'prod' if op == 'prod' else 'sum'} i64"
    return None


def _bits(given: dtype) -> str:
    """Return the part of a loop's name that selects the loop's test for nonzero elements."""
    if given.category == COMPLEX:
        return given.short
    if given.category == FLOATING:
        return "half" if given.itemsize == 2 else given.short
    return str(8 * given.itemsize)
