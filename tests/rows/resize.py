"""Rows of operators that change a tensor's geometry or storage."""

from __future__ import annotations

from typing import Any

import numpy as np

import gputensor as gt
from gputensor.core import errors
from gputensor.core.dtype import float32, float64

from . import Fails, Row, S, T

_SOURCE = T(2, 3, layout="contiguous")
_WHOLE = T(2, 3, layout="contiguous", as_storage=True)


def _resized(self: np.ndarray, size: Any, memory_format: Any = None) -> np.ndarray:
    return self.reshape(-1)[: int(np.prod(size))].reshape(size)


def _set(self: np.ndarray, *source: Any) -> np.ndarray:
    if not source:
        return np.empty(0, self.dtype)
    if len(source) == 1 and source[0].ndim == 1:  # a storage, with the elements that fill it
        return np.concatenate([source[0], np.ones(2, self.dtype)])
    if len(source) == 1:
        return source[0]
    storage, offset, size, *_stride = source
    return storage.reshape(-1)[offset : offset + int(np.prod(size))].reshape(size)


ROWS = [
    Row(
        "resize_",
        [
            S(_SOURCE, (3, 2)),
            S(_SOURCE, (4,)),
            S(_SOURCE, ()),
            S(_SOURCE, (0, 5)),
            S(_SOURCE, (2, 3)),
            S(T(2, 3), (2, 3)),
        ],
        _resized,
        errors=(
            Fails(
                S(T(2), (-1,)), errors.ArgumentError, "resize_: 'size' must hold no negative number"
            ),
            Fails(S(T(2), "2"), TypeError, "resize_: 'size' must be"),
            Fails(S(T(2), (2, 2), memory_format=gt.channels_last), errors.GpuTensorError, "4"),
        ),
    ),
    Row(
        "resize_as_",
        [S(_SOURCE, T(3, 2)), S(_SOURCE, T()), S(_SOURCE, T(2, 3))],
        lambda self, template, memory_format=None: _resized(self, template.shape),
        errors=(Fails(S(T(2), 3), TypeError, "resize_as_: 'the_template' must be a Tensor"),),
    ),
    Row(
        "set_",
        [
            S(T(2)),
            S(T(5), T(2, 3)),
            S(T(5), T(6, layout="contiguous", as_storage=True)),
            S(T(5), _WHOLE, 0, (2, 3), (3, 1)),
            S(T(5), _WHOLE, 1, (2, 2)),
            S(T(), _WHOLE, 2, ()),
        ],
        _set,
        errors=(
            Fails(
                S(T(2), T(2, dtype=float64)),
                errors.ArgumentError,
                "set_: 'source' must have self's dtype",
                float32,
            ),
            Fails(
                S(T(2), _WHOLE, 0, (99,)),
                errors.ArgumentError,
                "set_: 'size' must stay within the storage",
            ),
            Fails(
                S(T(2), _WHOLE, -1, (1,)),
                errors.ArgumentError,
                "set_: 'storage_offset' must not be negative",
            ),
            Fails(
                S(T(2), _WHOLE, 0, (2, 2), (1,)),
                errors.ArgumentError,
                "set_: 'stride' must have 2 entries",
            ),
        ),
    ),
]
