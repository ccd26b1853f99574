"""Rows of operators that reorder elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, complex64, float32, float64

from . import Fails, Row, S, T

_CUBE = T(2, 3, 4)
_IMAGE = T(2, 3, 4, 5)


def _shuffled(self: np.ndarray, r: int) -> np.ndarray:
    *batch, c, h, w = self.shape
    n = len(batch)
    split = self.reshape(*batch, c // (r * r), r, r, h, w)
    moved = split.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return moved.reshape(*batch, c // (r * r), h * r, w * r)


def _unshuffled(self: np.ndarray, r: int) -> np.ndarray:
    *batch, c, h, w = self.shape
    n = len(batch)
    split = self.reshape(*batch, c, h // r, r, w // r, r)
    moved = split.transpose(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return moved.reshape(*batch, c * r * r, h // r, w // r)


def _columns(x: np.ndarray, kernel: Any, dilation: Any, padding: Any, stride: Any) -> np.ndarray:
    around = [(0, 0)] * (x.ndim - 2) + [(p, p) for p in padding]
    wide = np.pad(x, around)
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel)]
    windows = np.lib.stride_tricks.sliding_window_view(wide, spans, (-2, -1))
    taken = windows[..., :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    found = np.moveaxis(taken, (-2, -1), (-4, -3))  # (..., c, kh, kw, oh, ow)
    *batch, c, kh, kw, oh, ow = found.shape
    return found.reshape(*batch, c * kh * kw, oh * ow)


def _planes(
    columns: np.ndarray, output_size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any
) -> np.ndarray:
    *batch, rows, _ = columns.shape
    sizes = (*batch, rows // (kernel[0] * kernel[1]), *output_size)
    count = int(np.prod(sizes))
    places = np.arange(1, count + 1).reshape(sizes)  # 0 marks padding
    at = _columns(places, kernel, dilation, padding, stride)
    wide = np.complex128 if columns.dtype.kind == "c" else np.float64
    made = np.zeros(count + 1, wide)
    np.add.at(made, at.reshape(-1), columns.reshape(-1).astype(wide))
    return made[1:].astype(columns.dtype).reshape(sizes)


_WINDOWS = [
    ((2, 3, 5, 4), ((2, 3), (1, 1), (0, 0), (1, 1)), (2, 18, 8)),
    ((2, 4, 5), ((2, 2), (2, 1), (1, 1), (2, 2)), (8, 6)),
    ((1, 1, 3, 3), ((1, 1), (1, 1), (0, 1), (1, 2)), (1, 1, 9)),
]


def _channels_shuffled(self: Any, groups: int) -> Any:
    apart = self.reshape(len(self), groups, -1, *self.shape[2:])
    return apart.swapaxes(1, 2).reshape(self.shape)


ROWS = [
    Row(
        "channel_shuffle",
        [S(T(1, 6, 2, 3), 2), S(T(2, 3, 2), 3), S(T(2, 4, 3, 2), 1)],
        _channels_shuffled,
        out="same",
        errors=(
            Fails(S(T(2, 3), 3), errors.ShapeError, "channel_shuffle: 'self' must have at least 3"),
            Fails(S(_CUBE, 2), errors.ShapeError, "'self' must have a multiple of 2 channels"),
            Fails(S(_CUBE, 0), errors.ArgumentError, "'groups' must be positive"),
        ),
    ),
    Row(
        "col2im",
        [S(T(*c), a[-2:], *w) for a, w, c in _WINDOWS],
        _planes,
        dtypes=(float32, float64, complex64, bfloat16),
        out="same",
        errors=(
            Fails(
                S(T(4, 5), (3, 3), (2, 2), (1, 1), (0, 0), (1, 1)),
                errors.ShapeError,
                "col2im: 'self' must have a multiple of 4 rows and 4 columns",
            ),
        ),
    ),
    Row(
        "flip",
        [
            S(T(2, 3), (0,)),
            S(T(2, 3), (0, 1)),
            S(_IMAGE, (1, -1)),
            S(T(2, 3), ()),
            S(T(0, 3), (0,)),
            S(T(5), (0,)),
        ],
        lambda self, dims: np.flip(self, dims) if len(dims) else self,
        errors=(
            Fails(S(T(2, 3), (2,)), errors.IndexRangeError, "flip: 'dims' must be in"),
            Fails(
                S(T(2, 3), (0, -2)),
                errors.ArgumentError,
                "flip: 'dims' must name each dimension at most once",
            ),
        ),
    ),
    Row(
        "fliplr",
        [S(_CUBE), S(T(2, 0))],
        np.fliplr,
        errors=(Fails(S(T(3)), errors.ShapeError, "fliplr: 'self' must have at least 2"),),
    ),
    Row(
        "flipud",
        [S(_CUBE), S(T(3))],
        np.flipud,
        errors=(Fails(S(T()), errors.ShapeError, "flipud: 'self' must have a dimension"),),
    ),
    Row(
        "im2col",
        [S(T(*a), *w) for a, w, _ in _WINDOWS],
        _columns,
        out="same",
        errors=(
            Fails(
                S(T(2, 3, 3), (4, 4), (1, 1), (0, 0), (1, 1)),
                errors.ArgumentError,
                "im2col: 'self' must hold a window",
            ),
            Fails(
                S(T(3, 3), (1, 1), (1, 1), (0, 0), (1, 1)),
                errors.ShapeError,
                r"im2col: 'self' must be \(C, H, W\)",
            ),
            Fails(
                S(T(2, 3, 3), (1, 1), (1, 1), (0, 0), (0, 1)),
                errors.ArgumentError,
                "im2col: 'stride' must be 2 numbers, each at least 1",
            ),
        ),
    ),
    Row(
        "native_channel_shuffle", [S(T(1, 6, 2, 3), 2)], _channels_shuffled, like="channel_shuffle"
    ),
    Row(
        "pixel_shuffle",
        [S(T(1, 8, 2, 3), 2), S(T(4, 2, 1), 2), S(T(0, 4, 1, 1), 1)],
        _shuffled,
        out="same",
        errors=(
            Fails(S(_CUBE, 2), errors.ShapeError, "pixel_shuffle: 'self' must have a multiple of"),
            Fails(S(_CUBE, 0), errors.ArgumentError, "'upscale_factor' must be positive"),
        ),
    ),
    Row(
        "pixel_unshuffle",
        [S(T(1, 2, 4, 6), 2), S(T(2, 3, 3), 3)],
        _unshuffled,
        out="same",
        errors=(Fails(S(_CUBE, 2), errors.ShapeError, "'self' must have a height and a width"),),
    ),
    Row(
        "roll",
        [
            S(_CUBE, 1),
            S(_CUBE, -5, 2),
            S(_IMAGE, (1, 2), (0, 1)),
            S(_CUBE, (1, 1), (0, 0)),
            S(T(), 3),
            S(T(0, 3), 1, 0),
        ],
        lambda self, shifts, dims=None: np.roll(self, shifts, dims),
        out="same",
        errors=(
            Fails(S(_CUBE, (1, 2)), errors.ArgumentError, "roll: 'dims' must have 2 entries"),
            Fails(S(_CUBE, ()), errors.ArgumentError, "roll: 'shifts' must not be empty"),
            Fails(S(_CUBE, 1, 3), errors.IndexRangeError, "roll: 'dims' must be in"),
        ),
    ),
    Row(
        "rot90",
        [S(_CUBE), S(_CUBE, 2, (0, 2)), S(_IMAGE, -1, (1, -1)), S(T(2, 3), 4)],
        lambda self, k=1, dims=(0, 1): np.rot90(self, k, dims),
        out="same",
        errors=(
            Fails(S(T(3)), errors.ArgumentError, "rot90: 'dims' must name 2 of the 1"),
            Fails(S(_CUBE, 1, (0, 0)), errors.ArgumentError, "'dims' must name each dimension at"),
        ),
    ),
]
