"""Normalisation of rows and channels to mean 0 and variance 1, with scale and shift; its gradients.
                                                                                      family: norm

Types    f16 and bf16 in f32, rounded once. For f16 and bf16 the parameters, their gradients and the
         statistics are f32; `normalized` accepts and returns any floating dtype.
Order    of sums: NumPy's, determined by the layout.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import cast


def normalized(
    x: np.ndarray, scale: Any, shift: Any, eps: float, out: np.ndarray, mean: np.ndarray | None,
    rstd: np.ndarray,
) -> None:  # fmt: skip
    """Write x (R, …), normalised over all dimensions except the first, to `out`, and the statistics
    to `mean` and `rstd`. scale and shift: (R or 1, …) or None. If mean is None, divide each row by
    its root mean square."""
    found, middle, _, one_by = _normal(x, tuple(range(1, x.ndim)), eps, mean is not None)
    out[...] = _affine(found, scale, shift)
    if mean is not None:
        mean[...] = middle.reshape(mean.shape)
    rstd[...] = one_by.reshape(rstd.shape)


def normalized_backward(
    grad: np.ndarray, x: np.ndarray, mean: np.ndarray | None, rstd: np.ndarray, weight: Any,
    of_x: Any, of_weight: Any, of_bias: Any,
) -> None:  # fmt: skip
    """Write the gradients of x (R, n), weight and bias to of_x, of_weight and of_bias. Each of
    these three arrays is None if its gradient is not requested. weight: (n) or None. mean: None if
    rows were divided by their root mean square."""
    statistics = None if mean is None else mean[:, None], rstd[:, None]
    _backward(grad, x, *statistics, weight, 1, 0, of_x, of_weight, of_bias)


def grouped_backward(
    grad: np.ndarray, x: np.ndarray, mean: np.ndarray, rstd: np.ndarray, weight: Any, of_x: Any,
    of_weight: Any, of_bias: Any,
) -> None:  # fmt: skip
    """Write the gradients of x (N, G, D, S), which was normalised over D and S, of weight and of
    bias. mean and rstd have N * G elements. weight has G * D elements."""
    sizes = (*x.shape[:2], 1, 1)
    statistics = mean.reshape(sizes), rstd.reshape(sizes)
    weight = None if weight is None else weight.reshape(*x.shape[1:3], 1)
    _backward(grad, x, *statistics, weight, (2, 3), (0, 3), of_x, of_weight, of_bias)


def channels_normalized(
    x: np.ndarray, scale: Any, shift: Any, eps: float, out: np.ndarray, mean: np.ndarray,
    variance: np.ndarray, rstd: np.ndarray,
) -> None:  # fmt: skip
    """Write x (N, C, S), normalised over all dimensions except C, to `out`, and the statistics to
    `mean`, `variance` and `rstd`. scale, shift and the statistics: (C)."""
    found, *statistics = _normal(x, (0, 2), eps)
    out[...] = _affine(found, _along(scale), _along(shift))
    for to, of in zip((mean, variance, rstd), statistics):
        to[...] = of.reshape(-1)


def channels_scaled(
    x: np.ndarray, mean: np.ndarray, variance: np.ndarray, eps: float, scale: Any, shift: Any,
    out: np.ndarray,
) -> None:  # fmt: skip
    """Write x, normalised with the given statistics of its channels, to `out`."""
    found = (wide(x) - _along(mean)) / np.sqrt(_along(variance) + eps)
    out[...] = _affine(found, _along(scale), _along(shift))


def channels_backward(
    grad: np.ndarray, x: np.ndarray, mean: np.ndarray, rstd: np.ndarray, weight: Any,
    are_found: bool, of_x: Any, of_weight: Any, of_bias: Any,
) -> None:  # fmt: skip
    """Write the gradients of x (N, C, S), weight and bias, as `normalized_backward` does for rows.
    are_found: True if mean and rstd were computed from x, False if they were given.
    """
    axes = (0, 2) if are_found else ()
    statistics = _along(mean), _along(rstd)
    _backward(grad, x, *statistics, _along(weight), axes, (0, 2), of_x, of_weight, of_bias)


def _along(x: Any) -> Any:
    return None if x is None else x[:, None]


def _normal(
    x: np.ndarray, axes: Any, eps: float, is_centered: bool = True
) -> tuple[Any, Any, Any, Any]:
    """Return x normalised to mean 0 and variance 1, its mean, its variance, and the reciprocal of
    its standard deviation. If is_centered is False, subtract no mean, and return None as the
    mean."""
    given = wide(x)
    mean = given.mean(axes, keepdims=True) if is_centered else None
    found = given if mean is None else given - mean
    variance = (found * found).mean(axes, keepdims=True)
    rstd = 1 / np.sqrt(variance + eps)
    return found * rstd, mean, variance, rstd


def _affine(x: np.ndarray, scale: Any, shift: Any) -> np.ndarray:
    x = x if scale is None else x * wide(scale)
    return x if shift is None else x + wide(shift)


def _backward(
    grad: np.ndarray, x: np.ndarray, mean: np.ndarray | None, rstd: np.ndarray, weight: Any,
    axes: Any, rows: Any, of_x: Any, of_weight: Any, of_bias: Any,
) -> None:  # fmt: skip
    """Write the gradients of x, weight and bias. axes: the axes of the statistics; empty if the
    statistics do not depend on x. rows: the axes along which a weight is shared. mean: None if no
    mean was subtracted."""
    grad, centered = wide(grad), wide(x) if mean is None else wide(x) - mean
    normal = centered * rstd
    if of_x is not None:
        made = grad if weight is None else grad * weight
        if axes != ():
            along = (made * normal).mean(axes, keepdims=True)
            if mean is not None:
                made = made - made.mean(axes, keepdims=True)
            made = made - normal * along
        of_x[...] = made * rstd
    if of_weight is not None:
        of_weight[...] = (grad * normal).sum(rows).reshape(-1)
    if of_bias is not None:
        of_bias[...] = grad.sum(rows).reshape(-1)


def wide(x: np.ndarray) -> np.ndarray:
    """Cast f16 and bf16 to f32; return other arrays unchanged."""
    if x.dtype.itemsize > 2:
        return x
    return cast.widened(x) if x.dtype == np.float16 else x.astype(np.float32)
