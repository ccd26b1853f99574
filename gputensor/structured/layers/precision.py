"""Computation in f32 for f16 and bf16 operands, and checks of operands' dtypes."""

from __future__ import annotations

from ..._generated import calls
from ...core import dtype as dtypes, errors
from ...core.dtype import FLOATING, dtype
from ...tensor.tensor import Tensor

FLOAT: dtype = dtypes.float32
HALVES = (dtypes.float16, dtypes.bfloat16)


def cast(x: Tensor, to: dtype) -> Tensor:
    return x if x._geometry.dtype is to else calls.to_dtype(x, to, False, False, None)


def wide(x: Tensor) -> Tensor:
    """Cast f16 and bf16 to f32, so that sums are not rounded at every step."""
    return cast(x, dtypes.float32) if x._geometry.dtype in HALVES else x


def check_floating(op: str, **operands: Tensor | None) -> None:
    (arg, first), *others = operands.items()
    assert first is not None
    if first._geometry.dtype.category != FLOATING:
        raise errors.wrong_dtype(op, arg, "be floating", first)
    for other, x in others:
        if x is None:
            continue
        if x._device is not first._device:
            raise errors.mixed_devices(op, first, arg, x, other)
        of = first._geometry.dtype
        if x._geometry.dtype is not of and not (of in HALVES and x._geometry.dtype is FLOAT):
            raise errors.wrong_dtype(op, other, f"have {arg}'s dtype {of.short}", x)
