"""Rows of normalisations. Rows of 4 or 8 elements that are multiples of 0.5: means are exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, float16, float32, float64, int64, uint8

from . import Fails, Row, S, T

FLOATS = (float16, bfloat16, float32, float64)
_ULP = {float16: 2, bfloat16: 2, float32: 64, float64: 64}
_KIND: Any = {
    "ulp": _ULP, "device_ulp": 64, "dtypes": FLOATS,
    "why": "sums of at most 8 exact terms, a root, and a sum that may cancel a few bits",
}  # fmt: skip
_ALL = (True, True, True)
_WEIGHT, _SHIFT = T(4, values="positive"), T(4)


def _normal(x: np.ndarray, axes: Any, eps: float) -> tuple[np.ndarray, ...]:
    x = x.astype(np.float64)
    mean = x.mean(axes, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + eps)
    return (x - mean) * rstd, mean, rstd


def _affine(x: np.ndarray, weight: Any, bias: Any) -> np.ndarray:
    x = x if weight is None else x * weight.astype(np.float64)
    return x if bias is None else x + bias.astype(np.float64)


def _native_layer_norm(x, normalized_shape, weight, bias, eps):
    normal, mean, rstd = _normal(x, tuple(range(-len(normalized_shape), 0)), eps)
    return [_affine(normal, weight, bias), mean, rstd]


def _layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return _native_layer_norm(x, normalized_shape, weight, bias, eps)[0]


def _fused_rms_norm(x, normalized_shape, weight, eps):
    axes, wide = tuple(range(-len(normalized_shape), 0)), x.astype(np.float64)
    eps = np.finfo(np.float64 if x.dtype == np.float64 else np.float32).eps if eps is None else eps
    rstd = 1 / np.sqrt((wide**2).mean(axes, keepdims=True) + eps)
    return [_affine(wide * rstd, weight, None), rstd]


def _rms_norm(x, normalized_shape, weight=None, eps=None):
    return _fused_rms_norm(x, normalized_shape, weight, eps)[0]


def _channels(x: Any, ndim: int) -> Any:
    return None if x is None else x.reshape(1, -1, *[1] * (ndim - 2))


def _native_group_norm(x, weight, bias, N, C, HxW, group, eps):
    normal, mean, rstd = _normal(x.reshape(N, group, -1), 2, eps)
    made = normal.reshape(x.shape)
    made = _affine(made, _channels(weight, x.ndim), _channels(bias, x.ndim))
    return [made, mean.reshape(N, group), rstd.reshape(N, group)]


def _group_norm(x, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    n, c, *rest = x.shape
    return _native_group_norm(x, weight, bias, n, c, int(np.prod(rest)), num_groups, eps)[0]


def _native_batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
    if training:
        normal, mean, rstd = _normal(x, (0, *range(2, x.ndim)), eps)
    else:
        mean, var = (_channels(r.astype(np.float64), x.ndim) for r in (running_mean, running_var))
        normal = (x.astype(np.float64) - mean) / np.sqrt(var + eps)
        mean = rstd = np.empty(0)
    made = _affine(normal, _channels(weight, x.ndim), _channels(bias, x.ndim))
    return [made, mean.reshape(-1), rstd.reshape(-1)]


def _batch_norm(*args):
    return _native_batch_norm(*args[:8])[0]


def _instance_norm(x, weight, bias, mean, var, use_input_stats, momentum, eps, cudnn):
    made = _normal(x, tuple(range(2, x.ndim)), eps)[0]
    return _affine(made, _channels(weight, x.ndim), _channels(bias, x.ndim))


_BATCH = [
    S(T(2, 4, 2, 2), _WEIGHT, _SHIFT, None, None, True, 0.1, 1e-5),
    S(T(2, 4, 4), None, None, None, None, True, 0.1, 1e-3),
    S(T(3, 4), _WEIGHT, None, T(4), T(4, values="positive"), False, 0.1, 1e-5),
]
_RUNNING = [
    S(
        T(2, 4, 4),
        _WEIGHT,
        None,
        T(4, layout="contiguous"),
        T(4, values="positive", layout="contiguous"),
        0.1,
        1e-5,
    )
]
_LAYER = [
    S(T(3, 4), (4,), _WEIGHT, _SHIFT, 1e-5),
    S(T(3, 2, 4), (2, 4), None, None, 1e-3),
    S(T(0, 4), (4,), None, None, 1e-5),
]


def _through(grad, x, mean, rstd, weight, axes):
    """Return the gradient of an input in rows, computed from the statistics of each row. mean: None
    if it was not subtracted."""
    grad = grad if weight is None else grad * weight
    normal = (x if mean is None else x - mean) * rstd
    along = (grad * normal).mean(axes, keepdims=True)
    centered = grad if mean is None else grad - grad.mean(axes, keepdims=True)
    return rstd * (centered - normal * along)


def _layer_norm_backward(grad, x, normalized_shape, mean, rstd, weight, bias, mask):
    grad, x, mean, rstd = (a.astype(np.float64) for a in (grad, x, mean, rstd))
    axes = tuple(range(-len(normalized_shape), 0))
    rows = tuple(range(x.ndim - len(normalized_shape)))
    made = [_through(grad, x, mean, rstd, weight, axes)]
    made += [(grad * (x - mean) * rstd).sum(rows), grad.sum(rows)]
    return made


def _fused_rms_norm_backward(grad, x, normalized_shape, rstd, weight, mask):
    grad, x, rstd = (a.astype(np.float64) for a in (grad, x, rstd))
    axes = tuple(range(-len(normalized_shape), 0))
    rows = tuple(range(x.ndim - len(normalized_shape)))
    return [_through(grad, x, None, rstd, weight, axes), (grad * x * rstd).sum(rows)]


def _group_norm_backward(grad, x, mean, rstd, weight, N, C, HxW, group, mask):
    rows = (N, group, C // group, HxW)
    grad, at = (a.astype(np.float64).reshape(rows) for a in (grad, x))
    mean, rstd = (a.astype(np.float64)[:, :, None, None] for a in (mean, rstd))
    weight = None if weight is None else weight.astype(np.float64).reshape(1, *rows[1:3], 1)
    made = [_through(grad, at, mean, rstd, weight, (2, 3)).reshape(x.shape)]
    made += [a.sum((0, 3)).reshape(C) for a in (grad * (at - mean) * rstd, grad)]
    return made


def _batch_norm_backward(grad, x, weight, mean, var, save_mean, save_rstd, train, eps, mask):
    grad, at = grad.astype(np.float64), x.astype(np.float64)
    weight, mean, var, save_mean, save_rstd = (
        None if a is None else _channels(a.astype(np.float64), x.ndim)
        for a in (weight, mean, var, save_mean, save_rstd)
    )
    axes = (0, *range(2, x.ndim))
    if train:
        mean, rstd = save_mean, save_rstd
        made = [_through(grad, at, mean, rstd, weight, axes)]
    else:
        rstd = 1 / np.sqrt(var + eps)
        made = [grad * rstd if weight is None else grad * weight * rstd]
    return made + [(grad * (at - mean) * rstd).sum(axes), grad.sum(axes)]


_BACKWARD: Any = {
    "ulp": {float16: 2, bfloat16: 2, float32: 16, float64: 16}, "device_ulp": 16,
    "of_largest": True, "why": "differences of sums of at most 16 terms", "dtypes": FLOATS,
    "checked_by": "tests/operators/test_ops_grad.py: the norm's second; statistics depend on x",
}  # fmt: skip
_GIVEN = T(4, values="positive")


def _refusals(op: str, *rest: Any) -> tuple[Fails, ...]:
    return (
        Fails(S(T(3, 4), (3,), *rest), errors.ShapeError, f"{op}: 'input' must end in the sizes"),
        Fails(S(T(3, 4), (4,), *rest), errors.DtypeError, f"{op}: 'input' must be floating", int64),
    )


def _with_reserve(args: Any, kwargs: Any, of: Any) -> Any:
    return of, of, of, uint8


def _with_f32(args: Any, kwargs: Any, of: Any) -> Any:
    """The reciprocal root mean squares have the dtype of the arithmetic."""
    return of, float32 if of in (float16, bfloat16) else of


ROWS = [
    Row("batch_norm", [S(*s.args, False) for s in _BATCH], _batch_norm, **_KIND),
    Row("_batch_norm_with_update", _RUNNING, dtypes=FLOATS, result=_with_reserve),
    Row(
        "_fused_rms_norm",
        [
            S(T(3, 4), (4,), _WEIGHT, None), S(T(2, 4, 2), (4, 2), None, 1e-3),
            S(T(0, 4), (4,), None, None),
        ],
        _fused_rms_norm, result=_with_f32, errors=_refusals("rms_norm", None, None), **_KIND,
    ),
    Row(
        "_fused_rms_norm_backward",
        [
            S(T(3, 4), T(3, 4), (4,), T(3, 1, values="positive"), _WEIGHT, (True, True)),
            S(T(3, 2, 4), T(3, 2, 4), (2, 4), T(3, 1, 1), None, (True, True)),
        ],
        _fused_rms_norm_backward, **_BACKWARD,
    ),
    Row(
        "group_norm", [S(T(2, 4, 2), 2, _WEIGHT, _SHIFT), S(T(2, 4, 2, 2), 1)], _group_norm, **_KIND
    ),
    Row(
        "instance_norm",
        [S(T(2, 4, 4), _WEIGHT, _SHIFT, None, None, True, 0.1, 1e-5, False)], _instance_norm,
        **_KIND,
    ),
    Row(
        "layer_norm", [*_LAYER, S(T(2, 3, 4), (4,))], _layer_norm,
        errors=_refusals("layer_norm"), **_KIND,
    ),
    Row(
        "native_batch_norm", _BATCH, _native_batch_norm, positive=True,
        errors=(
            Fails(
                S(T(3, 4), T(3), None, None, None, True, 0.1, 1e-5), errors.ShapeError,
                r"batch_norm: 'weight' must have sizes \[4\]",
            ),
            Fails(
                S(T(3, 4), None, None, None, None, False, 0.1, 1e-5), errors.ArgumentError,
                "batch_norm: 'running_mean' must be given where it is not training",
            ),
        ),
        **_KIND,
    ),
    Row(
        "native_batch_norm_backward",
        [
            S(T(2, 4, 2), T(2, 4, 2), _WEIGHT, T(4), _GIVEN, T(4), _GIVEN, True, 1e-5, _ALL),
            S(T(2, 4, 2, 2), T(2, 4, 2, 2), None, None, None, T(4), _GIVEN, True, 1e-5, _ALL),
            S(T(3, 4), T(3, 4), _WEIGHT, T(4), _GIVEN, None, None, False, 1e-5, _ALL),
            S(T(2, 4, 3), T(2, 4, 3), None, T(4), _GIVEN, None, None, False, 1e-3, _ALL),
        ],
        _batch_norm_backward,
        errors=(
            Fails(
                S(T(3, 4), T(3, 4), None, T(4), _GIVEN, None, None, True, 1e-5, _ALL),
                errors.ArgumentError,
                "native_batch_norm_backward: 'save_mean' must be given where 'train' is True",
            ),
        ),
        **_BACKWARD,
    ),
    Row(
        "_native_batch_norm_legit", [
            S(*_BATCH[1].args[:3], True, 0.1, 1e-5),
            S(*_RUNNING[0].args[:5], True, 0.1, 1e-5),
        ],
        lambda x, w, b, *rest: _native_batch_norm(x, w, b, None, None, *rest[-3:]),
        **_KIND,
    ),
    Row(
        "_native_batch_norm_legit_no_training", _RUNNING,
        lambda x, w, b, mean, var, *rest: _native_batch_norm(x, w, b, mean, var, False, *rest),
        **_KIND,
    ),
    Row(
        "native_group_norm",
        [
            S(T(2, 4, 2), _WEIGHT, _SHIFT, 2, 4, 2, 2, 1e-5),
            S(T(2, 4, 2, 2), None, None, 2, 4, 4, 4, 1e-5),
        ],
        _native_group_norm,
        errors=(
            Fails(
                S(T(2, 4, 2), None, None, 2, 4, 2, 3, 1e-5), errors.ArgumentError,
                "group_norm: 'num_groups' must divide the 4 channels",
            ),
        ),
        **_KIND,
    ),
    Row(  # PyTorch reads grad_out with the strides of input, even if its own strides differ
        "native_group_norm_backward",
        [
            S(T(2, 4, 2), T(2, 4, 2), T(2, 2), T(2, 2), _WEIGHT, 2, 4, 2, 2, _ALL),
            S(T(2, 4, 2, 2), T(2, 4, 2, 2), T(2, 1), T(2, 1), None, 2, 4, 4, 1, _ALL),
        ],
        _group_norm_backward, **_BACKWARD,
    ),
    Row(
        "native_layer_norm", _LAYER, _native_layer_norm,
        errors=_refusals("layer_norm", None, None, 1e-5), **_KIND,
    ),
    Row(
        "native_layer_norm_backward",
        [
            S(T(3, 4), T(3, 4), (4,), T(3, 1), T(3, 1, values="positive"), _WEIGHT, _SHIFT, _ALL),
            S(T(3, 2, 4), T(3, 2, 4), (2, 4), T(3, 1, 1), T(3, 1, 1), None, None, _ALL),
        ],
        _layer_norm_backward, **_BACKWARD,
    ),
    Row(
        "rms_norm", [S(T(3, 4), (4,), _WEIGHT), S(T(2, 4, 2), (4, 2), None, 1e-3)], _rms_norm,
        errors=_refusals("rms_norm"), **_KIND,
    ),
]  # fmt: skip
