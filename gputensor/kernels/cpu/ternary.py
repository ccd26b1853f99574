"""out[i] = op(a[i], b[i], c[i], scalars).                                          family: ternary

Types    computes in the common dtype; f16 and bf16 in f32, rounded once. Integers wrap.
Source   lerp: aten/src/ATen/native/Lerp.h; clamp: native/cpu/TensorCompareKernel.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.dtype import dtype
from .pointwise import Input, Loop, computed
from .select import where


def bind(op: str, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """The loop `(a, b, c, *scalars, out)` of `op` for these dtypes."""
    return computed(LOOPS[op], inputs, common, out)


def _lerp(start: Any, end: Any, weight: Any) -> Any:
    """From the nearer end, so that both are reached exactly."""
    length = end - start
    near = np.abs(weight) < 0.5
    if np.ndim(near):
        return where(near, start + weight * length, end - length * (1 - weight))
    return start + weight * length if near else end - length * (1 - weight)


def _finite(x: Any, nan: Any, high: Any, low: Any) -> Any:
    """Of complex numbers each part; the scalars are real."""
    return np.nan_to_num(x, nan=nan.real, posinf=high.real, neginf=low.real)


LOOPS: dict[str, Callable[..., Any]] = {
    "addcdiv": lambda self, a, b, value: self + value * (a / b),
    "addcmul": lambda self, a, b, value: self + value * a * b,
    "clamp": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "clamp_max": np.minimum,
    "clamp_min": np.maximum,
    "lerp": _lerp,
    "nan_to_num": _finite,
}
