"""Rows of views: another geometry over the same storage."""

from __future__ import annotations

from typing import Any

import numpy as np

import gputensor as gt
from gputensor.core import errors
from gputensor.core.dtype import complex64, complex128, float32, float64, int32

from . import DTYPE, Fails, Row, S, T, grid

_MATRIX = T(2, 3)
_CUBE = T(2, 3, 4)
_IMAGE = T(2, 3, 4, 5)
_DENSE = T(2, 3, 4, layout="contiguous")


def _shaped(self: np.ndarray, size: Any) -> np.ndarray:
    return self.reshape(size)


def _view(self: np.ndarray, size: Any = None, dtype: Any = None) -> np.ndarray:
    return self.view(dtype.np) if dtype is not None else self.reshape(size)


def _strided(
    self: np.ndarray, size: Any, stride: Any, storage_offset: int | None = None
) -> np.ndarray:
    strides = tuple(s * self.itemsize for s in stride)
    flat = np.concatenate([self.reshape(-1), np.ones(2, self.dtype)])
    return np.lib.stride_tricks.as_strided(flat[storage_offset or 0 :], size, strides)


def _t(self: np.ndarray) -> np.ndarray:
    return self.T


def _squeezed(self: np.ndarray, dim: Any = None) -> np.ndarray:
    axes = range(self.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    axes = tuple(a for a in axes if self.ndim and self.shape[a] == 1)
    return np.squeeze(self, axes)


def _expanded(self: np.ndarray, size: Any) -> np.ndarray:
    size = (*size,)
    padded = (1,) * (len(size) - self.ndim) + self.shape
    return np.broadcast_to(self, tuple(p if n == -1 else n for n, p in zip(size, padded)))


def _narrowed(self: np.ndarray, dim: int, start: int, length: int) -> np.ndarray:
    start %= self.shape[dim] or 1
    return np.take(self, range(start, start + length), dim)


def _sliced(
    self: np.ndarray, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> np.ndarray:
    index = [slice(None)] * self.ndim
    index[dim] = slice(start, end, step)
    return self[tuple(index)]


def _flattened(self: np.ndarray, start_dim: int = 0, end_dim: int = -1) -> np.ndarray:
    if self.ndim == 0:
        return self.reshape(1)
    first, last = start_dim % self.ndim, end_dim % self.ndim
    return self.reshape((*self.shape[:first], -1, *self.shape[last + 1 :]))


def _unflattened(self: np.ndarray, dim: int, sizes: Any) -> np.ndarray:
    d = dim % self.ndim
    return self.reshape((*self.shape[:d], *sizes, *self.shape[d + 1 :]))


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


def _dtype_of_view(args: Any, kwargs: Any, of: Any) -> Any:
    found = kwargs.get("dtype", of)
    return of if found is DTYPE else found


def _never(self: np.ndarray) -> np.ndarray:
    return np.asarray(False)


def _real_dtype(args: Any, kwargs: Any, of: Any) -> Any:
    return of.to_real if of.is_complex else of


# What is read from a lazy view is a copy, whose strides are the view's own for a dense one.
_COMPLEX = [S(T(2, 3, layout="contiguous")), S(T(2, 3, layout="transposed")), S(T(layout="contiguous"))]

_DIM = "'(dim|dim0|dim1|dim2|dims|axis0|source|dimension|start_dim)' must be in"

ROWS = [
    Row("alias", grid(), lambda self: self),
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
    Row("conj", _COMPLEX, np.conjugate, dtypes=(complex64, complex128)),
    Row(
        "_conj", _COMPLEX, np.conjugate, dtypes=(complex64, complex128),
        errors=(Fails(S(T(2)), errors.DtypeError, "_conj: 'self' must be complex", float32),),
    ),
    Row("detach", grid(), lambda self: self),
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
        "expand",
        [
            S(T(1, 3), (4, 3)),
            S(T(3), (2, 3)),
            S(T(), (2, 2)),
            S(T(1, 3), (2, -1, -1)),
            S(T(1, 3), (0, 3)),
        ],
        _expanded,
        errors=(
            Fails(
                S(_MATRIX, (3,)),
                errors.ArgumentError,
                "expand: 'size' must have at least 2 dimensions",
            ),
            Fails(
                S(_MATRIX, (2, 4)),
                errors.ArgumentError,
                "expand: 'size' must match self's size 3 at dimension 1",
            ),
            Fails(
                S(T(3), (-1, 3)),
                errors.ArgumentError,
                "expand: 'size' must give a number for each new",
            ),
        ),
    ),
    Row(
        "expand_as",
        [S(T(1, 3), T(4, 3)), S(T(), T(2, 2))],
        lambda self, other: np.broadcast_to(self, other.shape),
    ),
    Row(
        "flatten",
        [S(_CUBE), S(_CUBE, 1), S(_IMAGE, 1, 2), S(T()), S(_MATRIX, 0, 0), S(T(0, 3))],
        _flattened,
        may_copy=True,
        errors=(
            Fails(
                S(_CUBE, 2, 1),
                errors.ArgumentError,
                "flatten: 'start_dim' must not come after end_dim",
            ),
            Fails(S(_CUBE, 3), errors.IndexRangeError, f"flatten: {_DIM}"),
        ),
    ),
    Row(
        "imag", grid(), np.imag, dtypes=(complex64, complex128),
        result=lambda args, kwargs, of: of.to_real,
        errors=(Fails(S(T(2)), errors.DtypeError, "imag: 'self' must be complex", float32),),
    ),
    Row("is_conj", [S(T(2))], _never),
    Row("is_neg", [S(T(2))], _never),
    Row("_is_zerotensor", [S(T(2))], _never),
    Row(
        "mT",
        [S(_MATRIX), S(_CUBE), S(T(0, 3))],
        lambda self: np.swapaxes(self, -1, -2),
        errors=(
            Fails(S(T(3)), errors.ArgumentError, "mT: 'self' must have at least 2 dimensions"),
        ),
    ),
    Row(
        "movedim",
        [S(_CUBE, 0, 2), S(_CUBE, -1, 0), S(_IMAGE, (0, 1), (3, 0)), S(T(), 0, 0)],
        lambda self, source, destination: (
            np.moveaxis(self, source, destination) if self.ndim else self
        ),
        errors=(
            Fails(
                S(_CUBE, (0, 1), (0,)),
                errors.ArgumentError,
                "movedim: 'destination' must have 2 entries",
            ),
            Fails(S(_CUBE, 3, 0), errors.IndexRangeError, f"movedim: {_DIM}"),
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
    Row("_neg_view", _COMPLEX, np.negative, dtypes=(int32, float32, complex64)),
    Row(
        "permute",
        [S(_CUBE, (2, 0, 1)), S(_IMAGE, (0, 2, 3, 1)), S(_MATRIX, (-1, 0)), S(T(), ())],
        np.transpose,
        errors=(
            Fails(
                S(_CUBE, (0, 1)),
                errors.ArgumentError,
                "permute: 'dims' must name each of the 3 dimensions",
            ),
            Fails(
                S(_CUBE, (0, 1, 1)),
                errors.ArgumentError,
                "permute: 'dims' must name each dimension at most once",
            ),
            Fails(S(_CUBE, (0, 1, 3)), errors.IndexRangeError, f"permute: {_DIM}"),
        ),
    ),
    Row("real", grid(), lambda self: self.real if self.dtype.kind == "c" else self, result=_real_dtype),
    Row(
        "reshape",
        [
            S(_CUBE, (6, 4)),
            S(_CUBE, (-1,)),
            S(T(), (1, 1)),
            S(T(0, 3), (3, 0)),
            S(_IMAGE, (2, -1, 5)),
        ],
        _shaped,
        may_copy=True,
        errors=(
            Fails(
                S(_MATRIX, (4,)),
                errors.ShapeError,
                r"reshape: 'size' must hold 6 elements \(got \(4,\)\)",
            ),
            Fails(
                S(_MATRIX, (-1, -1)),
                errors.ArgumentError,
                "reshape: 'size' must leave at most one dimension",
            ),
            Fails(
                S(_MATRIX, (-2, 3)),
                errors.ArgumentError,
                "reshape: 'size' must hold no negative number but -1",
            ),
        ),
    ),
    Row(
        "_reshape_alias", [S(_DENSE, (6, 4), (4, 1))], lambda self, size, stride: self.reshape(size)
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
        "squeeze",
        [
            S(T(1, 3, 1)),
            S(T(1, 3, 1), 0),
            S(T(1, 3, 1), 1),
            S(T(1, 3, 1), (0, -1)),
            S(T(), 0),
            S(T(1)),
        ],
        _squeezed,
        errors=(Fails(S(T(1, 3), 2), errors.IndexRangeError, f"squeeze: {_DIM}"),),
    ),
    Row("swapaxes", [S(_CUBE, 0, 2), S(_MATRIX, -1, 0)], np.swapaxes),
    Row(
        "t",
        [S(_MATRIX), S(T(3)), S(T()), S(T(0, 3))],
        _t,
        errors=(Fails(S(_CUBE), errors.ArgumentError, "t: 'self' must have at most 2 dimensions"),),
    ),
    Row(
        "transpose",
        [S(_CUBE, 0, 2), S(_IMAGE, -1, 1), S(T(), 0, -1), S(T(0, 3), 0, 1)],
        lambda self, dim0, dim1: np.swapaxes(self, dim0, dim1) if self.ndim else self,
        errors=(Fails(S(_MATRIX, 0, 2), errors.IndexRangeError, f"transpose: {_DIM}"),),
    ),
    Row(
        "unbind",
        [S(_CUBE), S(_CUBE, -1), S(T(3)), S(T(0, 3))],
        lambda self, dim=0: [np.take(self, k, dim) for k in range(self.shape[dim])],
        errors=(Fails(S(_MATRIX, 2), errors.IndexRangeError, f"unbind: {_DIM}"),),
    ),
    Row(
        "unflatten",
        [S(T(6, 2), 0, (2, 3)), S(T(2, 12), -1, (3, -1))],
        _unflattened,
        errors=(Fails(S(T(6), 0, (4, 2)), errors.GpuTensorError, "unflatten: 'sizes?' must"),),
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
    Row(
        "unsqueeze",
        [S(_MATRIX, 0), S(_MATRIX, -1), S(T(), 0), S(_MATRIX, 1)],
        np.expand_dims,
        errors=(
            Fails(
                S(_MATRIX, 3),
                errors.IndexRangeError,
                r"unsqueeze: 'dim' must be in \[-3, 2\] \(got 3\)",
            ),
        ),
    ),
    Row(
        "view",
        [
            S(_DENSE, (6, 4)),
            S(_DENSE, (-1,)),
            S(T(), (1, 1)),
            S(T(0, 3), (3, 0)),
            S(T(2, 3), (2, 3)),
        ]
        + [
            S(T(2, 4, dtype=gt.float32, layout="contiguous"), dtype=d)
            for d in (gt.int32, gt.int16, gt.float64)
        ],
        _view,
        result=_dtype_of_view,
        errors=(
            Fails(
                S(T(2, 3, layout="transposed"), (6,)),
                errors.ShapeError,
                "view: 'size' must be a view of f32",
            ),
            Fails(S(_MATRIX, (4,)), errors.ShapeError, "view: 'size' must hold 6 elements"),
            Fails(S(T(3), dtype=gt.float64), errors.ArgumentError, "view: '"),
        ),
    ),
    Row(
        "view_as", [S(_DENSE, T(6, 4)), S(T(), T(1))], lambda self, other: self.reshape(other.shape)
    ),
    Row(
        "view_as_complex",
        [S(T(3, 2, layout="contiguous")), S(T(2, layout="contiguous")), S(T(0, 2, layout="contiguous"))],
        lambda self: self[..., 0] + 1j * self[..., 1], dtypes=(float32, float64),
        result=lambda args, kwargs, of: of.to_complex,
        errors=(
            Fails(S(T(3)), errors.ArgumentError, "have a last dimension of size 2 and stride 1", float32),
            Fails(S(T(2)), errors.DtypeError, "be float32 or float64", int32),
        ),
    ),
    Row(
        "view_as_real", grid(), lambda self: np.stack((self.real, self.imag), -1),
        dtypes=(complex64, complex128), result=lambda args, kwargs, of: of.to_real,
        errors=(Fails(S(T(3)), errors.DtypeError, "view_as_real: 'self' must be complex", float32),),
    ),
]
