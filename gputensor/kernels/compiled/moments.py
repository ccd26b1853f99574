"""Compiled variances, norms and sums of powers, with the arguments of kernels/cpu/moments.py; see
loops/moments.cpp."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.dtype import FLOATING, dtype, float32
from ..cpu import moments as numpys
from . import library

Loop = Callable[..., Any]


@lru_cache(maxsize=256)
def bind(op: str, given: dtype, out: dtype, over: float = 1.0) -> Loop | None:
    """Return the loop of an operator. over: the divisor of the sum of squares for var and std, the
    order for norm."""
    loop = numpys.bind(op, given, out, over)
    name = _norm(over) if op == "norm" else op
    if loop is None or given.category != FLOATING and name != "norm2":
        return loop
    kind = (float32 if given.to_real.itemsize == 2 else given.to_real).short
    if name == "count":
        kind = "half" if given.itemsize == 2 else kind
        return library.reduction("reduce", f"count {kind}", given, out, loop) or loop
    return library.reduction("moments", f"{name} {kind}", given, out, loop, over) or loop


def _norm(order: float) -> str:
    if order == 2:
        return "norm2"
    if math.isinf(order):
        return "norm_most" if order > 0 else "norm_least"
    return "norm1" if order else "count"


def spread(
    x: np.ndarray, axes: tuple[int, ...], over: float, keepdims: bool, out: np.ndarray,
    mean: np.ndarray | None,
) -> None:  # fmt: skip
    """Write the variance to `out` and the mean to `mean`, both in the dtype of the computation."""
    name = "var f64" if out.dtype == np.float64 else "var f32"
    found = library.function("moments", name)
    if found is None or not x.flags.aligned:
        numpys.spread(x, axes, over, keepdims, out, mean)
    elif found(x, out, mean, sum([1 << d for d in axes]), float(over)):
        raise MemoryError
