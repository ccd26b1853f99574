"""out[i] = op(x[i]).                                                                family: unary

Types    computes in the common dtype; f16 and bf16 in f32, rounded once. abs of complex is real.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dtype import dtype
from .pointwise import Input, Loop, typed

LOOPS = {
    "abs": np.absolute,
    "conj_physical": np.conjugate,
    "exp": np.exp,
    "neg": np.negative,
    "sqrt": np.sqrt,
}
OPS = (*LOOPS, "relu")


def bind(op: str, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """The loop `(x, out=None)` of `op` for these dtypes."""
    if op == "conj_physical" and not common.is_complex:
        return _copied
    if op == "relu":
        return _relu(inputs, common, out)
    result = common.to_real if op == "abs" else common
    loop = typed(LOOPS[op], inputs, common, result, out)
    return _around_stride_fault(loop) if op == "neg" else loop


def _relu(inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """The larger of each element and zero; the zero is the operand's, so that no dtype is mixed."""
    result = out if inputs[0] is common else inputs[0]
    larger = typed(np.maximum, (common, common), common, common, result)
    zero = np.zeros((), common.np)
    return lambda x, out=None: larger(x, zero, out=out)


def _around_stride_fault(negative: Loop) -> Loop:
    """np.negative without the strides at which it gives wrong elements.

    Seen in NumPy 2.4.6 on x86: 4-byte elements 16 bytes apart, or 8-byte ones 64 bytes apart, going
    to an `out` that is strided too. A result of NumPy's own is dense where the loop runs.
    """

    def loop(x: np.ndarray, out: np.ndarray | None = None) -> Any:
        if out is None or x.itemsize * x.itemsize not in x.strides:
            return negative(x, out)
        out[...] = negative(x)
        return out

    return loop


def _copied(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """What conjugation is for real numbers."""
    if out is None:
        return x.copy("K")
    np.copyto(out, x)
    return out
