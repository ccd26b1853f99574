"""Rows of kernels/*/criterion, and of the losses made of other operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import xlogy

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, complex64, float16, float32, float64, int64

from . import Fails, Row, S, T
from .softmax import FLOATS

NONE, MEAN, SUM = range(3)
_SHARE, _SIGNS = "positive", "powers"  # elements in [0, 1]; elements 1, -1 and others
WHY = "a few functions of some ulp each, then sums and a division; f16 and bf16 round each step"
ULP = {float16: 8, bfloat16: 8, float32: 64, float64: 64}


def _reduced(each: Any, reduction: int) -> Any:
    return each if reduction == NONE else each.mean() if reduction == MEAN else each.sum()


def _of(each: Callable[..., Any], count: int = 2) -> Callable[..., Any]:
    """Return a reference: the reduced result of `each`, a function of `count` operands and of
    numbers."""

    def ref(*args: Any, reduction: int = MEAN, **kwargs: Any) -> Any:
        operands, rest = [x.astype(np.float64) for x in args[:count]], args[count:]
        if rest:
            reduction, *rest = rest
        return _reduced(each(*operands, *rest, **kwargs), reduction)

    return ref


def _gradient(slope: Callable[..., Any]) -> Callable[..., Any]:
    def ref(grad: Any, x: Any, target: Any, reduction: int, *rest: Any) -> Any:
        made = grad * slope(x.astype(np.float64), target, *rest)
        return made / made.size if reduction == MEAN else made

    return ref


def _samples(*rest: Any, x: str = "exact", target: str = "exact") -> list[S]:
    """Return samples of each reduction, and of operands that broadcast or have one dimension
    less."""
    made = [
        S(T(2, 3, values=x), T(2, 3, values=target), reduction, *rest)
        for reduction in (NONE, MEAN, SUM)
    ]
    made += [S(T(2, 3, values=x), T(3, values=target)), S(T(values=x), T(values=target))]
    return made


def _grads(*rest: Any) -> list[S]:
    few = [S(T(), T(2, 3), T(2, 3), reduction, *rest) for reduction in (MEAN, SUM)]
    return [S(T(2, 3), T(2, 3), T(3), NONE, *rest), *few]


def _row(name: str, samples: list[S], ref: Any, **more: Any) -> Row:
    more.setdefault("dtypes", FLOATS)
    more.setdefault("out", "same")
    return Row(name, samples, ref, ulp=ULP, device_ulp=64, why=WHY, **more)


def _fails(name: str, *args: Any, said: str, kind: Any = errors.ArgumentError) -> Fails:
    return Fails(S(*args), kind, f"{name}: {said}", float32)


def _reduction(name: str, *args: Any) -> tuple[Fails, ...]:
    said = r"'reduction' must be 0 \(none\)"
    return (Fails(S(*args, 3), ValueError, f"{name}: {said}", float32),)


def _floating(name: str) -> tuple[Fails, ...]:
    pair = S(T(2, 3), T(2, 3))
    return tuple(
        Fails(pair, errors.DtypeError, f"{name}: 'self' must be floating", of)
        for of in (int64, complex64)
    )


# --- references -----------------------------------------------------------------------------------


def _smooth_l1(x: Any, target: Any, beta: float = 1.0) -> Any:
    apart = np.abs(x - target)
    return np.where(apart < beta, apart * apart / (2 * beta), apart - beta / 2)


def _huber(x: Any, target: Any, delta: float = 1.0) -> Any:
    apart = np.abs(x - target)
    return np.where(apart <= delta, apart * apart / 2, delta * (apart - delta / 2))


def _bce(x: Any, target: Any, weight: Any = None, reduction: int = MEAN) -> Any:
    with np.errstate(divide="ignore"):
        log, rest = np.maximum(np.log(x), -100), np.maximum(np.log1p(-x), -100)
    return _reduced(-(target * log + (1 - target) * rest) * _factor(weight), reduction)


def _bce_backward(grad: Any, x: Any, target: Any, weight: Any = None, reduction: int = MEAN) -> Any:
    made = grad * (x - target) / np.maximum((1 - x) * x, 1e-12) * _factor(weight)
    return made / made.size if reduction == MEAN else made


def _factor(weight: Any) -> Any:
    return 1 if weight is None else weight.astype(np.float64)


def _with_logits(
    x: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = MEAN
) -> Any:
    x, target = x.astype(np.float64), target.astype(np.float64)
    log = -np.logaddexp(0, -x) * (1 + (_factor(pos_weight) - 1) * target)
    return _reduced(((1 - target) * x - log) * _factor(weight), reduction)


def _with_logits_backward(
    grad: Any, x: Any, target: Any, weight: Any, pos_weight: Any, reduction: int
) -> Any:
    x, target = x.astype(np.float64), target.astype(np.float64)
    positive, share = _factor(pos_weight) * target, 1 / (1 + np.exp(-x))
    made = grad * ((positive + 1 - target) * share - positive) * _factor(weight)
    return made / made.size if reduction == MEAN else made


def _kl_div(x: Any, target: Any, reduction: int = MEAN, log_target: bool = False) -> Any:
    x, target = x.astype(np.float64), target.astype(np.float64)
    each = np.exp(target) * (target - x) if log_target else xlogy(target, target) - target * x
    return _reduced(each, reduction)


def _poisson(x: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int) -> Any:
    x, target = x.astype(np.float64), target.astype(np.float64)
    each = np.exp(x) - target * x if log_input else x - target * np.log(x + eps)
    if full:
        term = target * np.log(target) - target + 0.5 * np.log(2 * math.pi * target)
        each = each + np.where(target <= 1, 0, term)
    return _reduced(each, reduction)


def _hinge(x: Any, target: Any, margin: float = 1.0, reduction: int = MEAN) -> Any:
    x = x.astype(np.float64)
    each = np.where(target != 1, np.maximum(margin - x, 0), 0) + np.where(target != -1, x, 0)
    return _reduced(each, reduction)


def _ranking(x: Any, y: Any, target: Any, margin: float = 0.0, reduction: int = MEAN) -> Any:
    apart = -target.astype(np.float64) * (x.astype(np.float64) - y.astype(np.float64))
    return _reduced(np.maximum(apart + margin, 0), reduction)


def _cosine(x: Any, y: Any, target: Any, margin: float = 0.0, reduction: int = MEAN) -> Any:
    x, y = x.astype(np.float64), y.astype(np.float64)
    cosine = (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    each = np.where(target == 1, 1 - cosine, 0)
    return _reduced(each + np.where(target == -1, np.maximum(cosine - margin, 0), 0), reduction)


def _triplet(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: int = MEAN,
) -> Any:  # fmt: skip
    def distance(x: Any, y: Any) -> Any:
        apart = np.abs(x.astype(np.float64) - y.astype(np.float64) + eps)
        return (apart**p).sum(-1) ** (1 / p)

    far = distance(anchor, negative)
    if swap:
        far = np.minimum(far, distance(positive, negative))
    return _reduced(np.maximum(distance(anchor, positive) - far + margin, 0), reduction)


_BCE = [
    S(T(2, 3, values=_SHARE), T(2, 3, values=_SHARE), weight, reduction)
    for reduction, weight in (
        (NONE, None),
        (MEAN, T(3, values="positive")),
        (SUM, T(2, 3, values="positive")),
    )
]

_LOGITS = [
    S(T(2, 3), T(2, 3, values=_SHARE), weight, pos_weight, reduction)
    for reduction, weight, pos_weight in (
        (NONE, None, None),
        (MEAN, T(3, values="positive"), None),
        (SUM, None, T(3, values="positive")),
        (MEAN, T(2, 1, values="positive"), T(2, 3, values="positive")),
    )
]

ROWS = [
    _row(
        "binary_cross_entropy",
        [*_BCE, S(T(2, 3, values=_SHARE), T(2, 3, values=_SHARE))],
        _bce,
        positive=True,
        domain=(0.1, 0.9),
        errors=(
            *_floating("binary_cross_entropy"),
            *_reduction("binary_cross_entropy", T(2), T(2), None),
        ),
    ),
    _row(
        "binary_cross_entropy_backward",
        [S(T(2, 3), *_BCE[0].args), *[S(T(), *s.args) for s in _BCE[1:]]],
        _bce_backward,
        positive=True,
        domain=(0.1, 0.9),
    ),
    _row(
        "binary_cross_entropy_with_logits",
        _LOGITS,
        _with_logits,
        positive=True,
        errors=_reduction("binary_cross_entropy_with_logits", T(2), T(2), None, None),
    ),
    _row(
        "_binary_cross_entropy_with_logits_backward",
        [S(T(2, 3), *_LOGITS[0].args), *[S(T(), *s.args) for s in _LOGITS[1:]]],
        _with_logits_backward,
        positive=True,
        of_largest=True,
    ),
    _row(
        "cosine_embedding_loss",
        [
            *[S(T(4, 3), T(4, 3), T(4, values=_SIGNS), 0.5, reduction) for reduction in range(3)],
            S(T(3), T(3), T(values=_SIGNS)),
        ],
        _cosine,
        errors=(
            _fails(
                "cosine_embedding_loss",
                T(3),
                T(2, 3),
                T(),
                said="'input2' must have 1 dim",
                kind=errors.ShapeError,
            ),
            _fails(
                "cosine_embedding_loss",
                T(3),
                T(3),
                T(2, 2),
                said="'target' must have at most",
                kind=errors.ShapeError,
            ),
        ),
    ),
    _row(
        "hinge_embedding_loss",
        [S(T(4), T(4, values=_SIGNS), 0.5, reduction) for reduction in range(3)]
        + [S(T(2, 3), T(2, 3, values=_SIGNS))],
        _hinge,
    ),
    _row(
        "huber_loss",
        _samples() + _samples(0.5)[:1],
        _of(_huber),
        errors=(
            *_floating("huber_loss"),
            _fails("huber_loss", T(2), T(2), MEAN, 0.0, said="'delta' must be positive"),
        ),
    ),
    _row(
        "huber_loss_backward",
        _grads(0.5),
        _gradient(lambda x, target, delta: np.clip(x - target, -delta, delta)),
    ),
    _row(
        "kl_div",
        _samples(target="positive")
        + [S(T(2, 3), T(2, 3), reduction, log_target=True) for reduction in range(3)],
        _kl_div,
        errors=_floating("kl_div")[:1],
    ),
    _row("l1_loss", _samples(), _of(lambda x, target: np.abs(x - target))),
    _row(
        "margin_ranking_loss",
        [S(T(4), T(4), T(4, values=_SIGNS), 0.5, reduction) for reduction in range(3)]
        + [S(T(2, 3), T(2, 3), T(2, 3, values=_SIGNS))],
        _ranking,
    ),
    _row(
        "mse_loss",
        _samples(),
        _of(lambda x, target: (x - target) ** 2),
        errors=(*_floating("mse_loss"), *_reduction("mse_loss", T(2), T(2))),
    ),
    _row(
        "mse_loss_backward",
        _grads(),
        _gradient(lambda x, target: 2 * (x - target)),
        errors=_reduction("mse_loss_backward", T(2), T(2), T(2)),
    ),
    _row(
        "poisson_nll_loss",
        [
            S(T(2, 3, values="positive"), T(2, 3, values="positive"), *flags, 1e-3, reduction)
            for reduction in range(3)
            for flags in ((False, True), (True, False))
        ],
        _poisson,
    ),
    _row(
        "smooth_l1_loss",
        _samples() + _samples(0.5)[:1],
        _of(_smooth_l1),
        errors=(
            *_floating("smooth_l1_loss"),
            _fails("smooth_l1_loss", T(2), T(2), MEAN, -1.0, said="'beta' must not be negative"),
        ),
    ),
    _row(
        "smooth_l1_loss_backward",
        _grads(0.5),
        _gradient(lambda x, target, beta: np.clip((x - target) / beta, -1, 1)),
    ),
    _row(
        "soft_margin_loss",
        _samples(target=_SIGNS),
        _of(lambda x, target: np.log1p(np.exp(-target * x))),
        errors=_floating("soft_margin_loss"),
    ),
    _row(
        "soft_margin_loss_backward",
        _grads(),
        _gradient(lambda x, target: -target / (1 + np.exp(target * x))),
    ),
    _row(
        "triplet_margin_loss",
        [
            *[
                S(T(4, 3), T(4, 3), T(4, 3), 0.5, 2.0, 1e-3, swap, r)
                for r in range(3)
                for swap in (False, True)
            ],
            S(T(4, 3), T(4, 3), T(4, 3), p=3.0),
        ],
        _triplet,
        errors=(
            _fails("triplet_margin_loss", T(3), T(3), T(3), 0.0, said="'margin' must be positive"),
            _fails(
                "triplet_margin_loss",
                T(2, 3),
                T(3),
                T(2, 3),
                said="'positive' must have 2 d",
                kind=errors.ShapeError,
            ),
        ),
    ),
]
