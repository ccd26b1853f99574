"""out[i] = a[i] op b[i], as bool.                                               family: comparison

Types    both operands are compared in the common dtype. A Python number is first wrapped to its
         range, so uint8 44 equals 300, as in PyTorch and in the CUDA kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.dtype import bool_, dtype
from .pointwise import Input, Loop, number_position, typed, with_number

LOOPS = {
    "eq": np.equal, "ge": np.greater_equal, "gt": np.greater, "le": np.less_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "lt": np.less, "ne": np.not_equal,
}  # fmt: skip


def bind(op: str, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """Return the loop `(a, b, out=None)` of `op` for these dtypes."""
    loop = typed(LOOPS[op], inputs, common, bool_, out)
    position = number_position(inputs)
    return loop if position is None else with_number(op, loop, position, common)
