"""Rows of views: another geometry over the same storage."""

from __future__ import annotations

from typing import Any

import numpy as np

import gputensor as gt
from gputensor.core import errors
from gputensor.core.dtype import float32, float64, int64

from . import DTYPE, Fails, Row, S, T, grid, with_copies

_MATRIX = T(2, 3)
_CUBE = T(2, 3, 4)
_IMAGE = T(2, 3, 4, 5)
_DENSE = T(2, 3, 4, layout="contiguous")
_DIM = "'(dim|dim0|dim1|dim2|dims|axis0|source|dimension|start_dim)' must be in"


def _shaped(self: np.ndarray, size: Any) -> np.ndarray:
    return self.reshape(size)


def _view(self: np.ndarray, size: Any = None, dtype: Any = None) -> np.ndarray:
    return self.view(dtype.np) if dtype is not None else self.reshape(size)


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


def _flattened(self: np.ndarray, start_dim: int = 0, end_dim: int = -1) -> np.ndarray:
    if self.ndim == 0:
        return self.reshape(1)
    first, last = start_dim % self.ndim, end_dim % self.ndim
    return self.reshape((*self.shape[:first], -1, *self.shape[last + 1 :]))


def _unflattened(self: np.ndarray, dim: int, sizes: Any) -> np.ndarray:
    d = dim % self.ndim
    return self.reshape((*self.shape[:d], *sizes, *self.shape[d + 1 :]))


def _dtype_of_view(args: Any, kwargs: Any, of: Any) -> Any:
    found = kwargs.get("dtype", of)
    return of if found is DTYPE else found


def _summed(self: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    extra = self.ndim - len(size)
    dims = [d for d in range(self.ndim) if d < extra or size[d - extra] != self.shape[d]]
    return self.sum(tuple(dims), keepdims=True).reshape(size)


ROWS = [
    Row("alias", grid(), lambda self: self),
    Row("detach", grid(), lambda self: self),
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
        "reshape_as",
        [S(_DENSE, T(6, 4)), S(T(), T(1)), S(T(4), T(2, 2))],
        lambda self, other: self.reshape(other.shape),
        may_copy=True,
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
    Row(
        "sum_to_size",
        [S(T(2, 3), (1, 3)), S(T(4, 2, 3), (2, 1)), S(T(2, 3), ()), S(T(2, 3), (2, 3))],
        _summed,
        may_copy=True,
        dtypes=(int64, float32, float64),
        errors=(Fails(S(T(2, 3), (2,)), errors.ArgumentError, "'size' must broadcast", float32),),
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
        "unflatten",
        [S(T(6, 2), 0, (2, 3)), S(T(2, 12), -1, (3, -1))],
        _unflattened,
        errors=(Fails(S(T(6), 0, (4, 2)), errors.GpuTensorError, "unflatten: 'sizes?' must"),),
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
]

ROWS += [
    Row(
        "adjoint",
        [S(T(2, 3, layout="step 2")), S(_DENSE)],
        lambda self: np.swapaxes(self, -1, -2).conj(),
        errors=(
            Fails(S(T(3)), errors.ArgumentError, "mT: 'self' must have at least 2 dimensions"),
        ),
    ),
    Row(
        "mH",
        [S(T(2, 3, layout="step 2")), S(_DENSE)],
        lambda self: np.swapaxes(self, -1, -2).conj(),
    ),
    *[
        Row(
            f"atleast_{n}d",
            [S(T()), S(T(3)), S(_MATRIX), S(_CUBE), S([T(), T(2)])],
            lambda self, make=make: (
                [make(x) for x in self] if isinstance(self, list) else make(self)
            ),
            may_copy=True,
            result=lambda args, kwargs, of: of,
        )
        for n, make in ((1, np.atleast_1d), (2, np.atleast_2d), (3, np.atleast_3d))
    ],
    Row("broadcast_to", [S(T(1, 3), (4, 3)), S(T(), (2, 2))], _expanded),
    Row("lift_fresh", [S(_MATRIX)], lambda self: self),
    Row(
        "moveaxis",
        [S(_CUBE, 0, 2), S(_IMAGE, (0, 1), (3, 0))],
        lambda self, source, destination: np.moveaxis(self, source, destination),
    ),
    Row("ravel", [S(_CUBE), S(T()), S(T(0, 2))], np.ravel, may_copy=True),
    Row("swapdims", [S(_CUBE, 0, 2), S(_MATRIX, -1, 0)], np.swapaxes),
    Row(
        "_unsafe_view",
        [S(_DENSE, (6, 4)), S(T(2, 3, layout="contiguous"), (-1,))],
        _shaped,
        may_copy=True,
        out="same",
    ),
]
ROWS = with_copies(
    ROWS, "alias detach expand permute _reshape_alias squeeze t transpose unsqueeze view"
)
