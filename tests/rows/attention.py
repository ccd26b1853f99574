"""Rows of native/attention: softmax of products of queries and keys, times values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, bool_, float16, float32, float64, int64
from gputensor.kernels.cpu import random as numpys

from . import Fails, Row, S, T

_FLOATS = (float16, bfloat16, float32, float64)
_KIND: Any = {
    "ulp": {float16: 2, bfloat16: 2, float32: 16, float64: 16}, "device_ulp": 16,
    "of_largest": True, "dtypes": _FLOATS,
    "why": "two sums of products, and exponentials between them; 16-bit floats are in f32",
}  # fmt: skip
_SMALL = {"values": "positive"}


def _attention(
    q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: Any = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    return _both(q, k, v, attn_mask, is_causal, scale, enable_gqa)[0]


def _both(
    q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: Any, gqa: bool, kept: Any = 1.0
) -> Any:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    if gqa:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = _scores(q, k, mask, causal, q.shape[-1] ** -0.5 if scale is None else scale)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e300))
    total = weights.sum(-1, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    total = np.exp(scores).sum(-1)
    return [weights * kept @ v, np.log(np.where(total > 0, total, 1))]


def _scores(q: Any, k: Any, mask: Any, causal: bool, scale: float) -> Any:
    scores = q @ k.swapaxes(-1, -2) * scale
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    return scores


def _flash(
    q: Any, k: Any, v: Any, dropout_p: float = 0.0, is_causal: bool = False, attn_mask: Any = None,
    scale: Any = None,
) -> Any:  # fmt: skip
    return _both(q, k, v, attn_mask, is_causal, scale, True)


def _flash_backward(
    grad: Any, q: Any, k: Any, v: Any, out: Any, logsumexp: Any, dropout_p: float, is_causal: bool,
    attn_mask: Any = None, scale: Any = None,
) -> Any:  # fmt: skip
    return _with_mask(grad, q, k, v, out, logsumexp, attn_mask, is_causal, scale)[:3]


def _with_mask(
    grad: Any, q: Any, k: Any, v: Any, out: Any, logsumexp: Any, mask: Any, is_causal: bool,
    scale: Any = None, kept: Any = 1.0,
) -> Any:  # fmt: skip
    """The gradients for any out and logsumexp, even if attention did not compute them. kept:
    factors of weights."""
    grad, q, k, v, out = (x.astype(np.float64) for x in (grad, q, k, v, out))
    by = q.shape[-1] ** -0.5 if scale is None else scale
    scores = _scores(q, k, mask, is_causal, by)
    weights = np.exp(scores - logsumexp.astype(np.float64)[..., None])
    slopes = grad @ v.swapaxes(-1, -2) * kept - (grad * out).sum(-1, keepdims=True)
    slopes, weights = weights * slopes, weights * kept
    turned = slopes.swapaxes(-1, -2)
    made = [slopes @ k * by, turned @ q * by, weights.swapaxes(-1, -2) @ grad]
    if mask is None:
        return made
    axes = tuple(range(slopes.ndim - mask.ndim))
    own = tuple(d for d, n in enumerate(mask.shape, len(axes)) if n != slopes.shape[d])
    return [*made, slopes.sum(axes).sum(tuple(d - len(axes) for d in own), keepdims=True)]


def _factors(q: Any, k: Any, p: float, seed: int, block: int) -> Any:
    """Return the factor by which dropout multiplies each weight."""
    kept = np.empty((*q.shape[:3], k.shape[2]), bool)
    numpys.bernoulli(kept, seed, block, math.ceil(math.ldexp(1 - p, 53)), 0)
    return kept / (1 - p)


def _dropped(
    q: Any, k: Any, v: Any, mask: Any, p: float, is_causal: bool, scale: Any, seed: int, block: int
) -> Any:
    return _both(q, k, v, mask, is_causal, scale, True, _factors(q, k, p, seed, block))


def _backward(
    grad: Any, q: Any, k: Any, v: Any, out: Any, logsumexp: Any, mask: Any, p: float,
    is_causal: bool, scale: Any, seed: int, block: int, of_mask: bool,
) -> Any:  # fmt: skip
    kept = _factors(q, k, p, seed, block)
    made = _with_mask(grad, q, k, v, out, logsumexp, mask, is_causal, scale, kept)
    return [*made[:3], made[3] if of_mask else np.empty(0)]


def _with_sum(args: Any, kwargs: Any, of: Any) -> Any:
    return of, of if of is float64 else float32


def _mask_of_f32(args: Any, kwargs: Any, of: Any) -> Any:
    return of, of, of, float32


def _given(*, keys: int = 2, heads: int = 2) -> tuple[T, T, T]:
    query, key = T(1, 2, 3, 4, **_SMALL), T(1, heads, keys, 4, **_SMALL)
    return query, key, T(1, heads, keys, 4)


_ROW = T(1, 2, 1, 3, values="positive", dtype=float32)
_MASK = T(3, 2, values="positive", dtype=float32)
_REFUSALS = (
    Fails(
        S(T(2, 3), T(2, 4), T(2, 3)), errors.ShapeError,
        "scaled_dot_product_attention: 'key' must have rows of 3, as query has",
    ),
    Fails(
        S(T(2, 3), T(2, 3), T(4, 3)), errors.ShapeError,
        "scaled_dot_product_attention: 'value' must have 2 rows, as key has",
    ),
    Fails(
        S(T(2, 3), T(2, 3), T(2, 3), T(3, 3)), errors.ShapeError,
        r"scaled_dot_product_attention: 'attn_mask' must broadcast to \[2, 2\]",
    ),
    Fails(
        S(T(2, 3), T(2, 3), T(2, 3)), errors.DtypeError,
        "scaled_dot_product_attention: 'query' must be floating", int64,
    ),
    Fails(
        S(T(2, 3), T(2, 3), T(2, 3), None, 2.0), errors.ArgumentError,
        r"scaled_dot_product_attention: 'dropout_p' must be in \[0, 1\]",
    ),
)  # fmt: skip

ROWS = [
    Row(
        "_attention_backward",
        [
            S(
                T(1, 2, 3, 4),
                *_given(),
                T(1, 2, 3, 4),
                T(1, 2, 3),
                _MASK,
                0.3,
                False,
                None,
                9,
                2,
                True,
            ),
            S(
                T(1, 2, 3, 4),
                *_given(keys=3),
                T(1, 2, 3, 4),
                T(1, 2, 3),
                _ROW,
                0.0,
                True,
                0.5,
                0,
                0,
                True,
            ),
        ],
        _backward,
        result=_mask_of_f32,
        **{**_KIND, "ulp": 16},  # for a mask in f32, whatever the dtype of query
    ),
    Row(
        "_attention_with_dropout",
        [
            S(*_given(), _MASK, 0.3, False, None, 9, 2),
            S(*_given(keys=3), None, 0.5, True, 0.5, (1 << 64) - 1, 0),
            S(*[T(1, 2, 2, 2, **_SMALL)] * 3, None, 0.5, False, None, 9, 2),
        ],
        _dropped,
        result=_with_sum,
        **_KIND,
    ),
    Row(
        "scaled_dot_product_attention",
        [
            S(*_given(), _MASK),
            S(*_given(heads=1), T(3, 2, dtype=bool_), enable_gqa=True),
            S(T(3, 4), T(3, 4), T(3, 2), is_causal=True, scale=0.5),
            S(T(2, 3), T(0, 3), T(0, 2)),
        ],
        _attention,
        errors=_REFUSALS,
        **_KIND,
    ),
    Row(
        "_scaled_dot_product_flash_attention_for_cpu",
        [
            S(*_given(keys=3), is_causal=True),
            S(*_given(), attn_mask=_MASK),
            S(*_given(heads=1), attn_mask=T(3, 2, dtype=bool_)),
            S(*[T(1, 2, 2, 2, **_SMALL), *[T(1, 1, 3, 2, **_SMALL)] * 2], is_causal=True),
        ],
        _flash,
        result=_with_sum,
        **_KIND,
    ),
    Row(
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        [
            S(T(1, 2, 3, 4), *_given(), T(1, 2, 3, 4), T(1, 2, 3), 0.0, False, attn_mask=_MASK),
            S(T(1, 2, 3, 4), *_given(keys=3), T(1, 2, 3, 4), T(1, 2, 3), 0.0, True, scale=0.5),
        ],
        _flash_backward,
        **_KIND,
    ),
]
