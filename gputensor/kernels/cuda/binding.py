"""From a family, an op and a layout to what launches it: the one way into the CUDA kernels.

A layout is an iterator Plan, or anything with `shape` and `stride_bytes` (coalesced, index 0
fastest, None for an operand that is a number), `dtypes` (outputs first) and `common_dtype`.
A family's launch arithmetic is imported when it is first bound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from ...core import errors

_LAUNCHES = {
    **dict.fromkeys(("unary", "binary", "comparison", "where", "fill"), "pointwise_launch"),
    **dict.fromkeys(("range", "random"), "generator_launch"),
    **{family: f"{family}_launch" for family in ("copy", "reduce", "argreduce", "softmax", "loss")},
}


def bind(family: str, op: str, layout: Any) -> Any:
    """What runs `op` over `layout`: callable(device_index, operands, scalars=()).

    operands: a pointer each, outputs first; a Python number where stride_bytes is None.
    scalars: add, sub (alpha) · threshold_backward (threshold) · nll_loss (ignore_index) ·
    fill (value) · arange (start, step) · linspace (start, end, steps) · eye (columns) ·
    uniform (seed, counter of the first element).
    copy also has op "pack": operands (dst, src, scale, bias), the last two each a pointer to f32 or
    up to 16 numbers, one a channel; stride_bytes[2] is the stride of a table of f32 by channel.
    range and random count a layout's elements with dimension 0 fastest, so theirs must not have
    been reordered: for `eye` dimension 0 is the column.
    """
    if family not in _LAUNCHES:
        raise errors.no_stub(family, op, "cuda")
    return _binder(_LAUNCHES[family])(family, op, layout)


@cache
def _binder(name: str) -> Callable[[str, str, Any], Any]:
    found: Callable[[str, str, Any], Any] = import_module(f"{__package__}.{name}").bind
    return found


@cache
def matmul(dtype: Any) -> Any:
    """mm of one dtype: callable(device_index, out, a, b, m, n, k, a_strides, b_strides,
    out_strides), the first three pointers; strides are (row, column) in elements.
    """
    from .matmul_launch import Matmul

    return Matmul(dtype)


@cache
def addmm(dtype: Any) -> Any:
    """addmm of one dtype: as `matmul`, and behind it the pointer and strides of what is added, beta
    and alpha. With beta 0 that pointer is not read.
    """
    from .matmul_launch import Addmm

    return Addmm(dtype)
