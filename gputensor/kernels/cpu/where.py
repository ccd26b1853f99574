"""out[i] = a[i] if condition[i] else b[i].                                           family: where

Types    the condition is bool, or is compared with 0; a and b are cast to the common dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dtype import FLOATING, bool_, dtype
from . import cast, select
from .pointwise import Input, Loop

OPS = ("where",)


def bind(op: str, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """Return the loop `(condition, a, b, out=None)` for these dtypes."""
    assert op == "where", op
    if inputs[0] is bool_ and out is common and _takes(inputs[1:], common):
        return _where
    to = common.np

    def loop(condition: Any, a: Any, b: Any, out: np.ndarray | None = None) -> Any:
        if not isinstance(condition, np.ndarray) or condition.dtype != bool_.np:
            condition = np.not_equal(condition, 0)
        return _where(condition, _operand(a, to), _operand(b, to), out)

    return loop


def _takes(values: Sequence[Input], common: dtype) -> bool:
    """Return True if NumPy's promotion gives the common dtype: all arrays have it, and at most one
    operand is a number."""
    if values[0] is common and values[1] is common:
        return True
    if common.category < FLOATING or common.itemsize < 4 or common not in values:
        return False
    return any(isinstance(value, type) for value in values)


def _operand(value: Any, to: np.dtype) -> Any:
    return cast.convert(value, to) if isinstance(value, np.ndarray) else cast.number(value, to)


def _where(condition: Any, a: Any, b: Any, out: np.ndarray | None = None) -> Any:
    if out is None or np.result_type(a, b) == out.dtype:
        return select.where(condition, a, b, out)
    np.copyto(out, select.where(condition, a, b), casting="unsafe")
    return out
