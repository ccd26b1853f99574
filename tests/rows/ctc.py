"""Rows of native/ctc."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import float16, float32, float64, int64

from . import Fails, Row, S, T
from .criterion import MEAN, NONE, SUM

WHY = "sums of a few exponentials at each of five steps, of numbers that do not cancel"
STEPS, CLASSES, BLANK = 5, 3, 2


def _shares(x: Any, target: Any, length: int, size: int) -> Any:
    """Return (losses, the probability share of each class at each step), summed over all paths of
    classes."""
    text = [int(c) for c in target[:size]]
    total, shares = 0.0, np.zeros((len(x), CLASSES))
    for path in product(range(CLASSES), repeat=length):
        merged = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
        if [c for c in merged if c != BLANK] == text:
            weight = np.exp(sum(x[t, c] for t, c in enumerate(path)))
            total += weight
            for t, c in enumerate(path):
                shares[t, c] += weight
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.log(total), shares / total


def _texts(targets: Any, lengths: Any) -> list[Any]:
    if targets.ndim == 2:
        return list(targets)
    ends = np.cumsum(lengths)
    return [targets[end - n : end] for n, end in zip(lengths, ends)]


def _each(log_probs: Any, targets: Any, spans: Any, lengths: Any) -> list[Any]:
    x, lengths = log_probs.astype(np.float64), [int(n) for n in lengths]
    texts = _texts(targets, lengths)
    return [_shares(x[:, n], texts[n], int(spans[n]), lengths[n]) for n in range(len(lengths))]


def _loss(
    log_probs: Any, targets: Any, spans: Any, lengths: Any, blank: int = BLANK,
    reduction: int = MEAN, zero_infinity: bool = False,
) -> Any:  # fmt: skip
    losses = np.array([loss for loss, _ in _each(log_probs, targets, spans, lengths)])
    if zero_infinity:
        losses = np.where(np.isinf(losses), 0, losses)
    if reduction == MEAN:
        return (losses / np.maximum(np.array(lengths), 1)).mean()
    return losses if reduction == NONE else losses.sum()


_LOGS = T(STEPS, 2, CLASSES, values="nonzero")
_TEXTS = T(2, 2, values="zeros", dtype=int64)
_JOINED = T(3, values="zeros", dtype=int64)
_SPANS, _LENGTHS = [5, 4], [2, 1]
_COUNTS = (T(2, values="classes", dtype=int64), T(2, values="classes", dtype=int64))


def _row(name: str, samples: list[S], ref: Any, **more: Any) -> Row:
    return Row(
        name, samples, ref, ulp=512, device_ulp=512, why=WHY, dtypes=(float32, float64), **more
    )


def _fails(*args: Any, said: str, kind: Any = errors.ArgumentError, dtype: Any = float32) -> Fails:
    return Fails(S(*args), kind, f"ctc_loss: {said}", dtype)


ROWS = [
    _row(
        "_ctc_loss",
        [
            S(_LOGS, _TEXTS, _SPANS, _LENGTHS, BLANK, False),
            S(_LOGS, _TEXTS, *_COUNTS, BLANK, False),
        ],
        None,
        checked_by="tests/kernels/test_ctc.py",
        no_meta="it looks at lengths",
    ),
    _row(
        "ctc_loss",
        [
            S(_LOGS, _TEXTS, _SPANS, _LENGTHS, BLANK, NONE),
            S(_LOGS, _JOINED, _SPANS, _LENGTHS, BLANK, MEAN),
            S(_LOGS, _TEXTS, [5, 1], [1, 2], BLANK, SUM, True),
            S(_LOGS, _TEXTS, *_COUNTS, BLANK, SUM, True),
        ],
        _loss,
        no_meta="it looks at lengths",
        errors=(
            _fails(_LOGS, _TEXTS, [5, 6], _LENGTHS, said=r"'input_lengths' must hold lengths in"),
            _fails(_LOGS, _TEXTS, [5], _LENGTHS, said=r"'input_lengths' must have a length for"),
            _fails(_LOGS, _TEXTS, _SPANS, [3, 1], said=r"'target_lengths' must hold lengths in"),
            _fails(_LOGS, _TEXTS, _SPANS, _LENGTHS, 3, said=r"'blank' must be in \[0, 2\]"),
            _fails(
                _LOGS, _TEXTS, _SPANS, _LENGTHS,
                said="'log_probs' must be f32 or f64", kind=errors.DtypeError, dtype=float16,
            ),
        ),
    ),
    _row(
        "_ctc_loss_backward",
        [
            S(
                T(2), _LOGS, _TEXTS, _SPANS, _LENGTHS, T(2, values="positive"),
                T(2, STEPS, 5, values="positive"), BLANK, False,
            )
        ],
        None,
        checked_by="tests/kernels/test_ctc.py",
    ),
]  # fmt: skip
