"""Rows of native/margin: losses composed of other operators, with their own gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import float32, int32, int64

from . import Fails, Row, S, T
from .criterion import MEAN, NONE, ULP, WHY
from .softmax import FLOATS


def _target(*sizes: int, dtype: Any = int64) -> T:
    return T(*sizes, values="classes", dtype=dtype)


def _reduced(losses: Any, sizes: Any, reduction: int) -> Any:
    if reduction == NONE:
        return np.array(losses).reshape(sizes)
    return np.mean(losses) if reduction == MEAN else np.sum(losses)


def _margin(
    x: Any, target: Any, p: Any = 1, margin: Any = 1, weight: Any = None, reduction: int = MEAN
) -> Any:
    rows, losses = x.astype(np.float64).reshape(target.size, -1), []
    for row, t in zip(rows, target.reshape(-1)):
        apart = np.delete(np.maximum(margin - row[t] + row, 0) ** p, t)
        losses.append(apart.sum() / row.size * (1 if weight is None else float(weight[t])))
    return _reduced(losses, target.shape, reduction)


def _margin_backward(
    grad: Any, x: Any, target: Any, p: Any, margin: Any, weight: Any = None, reduction: int = MEAN
) -> Any:
    rows = x.astype(np.float64).reshape(target.size, -1)
    made, shares = np.zeros_like(rows), np.broadcast_to(grad.reshape(-1), (target.size,))
    for n, t in enumerate(target.reshape(-1)):
        apart = margin - rows[n, t] + rows[n]
        slope = np.where(apart > 0, 1 if p == 1 else 2 * apart, 0)
        slope[t] = 0
        slope[t] = -slope.sum()
        made[n] = slope * shares[n] / rows.shape[1] * (1 if weight is None else float(weight[t]))
    return (made / len(rows) if reduction == MEAN else made).reshape(x.shape)


def _labels(row: Any) -> Any:
    return row[: np.argmax(row < 0)] if (row < 0).any() else row


def _multilabel(x: Any, target: Any, reduction: int = MEAN) -> list[Any]:
    rows = x.astype(np.float64).reshape(-1, x.shape[-1])
    losses, made = [], np.zeros(rows.shape)
    for row, labels, is_target in zip(rows, target.reshape(rows.shape), made):
        is_target[_labels(labels)] = 1
        others = row[is_target == 0]
        losses.append(sum(np.maximum(1 - row[t] + others, 0).sum() for t in _labels(labels)))
    losses = np.array(losses) / x.shape[-1]
    return [_reduced(losses, x.shape[:-1], reduction), made.reshape(x.shape)]


def _multilabel_backward(grad: Any, x: Any, target: Any, reduction: int, is_target: Any) -> Any:
    rows = x.astype(np.float64).reshape(-1, x.shape[-1])
    made, shares = np.zeros_like(rows), np.broadcast_to(grad.reshape(-1), (len(rows),))
    for n, labels in enumerate(target.reshape(rows.shape)):
        found = _labels(labels)
        for t in found:
            over = (1 - rows[n, t] + rows[n] > 0) & ~np.isin(np.arange(rows.shape[1]), found)
            made[n] += over * shares[n]
            made[n, t] -= over.sum() * shares[n]
    made = made / rows.shape[1] / (len(rows) if reduction == MEAN else 1)
    return made.reshape(x.shape)


_APART = (0.3, 1.73)  # no difference of two of these numbers equals a margin


def _row(name: str, samples: list[S], ref: Any, **more: Any) -> Row:
    return Row(
        name, samples, ref, ulp=ULP, device_ulp=64, why=WHY, dtypes=FLOATS, domain=_APART, **more
    )


_WEIGHT = T(3, values="positive")
_ONE = [
    S(T(5, 3), _target(5), p, 0.5, weight, reduction)
    for reduction, p, weight in ((NONE, 1, None), (MEAN, 2, _WEIGHT), (2, 1, _WEIGHT))
]
_MANY = [S(T(5, 3), _target(5, 3), reduction) for reduction in range(3)]
_MANY.append(S(T(3), _target(3), NONE))


def _fails(name: str, target: T, message: str, *rest: Any, kind: Any = errors.ShapeError) -> Fails:
    return Fails(S(T(2, 3), target, *rest), kind, f"{name}: {message}", float32)


ROWS = [
    _row(
        "multi_margin_loss",
        [*_ONE, S(T(3), _target()), S(T(5, 3), _target(5))],
        _margin,
        out="same",
        errors=(
            _fails("multi_margin_loss", _target(3), "'target' must have a class for each row, 2"),
            _fails(
                "multi_margin_loss",
                _target(2, dtype=int32),
                "'target' must hold classes as int64",
                kind=errors.DtypeError,
            ),
            _fails(
                "multi_margin_loss",
                _target(2),
                "'weight' must have 3 elements",
                1,
                1,
                T(2),
            ),
            _fails(
                "multi_margin_loss", _target(2), "'p' must be 1 or 2", 3, kind=errors.ArgumentError
            ),
        ),
    ),
    _row(
        "multi_margin_loss_backward",
        [S(T(5), *_ONE[0].args), *[S(T(), *sample.args) for sample in _ONE[1:]]],
        _margin_backward,
    ),
    _row(
        "multilabel_margin_loss",
        [*_MANY, S(T(5, 3), _target(5, 3))],
        lambda *args: _multilabel(*args)[0],
        out="same",
    ),
    _row(
        "multilabel_margin_loss_backward",
        [
            S(T(5), *_MANY[0].args, T(5, 3)),
            *[S(T(), *sample.args, T(*sample.args[0].sizes)) for sample in _MANY[1:]],
        ],
        _multilabel_backward,
    ),
    _row(
        "multilabel_margin_loss_forward",
        _MANY,
        _multilabel,
        errors=(
            _fails(
                "multilabel_margin_loss",
                _target(2, 2),
                r"'target' must have self's sizes \[2, 3\]",
                MEAN,
            ),
        ),
    ),
]
