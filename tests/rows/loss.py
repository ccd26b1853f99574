"""Rows of kernels/*/loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, float16, float32, float64, int32, int64, uint8

from . import Fails, Row, S, T
from .softmax import FLOATS, WHY, log_softmax

NONE, MEAN, SUM = range(3)
_SUMS = {float16: 2, bfloat16: 2, float32: 32, float64: 32}
_SUM_WHY = "sums of at most 3,000 terms of one sign, pairwise or 256 apart, and one division"


def _target(*sizes: int, dtype: Any = int64) -> T:
    return T(*sizes, values="classes", dtype=dtype)


def _each(
    x: np.ndarray, target: np.ndarray, weight: Any, ignore: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted losses and the weights of all rows."""
    x = x.astype(np.float64).reshape(-1, x.shape[-1])
    target = target.reshape(-1).astype(np.int64)
    w = np.ones(x.shape[1]) if weight is None else weight.astype(np.float64)
    kept = target != ignore
    at = np.where(kept, target, 0)
    weights = w[at] * kept
    return np.where(kept, -x[np.arange(at.size), at], 0) * weights, weights


def _forward(x, target, weight=None, reduction=MEAN, ignore_index=-100):
    losses, weights = _each(x, target, weight, ignore_index)
    if reduction == NONE:
        return [losses.reshape(x.shape[:-1]), weights.sum() if x.ndim == 1 else np.float64(0)]
    total = losses.sum()
    return [total / weights.sum() if reduction == MEAN else total, weights.sum()]


def _nll_loss(*args: Any, **kwargs: Any) -> Any:
    return _forward(*args, **kwargs)[0]


def _backward(grad, x, target, weight, reduction, ignore_index, total_weight):
    made = np.zeros((target.size, x.shape[-1]))
    _, weights = _each(x, target, weight, ignore_index)
    g = grad.astype(np.float64) / (total_weight.astype(np.float64) if reduction == MEAN else 1)
    index = np.where(target == ignore_index, 0, target).reshape(-1)
    made[np.arange(index.size), index] = np.broadcast_to(-g * weights, index.shape)
    return made.reshape(x.shape)


def _nd(x, target, weight=None, reduction=MEAN, ignore_index=-100):
    flat = np.moveaxis(x, 1, -1) if x.ndim > 1 else x
    found = _nll_loss(flat.reshape(-1, flat.shape[-1]), target, weight, reduction, ignore_index)
    return found.reshape(flat.shape[:-1]) if reduction == NONE else found


def _cross_entropy(x, target, weight=None, reduction=MEAN, ignore_index=-100, label_smoothing=0.0):
    dim = 1 if x.ndim > 1 else 0
    classes = x.shape[dim]
    logs = np.moveaxis(log_softmax(x.astype(np.float64), dim), dim, -1).reshape(-1, classes)
    w = np.ones(classes) if weight is None else weight.astype(np.float64)
    if target.shape == x.shape:
        t = np.moveaxis(target.astype(np.float64), dim, -1).reshape(-1, classes)
        kept, count = np.ones(len(t), bool), len(t)
        t = t * (1 - label_smoothing) + label_smoothing / classes
    else:
        flat = target.reshape(-1).astype(np.int64)
        kept = flat != ignore_index
        at = np.where(kept, flat, 0)
        t = np.eye(classes)[at] * (1 - label_smoothing) + label_smoothing / classes
        count = (w[at] * kept).sum()
    each = -(logs * t * w).sum(1) * kept
    if reduction == NONE:
        return each.reshape(
            target.shape if target.shape != x.shape else x.shape[:dim] + x.shape[dim + 1 :]
        )
    return each.sum() / count if reduction == MEAN else each.sum()


def _samples(*, defaults: bool) -> list[S]:
    """Return samples of reductions, with and without weights and ignored rows; some omit arguments
    with defaults."""
    made = []
    for reduction in (NONE, MEAN, SUM):
        for weight in (None, T(3, values="positive")):
            for ignored in (-100, 1):
                made.append(S(T(5, 3), _target(5), weight, reduction, ignored))
        made.append(S(T(3), _target(), None, reduction, -100))
        made.append(S(T(7, 4), _target(7, dtype=uint8), T(4, values="positive"), reduction, -100))
        made.append(S(T(3000, 3, values="positive"), _target(3000), None, reduction, -100))
    made += [S(T(0, 3), _target(0), None, reduction, -100) for reduction in (NONE, SUM)]
    if defaults:
        made += [S(T(5, 3), _target(5)), S(T(5, 3), _target(5), reduction=SUM)]
    return made


def _refusals(*rest: Any) -> tuple[Fails, ...]:
    op = "nll_loss"
    return (
        Fails(
            S(T(2, 3), _target(3), None, *rest),
            errors.ShapeError,
            rf"{op}: 'target' must have a class for each",
        ),
        Fails(
            S(T(2, 3), _target(2, dtype=int32), None, *rest),
            errors.DtypeError,
            f"{op}: 'target' must hold classes as",
        ),
        Fails(
            S(T(2, 3), _target(2), None, *rest),
            errors.DtypeError,
            f"{op}: 'self' must be floating",
            int64,
        ),
        Fails(
            S(T(2, 3), _target(2), T(4), *rest),
            errors.ShapeError,
            rf"{op}: 'weight' must be f32\[3\]",
            float32,
        ),
    )


_GRADS = [
    S(
        T(*(() if reduction else (5,)), values="positive"),
        T(5, 3),
        _target(5),
        weight,
        reduction,
        ignored,
        T(values="positive"),
    )
    for reduction in (NONE, MEAN, SUM)
    for weight in (None, T(3, values="positive"))
    for ignored in (-100, 1)
] + [
    S(T(values="positive"), T(3), _target(), None, MEAN, -100, T(values="positive")),
    S(T(values="positive"), T(0, 3), _target(0), None, SUM, -100, T(values="positive")),
    S(
        T(values="positive"),
        T(300, 3),
        _target(300, dtype=uint8),
        None,
        MEAN,
        -100,
        T(values="positive"),
    ),
]
_HIGH = [
    S(T(2, 3, 4), _target(2, 4), None, NONE),
    S(T(2, 3, 4, 2), _target(2, 4, 2), T(3, values="positive")),
    S(T(2, 3, 0), _target(2, 0), None, SUM),
]


def _pixels(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])


def _forward2d(x, target, *rest):
    loss, total = _forward(_pixels(x), target.reshape(-1), *rest)
    return [np.reshape(loss, target.shape) if np.ndim(loss) else loss, total]


def _backward2d(grad, x, target, *rest):
    made = _backward(grad.reshape(-1), _pixels(x), target.reshape(-1), *rest)
    n, c, h, w = x.shape
    return np.moveaxis(made.reshape(n, h, w, c), -1, 1)


_PLANES = [
    S(T(2, 3, 2, 2), _target(2, 2, 2), weight, reduction, ignored)
    for reduction, weight, ignored in (
        (NONE, T(3, values="positive"), 1),
        (MEAN, T(3, values="positive"), -100),
        (SUM, None, -100),
    )
]


def _with_logs(x, target, *rest):
    dim = 0 if x.ndim == 1 else 1
    logs = log_softmax(x.astype(np.float64), dim)
    forward = _forward2d if x.ndim == 4 else _forward
    loss, total = forward(logs, target, *rest)
    return [loss, logs, total]


def _gradient(grad, logs, target, *rest):
    backward = _backward2d if logs.ndim == 4 else _backward
    made, logs = backward(grad, logs, target, *rest), logs.astype(np.float64)
    return made - np.exp(logs) * made.sum(0 if logs.ndim == 1 else 1, keepdims=True)


ROWS = [
    Row(
        "_cross_entropy",
        [
            *[
                S(T(5, 3), _target(5), T(3, values="positive"), reduction, 1)
                for reduction in (NONE, MEAN, SUM)
            ],
            S(T(3), _target(), None, MEAN, -100),
            *_PLANES,
        ],
        _with_logs,
        ulp={float16: 16, bfloat16: 16, float32: 128, float64: 128},
        device_ulp=128,
        why=f"{WHY}; f16 and bf16 are rounded between the operators it is made of",
        dtypes=FLOATS,
    ),
    Row(
        "_cross_entropy_backward",
        [
            S(
                T(*(() if sample.args[3] else (2, 2, 2)), values="positive"),
                *sample.args,
                T(values="positive"),
            )
            for sample in _PLANES
        ],
        _gradient,
        ulp={float16: 16, bfloat16: 16, float32: 128, float64: 128},
        device_ulp=128,
        of_largest=True,
        why=f"{WHY}; f16 and bf16 are rounded between the operators it is made of",
        dtypes=FLOATS,
    ),
    Row(
        "cross_entropy_loss",
        [
            *[
                S(T(5, 3), _target(5), weight, reduction, ignored, smoothing)
                for reduction in (NONE, MEAN, SUM)
                for weight in (None, T(3, values="positive"))
                for ignored in (-100, 1)
                for smoothing in (0.0, 0.1)
            ],
            *[
                S(T(5, 3), T(5, 3, values="positive"), weight, reduction, -100, smoothing)
                for reduction in (NONE, MEAN, SUM)
                for weight in (None, T(3, values="positive"))
                for smoothing in (0.0, 0.1)
            ],
            S(T(3), _target()),
            S(T(5, 3), _target(5)),
            *_HIGH,
        ],
        _cross_entropy,
        ulp={float16: 16, bfloat16: 16, float32: 128, float64: 128},
        device_ulp=128,
        why=f"{WHY}; f16 and bf16 are rounded between the operators it is made of",
        dtypes=FLOATS,
        errors=(
            Fails(
                S(T(5, 3), _target(5), label_smoothing=2.0),
                errors.ArgumentError,
                r"cross_entropy: 'label_smoothing' must be in \[0, 1\]",
            ),
            Fails(
                S(T(2, 3), _target(2, 3)),
                errors.DtypeError,
                "cross_entropy: 'target' must be floating",
            ),
        ),
    ),
    Row(
        "nll_loss",
        _samples(defaults=True),
        _nll_loss,
        ulp=_SUMS,
        device_ulp=32,
        why=_SUM_WHY,
        dtypes=FLOATS,
        errors=_refusals(),
    ),
    Row(
        "nll_loss2d",
        [*_PLANES, S(T(2, 3, 2, 2), _target(2, 2, 2))],
        _nd,
        ulp=_SUMS,
        device_ulp=32,
        why=_SUM_WHY,
        dtypes=FLOATS,
        errors=(
            Fails(
                S(T(2, 3, 4), _target(2, 4)),
                errors.ShapeError,
                "nll_loss2d: 'self' must have four dimensions",
            ),
            Fails(
                S(T(2, 3, 4, 1), _target(2, 4)),
                errors.ShapeError,
                r"nll_loss2d: 'target' must have self's sizes but for the classes, \[2, 4, 1\]",
            ),
        ),
    ),
    Row(
        "nll_loss2d_backward",
        [
            S(
                T(*(() if sample.args[3] else (2, 2, 2)), values="positive"),
                *sample.args,
                T(values="positive"),
            )
            for sample in _PLANES
        ],
        _backward2d,
        ulp={float16: 1, bfloat16: 1, float32: 2, float64: 2},
        device_ulp=2,
        why="a quotient and a product, in f32 for f16 and bf16",
        dtypes=FLOATS,
        errors=(
            Fails(
                S(T(4), T(2, 3, 2, 2), _target(2, 2, 2), None, NONE, -100, T()),
                errors.ShapeError,
                "nll_loss2d_backward: 'grad_output' must have target's sizes",
                float32,
            ),
        ),
    ),
    Row(
        "nll_loss2d_forward",
        _PLANES,
        _forward2d,
        ulp=_SUMS,
        device_ulp=32,
        why=_SUM_WHY,
        dtypes=FLOATS,
    ),
    Row(
        "nll_loss_backward",
        _GRADS,
        _backward,
        ulp={float16: 1, bfloat16: 1, float32: 2, float64: 2},
        device_ulp=2,
        why="a quotient and a product, in f32 for f16 and bf16",
        dtypes=FLOATS,
        errors=(
            Fails(
                S(T(4), T(5, 3), _target(5), None, NONE, -100, T()),
                errors.ArgumentError,
                r"nll_loss_backward: 'grad_output' must be f32\[5\]",
                float32,
            ),
        ),
    ),
    Row(
        "nll_loss_forward",
        _samples(defaults=False),
        _forward,
        ulp=_SUMS,
        device_ulp=32,
        why=_SUM_WHY,
        dtypes=FLOATS,
        errors=(
            *_refusals(MEAN, -100),
            Fails(
                S(T(2, 3), _target(2), None, 3, -100), ValueError, "nll_loss: 'reduction' must be 0"
            ),
        ),
    ),
    Row(
        "nll_loss_nd",
        [S(T(5, 3), _target(5)), S(T(3), _target()), *_HIGH],
        _nd,
        ulp=_SUMS,
        device_ulp=32,
        why=_SUM_WHY,
        dtypes=FLOATS,
        errors=(
            Fails(
                S(T(2, 3, 4), _target(2, 3)),
                errors.ShapeError,
                "nll_loss: 'target' must have self's sizes",
            ),
        ),
    ),
]
