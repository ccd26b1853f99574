"""Convolutions by the compiled loops of loops/conv.cpp. native/conv.py computes all other
convolutions as matrix products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import library
from .pool_windows import in_volumes, of_volumes

Sizes = tuple[int, ...]
# Upper limit of strides and dilations. Larger values give the same result: a stride of this size
# occurs only with a single window, and a dilation of this size only with a kernel of one element.
_MOST = 1 << 62


def conv(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, out: np.ndarray, steps: Sizes,
    pads: Sizes, gaps: Sizes, groups: int, transposed: bool,
) -> bool:  # fmt: skip
    """Write the convolution of x (N, C, *sizes) with `weight` to `out`. Return False if the loop
    declines."""
    loop = _loop("conv", x, weight, *(() if bias is None else (bias,)))
    if loop is None:
        return False
    numbers = (*_numbers(steps, pads, gaps), groups, int(transposed))
    volumes, kernel, made = (of_volumes(of, len(steps)) for of in (x, weight, out))
    return _is_done(loop(volumes, kernel, bias, made, *numbers))


def weight_gradient(
    x: np.ndarray, grad: np.ndarray, out: np.ndarray, steps: Sizes, pads: Sizes, gaps: Sizes,
    groups: int,
) -> bool:  # fmt: skip
    """Write the weight gradient of a plain convolution of x to `out`. Return False if the loop
    declines."""
    loop = _loop("weight_gradient", x, grad)
    if loop is None:
        return False
    numbers = (*_numbers(steps, pads, gaps), groups)
    arrays = [of_volumes(of, len(steps)) for of in (x, grad, out)]
    return _is_done(loop(*arrays, *numbers))


def _is_done(answer: int) -> bool:
    """Return True if the loop accepted the call. Raises: MemoryError if the loop could not allocate
    its panels. The caller does not compute matrix products instead, because they need even more
    memory."""
    if answer < 0:
        raise MemoryError
    return answer == 0


def _loop(op: str, *operands: np.ndarray) -> Any:
    x = operands[0]
    if x.dtype.kind != "f" or x.ndim > 5 or not all(of.flags.aligned for of in operands):
        return None
    return library.function("conv", f"{op} f{8 * x.itemsize}")


def _numbers(steps: Sizes, pads: Sizes, gaps: Sizes) -> list[int]:
    return [min(n, _MOST) for n in in_volumes((steps, pads, gaps), (1, 0, 1))]
