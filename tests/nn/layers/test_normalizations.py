"""Derivatives of normalisations of any order equal those of their composition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.nn import functional as F

EPS = 1e-5
Function = Callable[..., Any]
_random = np.random.default_rng(0)
_MEAN, _VAR = gt.from_numpy(_random.standard_normal(4)), gt.from_numpy(_random.random(4) + 0.5)


def _normal(x: Any, dims: Any, weight: Any = None, bias: Any = None) -> Any:
    centered = x - x.mean(dims, keepdim=True)
    made = centered / ((centered * centered).mean(dims, keepdim=True) + EPS).sqrt()
    return made if weight is None else made * weight + bias


def _groups(x: Any, weight: Any, bias: Any) -> Any:
    made = _normal(x.reshape(3, 2, 10), -1).reshape(3, 4, 5)
    return made * weight[:, None] + bias[:, None]


def _given(x: Any, weight: Any, bias: Any) -> Any:
    made = (x - _MEAN[:, None]) / (_VAR[:, None] + EPS).sqrt()
    return made * weight[:, None] + bias[:, None]


CASES: dict[str, tuple[tuple[int, ...], int, Function, Function]] = {
    "layer_norm": (
        (5, 6), 6, lambda x, w, b: F.layer_norm(x, (6,), w, b), lambda x, *p: _normal(x, -1, *p),
    ),
    "layer_norm of one row": (
        (6,), 6, lambda x, w, b: F.layer_norm(x, (6,), w, b), lambda x, *p: _normal(x, -1, *p),
    ),
    "layer_norm without weights": (
        (5, 3, 4), 0, lambda x: F.layer_norm(x, (3, 4)), lambda x: _normal(x, (1, 2)),
    ),
    "group_norm": ((3, 4, 5), 4, lambda x, w, b: F.group_norm(x, 2, w, b), _groups),
    "batch_norm": (
        (3, 4, 5), 4, lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        lambda x, w, b: _normal(x, (0, 2), w[:, None], b[:, None]),
    ),
    "batch_norm by running statistics": (
        (3, 4, 5), 4, lambda x, w, b: F.batch_norm(x, _MEAN, _VAR, w, b), _given,
    ),
    "instance_norm": ((3, 4, 5), 0, lambda x: F.instance_norm(x), lambda x: _normal(x, 2)),
}  # fmt: skip


def _derivatives(function: Function, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Return gradients of three orders; each is the gradient of a sum of squares of the previous
    one."""
    leaves = [gt.from_numpy(x.copy()).requires_grad_() for x in arrays]
    made, found = function(*leaves), []
    weights = gt.from_numpy(np.cos(np.arange(made.numel()) * 1.3)).reshape(made.shape)
    total = (made * weights).sum()
    for _ in range(3):
        grads = gt.autograd.grad(
            total, leaves, create_graph=True, allow_unused=True, materialize_grads=True
        )
        found += [g.detach().numpy() for g in grads]
        total = sum(((n + 1) * g * g + 0.3 * g).sum() for n, g in enumerate(grads))
    return found


@pytest.mark.parametrize("name", CASES)
def test_three_orders(name: str) -> None:
    sizes, channels, function, parts = CASES[name]
    arrays = [_random.standard_normal(sizes)]
    arrays += [_random.standard_normal(channels) for _ in range(2) if channels]
    for found, expected in zip(_derivatives(function, arrays), _derivatives(parts, arrays)):
        scale = 1e-12 * (1 + np.abs(expected).max())
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=scale)
