"""Bind a family, an op and a layout to a launch. All CUDA kernels are called through this module.

A layout is an iterator Plan, or any object with these attributes: `shape` and `stride_bytes`
(coalesced, index 0 fastest, None for a number), `dtypes` (outputs first) and `common_dtype`. The
code that plans a family's launches is imported when an op of the family is first bound.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from .._generated.loops import LOOPS
from ...core import errors


def bind(family: str, op: str, layout: Any) -> Any:
    """Bind `op` to `layout`. Return callable(device_index, operands, scalars=()).

    operands: for each operand, outputs first, a pointer, or a Python number if its stride_bytes are
    None.
    scalars: add, sub (alpha) · threshold_backward (threshold) · nll_loss (ignore_index) · fill
    (value) · arange (start, step) · linspace (start, end, steps) · eye (columns) · random (seed,
    counter of the first element, the distribution's two parameters) · dropout (seed, counter of the
    first element, limit, factor).
    copy also has an op "pack" with operands (dst, src, scale, bias). scale and bias are pointers to
    f32, or up to 16 numbers, one per channel. stride_bytes[2] is the stride of an f32 table with
    one entry per channel.
    range and random number the elements of a layout with dimension 0 fastest, so their layouts must
    not be reordered. For `eye`, dimension 0 is the column.
    """
    bind_op = getattr(launches(family, op), "bind", None)
    if bind_op is None:
        raise errors.no_stub(family, op, "cuda")
    return bind_op(family, op, layout)


@cache
def launches(family: str, op: str = "") -> ModuleType:
    """Return the module that plans a family's launches: `<family>_launch.py`, or
    pointwise_launch.py."""
    own = f"{family}_launch"
    has_own = os.path.exists(os.path.join(os.path.dirname(__file__), f"{own}.py"))
    if not has_own and family not in LOOPS:
        raise errors.no_stub(family, op, "cuda")
    return import_module(f"{__package__}.{own if has_own else 'pointwise_launch'}")
