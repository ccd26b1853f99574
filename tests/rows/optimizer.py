"""Rows of native/optimizer.py; tests/optim/test_fused_steps.py and an oracle test
compare the values."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import float32, float64, int64

from . import Fails, Row, S, T

_P, _G = [T(2, 3), T(4)], [T(2, 3), T(4)]
_POSITIVE = [T(2, 3, values="positive"), T(4, values="positive")]
_STEPS = [T(values="ones", dtype=float32), T(values="ones", dtype=float32)]
_ADAM = {
    "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8, "amsgrad": False,
    "maximize": False,
}  # fmt: skip
_SGD = {
    "weight_decay": 0.1, "momentum": 0.9, "dampening": 0.0, "nesterov": True, "maximize": False,
    "is_first_step": False,
}  # fmt: skip
_ADAGRAD = {"lr_decay": 0.1, "weight_decay": 0.0, "eps": 1e-8, "maximize": True}
_RATE = T(values="exact", dtype=float32)
_KIND: dict[str, Any] = {
    "ref": lambda *args, **kwargs: np.asarray(None), "dtypes": (float32, float64),
    "refuses_expanded": True,
}  # fmt: skip


def _adam(name: str) -> Row:
    lists = (_P, _G, [T(2, 3), T(4)], _POSITIVE, [], _STEPS)
    return Row(
        name, [S(*lists, lr=0.1, **_ADAM), S(*lists, lr=_RATE, **_ADAM)], **_KIND,
        errors=(
            Fails(S(_P, _G[:1], *lists[2:], lr=0.1, **_ADAM), errors.ArgumentError,
                  f"{name}: 'grads' must hold 2 tensors, as self", float32),
            Fails(S(*lists[:5], _STEPS[:1], lr=0.1, **_ADAM), errors.ArgumentError,
                  f"{name}: 'state_steps' must hold 2 tensors, as self", float32),
        ),
    )  # fmt: skip


_SUMS = (_P, _G, _POSITIVE, _STEPS)
_BUFFERS = (_P, _G, [T(2, 3), T(4)])

ROWS = [
    Row(
        "_fused_adagrad_", [S(*_SUMS, lr=0.1, **_ADAGRAD), S(*_SUMS, lr=_RATE, **_ADAGRAD)],
        **_KIND,
        errors=(
            Fails(S(_P, [T(2, 3), T(5)], *_SUMS[2:], lr=0.1, **_ADAGRAD), errors.ShapeError,
                  "_fused_adagrad_: 'grads' must have sizes", float32),
        ),
    ),
    _adam("_fused_adam_"),
    _adam("_fused_adamw_"),
    Row(
        "_fused_sgd_", [S(*_BUFFERS, lr=0.1, **_SGD), S(*_BUFFERS, lr=_RATE, **_SGD)],
        **_KIND,
        errors=(
            Fails(S([T(2, dtype=int64)], [T(2, dtype=int64)], [T(2, dtype=int64)], lr=0.1, **_SGD),
                  errors.DtypeError, "_fused_sgd_: 'self' must be floating", int64),
        ),
    ),
]  # fmt: skip
