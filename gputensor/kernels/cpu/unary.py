"""out[i] = op(x[i]).                                                                family: unary

Types    computes in the common dtype; f16 and bf16 in f32, rounded once. abs of complex is real.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.dtype import dtype
from .pointwise import Input, Loop, typed

LOOPS = {
    "abs": np.absolute,
    "exp": np.exp,
    "neg": np.negative,
}


def bind(op: str, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """The loop `(x, out=None)` of `op` for these dtypes."""
    result = common.to_real if op == "abs" else common
    return typed(LOOPS[op], inputs, common, result, out)
