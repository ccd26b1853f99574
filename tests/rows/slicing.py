"""Rows of views of parts of the elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors

from . import Fails, Row, S, T, with_copies

_MATRIX = T(2, 3)
_CUBE = T(2, 3, 4)
_IMAGE = T(2, 3, 4, 5)
_DENSE = T(2, 3, 4, layout="contiguous")
_DIM = "'(dim|dim0|dim1|dim2|dims|axis0|source|dimension|start_dim)' must be in"


def _strided(
    self: np.ndarray, size: Any, stride: Any, storage_offset: int | None = None
) -> np.ndarray:
    strides = tuple(s * self.itemsize for s in stride)
    flat = np.concatenate([self.reshape(-1), np.ones(2, self.dtype)])
    return np.lib.stride_tricks.as_strided(flat[storage_offset or 0 :], size, strides)


def _narrowed(self: np.ndarray, dim: int, start: int, length: int) -> np.ndarray:
    start %= self.shape[dim] or 1
    return np.take(self, range(start, start + length), dim)


def _sliced(
    self: np.ndarray, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> np.ndarray:
    index = [slice(None)] * self.ndim
    index[dim] = slice(start, end, step)
    return self[tuple(index)]


def _windows(self: np.ndarray, dimension: int, size: int, step: int) -> np.ndarray:
    if self.ndim == 0:
        return self.reshape(1)[:size]
    found = np.lib.stride_tricks.sliding_window_view(self, size, dimension)
    index = [slice(None)] * found.ndim
    index[dimension % self.ndim] = slice(None, None, step)
    return found[tuple(index)]


def _pieces(self: np.ndarray, split_size: Any, dim: int = 0) -> list[np.ndarray]:
    length = self.shape[dim]
    if isinstance(split_size, int):
        split_size = [min(split_size, length - k) for k in range(0, length, split_size)] or [0]
    return np.split(self, np.cumsum(split_size)[:-1], dim)


def _chunks(self: np.ndarray, chunks: int, dim: int = 0) -> list[np.ndarray]:
    if self.shape[dim] == 0:
        return [self] * chunks
    return _pieces(self, -(-self.shape[dim] // chunks), dim)


ROWS = [
    Row(
        "as_strided",
        [
            S(_DENSE, (2, 2), (1, 2)),
            S(_DENSE, (3, 3), (1, 1), 2),
            S(_DENSE, (4,), (0,)),
            S(_DENSE, (), ()),
            S(_DENSE, (0, 3), (1, 1)),
        ],
        _strided,
        errors=(
            Fails(
                S(T(2), (2, 2), (1,)),
                errors.ArgumentError,
                "as_strided: 'stride' must have 2 entries",
            ),
            Fails(
                S(T(2), (99,), (1,)),
                errors.ArgumentError,
                "as_strided: 'size' must stay within the storage",
            ),
            Fails(
                S(T(2), (2,), (-1,)),
                errors.ArgumentError,
                "as_strided: 'stride' must hold no negative",
            ),
            Fails(
                S(T(2), (2,), (1,), -1),
                errors.ArgumentError,
                "as_strided: 'storage_offset' must not be negative",
            ),
        ),
    ),
    Row(
        "chunk",
        [S(T(5, 2), 2), S(T(5, 2), 3), S(T(5, 2), 7), S(_CUBE, 2, -1), S(T(0, 2), 2)],
        _chunks,
        errors=(
            Fails(S(T(2), 0), errors.ArgumentError, "chunk: 'chunks' must be positive"),
            Fails(S(T(), 1), errors.ArgumentError, "chunk: 'self' must have a dimension"),
        ),
    ),
    Row(
        "diagonal",
        [S(_MATRIX), S(T(3, 3), 1), S(_CUBE, -1), S(_IMAGE, 0, 2, -1), S(_MATRIX, 5), S(T(0, 3))],
        lambda self, offset=0, dim1=0, dim2=1: np.diagonal(self, offset, dim1, dim2),
        errors=(
            Fails(
                S(_MATRIX, 0, 1, 1), errors.ArgumentError, "diagonal: 'dim2' must differ from dim1"
            ),
            Fails(S(T(3)), errors.IndexRangeError, f"diagonal: {_DIM}"),
        ),
    ),
    Row(
        "narrow",
        [S(_CUBE, 1, 1, 2), S(_CUBE, -1, 0, 4), S(_MATRIX, 0, 2, 0), S(_MATRIX, 1, -2, 2)],
        _narrowed,
        errors=(
            Fails(
                S(_MATRIX, 1, 2, 2), errors.ArgumentError, "narrow: 'length' must end within size 3"
            ),
            Fails(
                S(_MATRIX, 1, 4, 0), errors.IndexRangeError, r"narrow: 'start' must be in \[-3, 3\]"
            ),
            Fails(
                S(_MATRIX, 1, 0, -1), errors.ArgumentError, "narrow: 'length' must not be negative"
            ),
        ),
    ),
    Row(
        "select",
        [S(_CUBE, 1, 2), S(_CUBE, -1, -1), S(T(5), 0, 3)],
        lambda self, dim, index: np.take(self, index, dim),
        errors=(
            Fails(
                S(_MATRIX, 0, 2),
                errors.IndexRangeError,
                r"select: 'index' must be in \[-2, 1\] \(got 2\)",
            ),
            Fails(S(T(), 0, 0), errors.IndexRangeError, "select: 'self' must have a dimension"),
            Fails(S(_MATRIX, 2, 0), errors.IndexRangeError, f"select: {_DIM}"),
        ),
    ),
    Row(
        "slice",
        [
            S(_CUBE),
            S(_CUBE, 1, 1, 3),
            S(_CUBE, -1, None, -1),
            S(T(7), 0, 1, 7, 3),
            S(_MATRIX, 1, 5, 9),
            S(_MATRIX, 0, -9),
        ],
        _sliced,
        errors=(
            Fails(S(T(3), 0, 0, 3, -1), errors.ArgumentError, "slice: 'step' must be positive"),
            Fails(S(T()), errors.IndexRangeError, "slice: 'self' must have a dimension"),
        ),
    ),
    Row(
        "split",
        [S(T(5, 2), 2), S(T(5, 2), (1, 4)), S(_CUBE, 2, -1), S(T(5, 2), [5, 0]), S(T(0, 2), 3)],
        _pieces,
        errors=(
            Fails(S(T(5), -1), errors.ArgumentError, "split: 'split_size' must be positive"),
            Fails(S(T(5), (1, 1)), errors.ArgumentError, "split.*must add up to size"),
        ),
    ),
    Row("split_copy", [S(T(5, 2), 2), S(T(0, 2), 3), S(_CUBE, 2, -1)], _pieces),
    Row(
        "split_with_sizes",
        [S(T(5, 2), (1, 4)), S(_CUBE, (1, 1, 1), 1), S(T(5), (0, 5))],
        _pieces,
        errors=(
            Fails(
                S(T(5), (1, 1)),
                errors.ArgumentError,
                "split_with_sizes: 'split_sizes' must add up to size",
            ),
        ),
    ),
    Row(
        "unbind",
        [S(_CUBE), S(_CUBE, -1), S(T(3)), S(T(0, 3))],
        lambda self, dim=0: [np.take(self, k, dim) for k in range(self.shape[dim])],
        errors=(Fails(S(_MATRIX, 2), errors.IndexRangeError, f"unbind: {_DIM}"),),
    ),
    Row(
        "unfold",
        [S(T(7), 0, 3, 2), S(_CUBE, -1, 2, 1), S(_MATRIX, 1, 3, 1)],
        _windows,
        errors=(
            Fails(S(T(3), 0, 4, 1), errors.ArgumentError, r"unfold: 'size' must be in \[0, 3\]"),
            Fails(S(T(3), 0, 1, 0), errors.ArgumentError, "unfold: 'step' must be positive"),
        ),
    ),
]


def _replaced(self: np.ndarray, src: np.ndarray, *args: Any, find: Any) -> np.ndarray:
    """Return a copy with src at the places that `find` returns."""
    made = self.copy()
    places = find(np.arange(self.size).reshape(self.shape), *args)
    np.put(made, places, src)
    return made


def _split_at(dim: int) -> Any:
    def reference(self: np.ndarray, where: Any) -> list[np.ndarray]:
        return np.array_split(self, where, min(dim, self.ndim - 1))

    return reference


ROWS += [
    # self gets the gradient of the elements that stay. PyTorch gives self the gradient of the
    # replaced elements, which is wrong.
    Row(
        "as_strided_scatter",
        [S(_DENSE, T(2, 2), (2, 2), (1, 2)), S(_DENSE, T(3), (3,), (2,), 1)],
        lambda self, src, *args: _replaced(self, src, *args, find=_strided),
        out="same",
        errors=(Fails(S(_DENSE, T(3), (2,), (1,)), errors.ShapeError, "'src' must have sizes"),),
    ),
    Row(
        "diagonal_scatter",
        [S(_MATRIX, T(2)), S(T(3, 3), T(2), 1), S(_CUBE, T(3, 2), 0, 0, 2)],
        lambda self, src, *args: _replaced(
            self, src, *args, find=lambda x, *given: np.diagonal(x, *given)
        ),
        out="same",
        errors=(
            Fails(S(_MATRIX, T(3)), errors.ShapeError, "diagonal_scatter: 'src' must have sizes"),
        ),
    ),
    *[
        Row(
            name,
            [S(T(4, 4, 4), 2), S(T(2, 4, 6), (1, 3))],
            _split_at(dim),
            errors=(
                Fails(S(T(5, 5, 5), 2), errors.ArgumentError, f"{name}: 'sections' must divide"),
                Fails(S(T(), 1), errors.ArgumentError, f"{name}: 'self' must have at least"),
            ),
        )
        for name, dim in (("hsplit", 1), ("vsplit", 0), ("dsplit", 2))
    ],
    Row("narrow_copy", [S(_CUBE, 1, 1, 2), S(_MATRIX, 1, -2, 2)], _narrowed, out="same"),
    Row(
        "tensor_split",
        [S(T(5, 2), 3), S(_CUBE, 2, -1), S(T(5), (1, 3)), S(_CUBE, (0, 9), 1)],
        lambda self, where, dim=0: np.array_split(self, where, dim),
        errors=(
            Fails(S(T(3), 0), errors.ArgumentError, "tensor_split: 'sections' must be in"),
            Fails(S(T(), 1), errors.ArgumentError, "tensor_split: 'self' must have a dimension"),
        ),
    ),
    Row("unsafe_chunk", [S(T(5, 2), 2), S(_CUBE, 2, -1), S(T(0, 2), 2)], _chunks),
    Row("unsafe_split", [S(T(5, 2), 2), S(_CUBE, 2, -1)], _pieces),
    Row("unsafe_split_with_sizes", [S(T(5, 2), (1, 4)), S(_CUBE, (1, 1, 1), 1)], _pieces),
]
ROWS = with_copies(ROWS, "as_strided diagonal select slice split_with_sizes unbind unfold")
