"""Convolutions by the compiled loops: see loops/conv.cpp.

The contract is that of `kernels/cpu/conv.py`, which serves all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import library

Sizes = tuple[int, ...]
# A larger step or dilation means the same: there is one window, or the kernel has one element.
_MOST = 1 << 62


def conv(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, out: np.ndarray, steps: Sizes,
    pads: Sizes, gaps: Sizes, groups: int, transposed: bool,
) -> bool:  # fmt: skip
    """Write the convolution of x (N, C, *sizes) with weight to `out`. Returns: whether it is
    done."""
    loop = _loop("conv", x, weight, *(() if bias is None else (bias,)))
    if loop is None:
        return False
    numbers = (*_in_volumes(steps, pads, gaps), groups, int(transposed))
    arrays = (_volumes(x), _volumes(weight), bias, _volumes(out))
    return bool(loop(*arrays, *numbers) == 0)


def weight_gradient(
    x: np.ndarray, grad: np.ndarray, out: np.ndarray, steps: Sizes, pads: Sizes, gaps: Sizes,
    groups: int,
) -> bool:  # fmt: skip
    """Write the gradient of the weights of a plain convolution of x to `out`. Returns: whether it
    is done."""
    loop = _loop("weight_gradient", x, grad)
    if loop is None:
        return False
    numbers = (*_in_volumes(steps, pads, gaps), groups)
    return bool(loop(_volumes(x), _volumes(grad), _volumes(out), *numbers) == 0)


def _loop(op: str, *operands: np.ndarray) -> Any:
    x = operands[0]
    if x.dtype.kind != "f" or x.ndim > 5 or not all(of.flags.aligned for of in operands):
        return None
    return library.function("conv", f"{op} f{8 * x.itemsize}")


def _volumes(x: np.ndarray) -> np.ndarray:
    """As (n, c, d, h, w): a view."""
    view: np.ndarray = x[(slice(None), slice(None), *(None,) * (5 - x.ndim))]
    return view


def _in_volumes(steps: Sizes, pads: Sizes, gaps: Sizes) -> list[int]:
    """Of three dimensions, the first ones with one element under one window."""
    lead = 3 - len(steps)
    given = ((steps, 1), (pads, 0), (gaps, 1))
    return [min(n, _MOST) for of, one in given for n in (*(one,) * lead, *of)]
