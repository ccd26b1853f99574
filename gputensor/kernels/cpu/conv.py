"""Convolutions: the library's loops, or products composed by native/conv.py without the library.

The functions here replace the library's: they return False and do nothing.
"""

from __future__ import annotations

import numpy as np

Sizes = tuple[int, ...]


def conv(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, out: np.ndarray, steps: Sizes,
    pads: Sizes, gaps: Sizes, groups: int, transposed: bool,
) -> bool:  # fmt: skip
    """Write the convolution of x (N, C, *sizes) with weight to `out`. Returns: whether it is
    done."""
    return False


def weight_gradient(
    x: np.ndarray, grad: np.ndarray, out: np.ndarray, steps: Sizes, pads: Sizes, gaps: Sizes,
    groups: int,
) -> bool:  # fmt: skip
    """Write the gradient of the weights of a plain convolution of x to `out`. Returns: whether it
    is done."""
    return False
