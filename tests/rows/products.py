"""Rows of native/products.py: products of vectors, and of several matrices."""

from __future__ import annotations

from functools import reduce

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import ALL, complex64, complex128, float32, float64, int64

from . import Fails, Row, S, T
from .matmul import _NUMERIC

FLOATS = (float32, float64, complex64, complex128)


def _sum(product):
    def ref(self, a, b, beta=1, alpha=1):
        return (0 if beta == 0 else beta * self) + alpha * product(a, b)

    return ref


def _multi_dot(tensors):
    return reduce(np.matmul, tensors)


def _vector(op, *args, arg="self"):
    return Fails(S(*args), errors.ShapeError, f"{op}: '{arg}' must be a vector")


def _vecdot(x, y, dim=-1):
    return (np.conj(x) * y).sum(dim)


_DOTS = [S(T(5), T(5)), S(T(0), T(0)), S(T(1), T(1))]
_OUTER = [S(T(2), T(3)), S(T(0), T(3)), S(T(1), T(1))]
_CHAIN = [
    S((T(2, 3), T(3, 4))),
    S((T(5, 3), T(3, 1), T(1, 6))),
    S((T(2, 3), T(3, 4), T(4, 0), T(0, 3))),
]

ROWS = [
    Row(
        "addmv",
        [
            S(T(2), T(2, 3), T(3)),
            S(T(), T(2, 3), T(3), beta=2, alpha=3),
            S(T(2), T(2, 0), T(0)),
            S(T(2), T(2, 3), T(3), beta=0),
        ],
        _sum(np.matmul),
        out="same",
        dtypes=_NUMERIC,
        errors=(
            Fails(S(T(3), T(2, 3), T(3)), errors.ShapeError, r"addmv: 'self' must broadcast to"),
            Fails(S(T(2), T(2, 3), T(2)), errors.ShapeError, "addmv: 'vec' must have 3 elements"),
        ),
    ),
    Row(
        "addr",
        [S(T(2, 3), T(2), T(3)), S(T(3), T(2), T(3), beta=2, alpha=3), S(T(), T(0), T(3), beta=0)],
        _sum(np.multiply.outer),
        out="same",
        dtypes=tuple(of for of in _NUMERIC if of.itemsize != 2 or of.category == 1),
        errors=(
            _vector("addr", T(2, 3), T(2, 1), T(3), arg="vec1"),
            Fails(S(T(3, 3), T(2), T(3)), errors.ShapeError, "addr: 'self' must broadcast to"),
        ),
    ),
    Row(
        "chain_matmul",
        _CHAIN,
        _multi_dot,
        out="same",
        dtypes=ALL,
        errors=(
            Fails(S((T(3), T(3, 2))), errors.ShapeError, "chain_matmul: 'matrices' must be matri"),
        ),
    ),
    Row(
        "dot",
        _DOTS,
        np.dot,
        out="same",
        dtypes=ALL,
        errors=(
            _vector("dot", T(2, 3), T(3)),
            Fails(S(T(2), T(3)), errors.ShapeError, "dot: 'tensor' must have 2 elements"),
            Fails(S(T(2), T(2, dtype=int64)), errors.DtypeError, "self's dtype f32", float32),
        ),
    ),
    Row(
        "ger",
        _OUTER,
        np.multiply.outer,
        out="same",
        dtypes=ALL,
        errors=(_vector("outer", T(), T(3)),),
    ),
    Row(
        "inner",
        [S(T(2, 3), T(4, 3)), S(T(3), T(3)), S(T(), T(3)), S(T(2, 3), T(2, 5, 3))],
        np.inner,
        out="same",
        dtypes=ALL,
        errors=(
            Fails(S(T(2, 3), T(4, 2)), errors.ShapeError, "inner: 'other' must have a last size"),
        ),
    ),
    Row(
        "kron",
        [S(T(2, 3), T(4, 3)), S(T(3), T(2, 2)), S(T(), T(3)), S(T(0), T(3))],
        np.kron,
        out="same",
        dtypes=ALL,
    ),
    Row(
        "linalg_matmul", [S(T(2, 2, 3), T(3, 4)), S(T(3), T(3))], np.matmul, out="same", dtypes=ALL
    ),
    Row(
        "linalg_multi_dot",
        [*_CHAIN, S((T(3), T(3, 4), T(4))), S((T(3), T(3)))],
        _multi_dot,
        out="same",
        dtypes=ALL,
        errors=(
            Fails(S((T(2, 3),)), errors.ArgumentError, "multi_dot: 'tensors' must hold two"),
            Fails(
                S((T(2, 3), T(2, 3))),
                errors.ShapeError,
                "multi_dot: 'tensors' must hold a matrix of",
            ),
        ),
    ),
    Row(
        "linalg_vecdot",
        [S(T(2, 3), T(2, 3)), S(T(2, 3), T(2, 3), dim=0), S(T(3), T(3))],
        _vecdot,
        out="same",
        dtypes=FLOATS,
        errors=(Fails(S(T(3), T(3)), errors.DtypeError, "vecdot: 'x' must be floating", int64),),
    ),
    Row(
        "mv",
        [S(T(2, 3), T(3)), S(T(0, 3), T(3)), S(T(2, 0), T(0)), S(T(17, 5), T(5))],
        np.matmul,
        out="same",
        dtypes=ALL,
        errors=(
            Fails(S(T(3), T(3)), errors.ShapeError, "mv: 'self' must be a matrix"),
            Fails(S(T(2, 3), T(2)), errors.ShapeError, "mv: 'vec' must have 3 elements"),
        ),
    ),
    Row(
        "outer",
        _OUTER,
        np.multiply.outer,
        out="same",
        dtypes=ALL,
        errors=(_vector("outer", T(3), T(2, 2), arg="vec2"),),
    ),
    Row("vdot", _DOTS, np.vdot, out="same", dtypes=ALL, errors=(_vector("vdot", T(2, 3), T(3)),)),
]
