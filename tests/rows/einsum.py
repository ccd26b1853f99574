"""Rows of native/einsum.py: sums of products by subscripts."""

from __future__ import annotations

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import complex64, float32, float64, int64

from . import Fails, Row, S, T


def _einsum(equation, tensors):
    return np.einsum(equation, *tensors)


def _tensordot(a, b, first, second):
    return np.tensordot(a, b, (first, second))


def _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    operands = zip((i1, i2, i3), (expand1, expand2, expand3))
    a, b, c = (np.expand_dims(x, places) for x, places in operands)
    return (a * b * c).sum(tuple(sumdim))


def _bilinear(x, y, weight, bias=None):
    return np.einsum("...i,kij,...j->...k", x, weight, y) + (0 if bias is None else bias)


def _bad(equation, *operands, message, kind=errors.ArgumentError):
    return Fails(S(equation, operands), kind, message)


ROWS = [
    Row(
        "bilinear",
        [S(T(2, 3), T(2, 4), T(5, 3, 4), T(5)), S(T(3), T(4), T(5, 3, 4))],
        _bilinear,
        dtypes=(float32, float64, int64),
        errors=(
            Fails(S(T(2, 3), T(3, 4), T(5, 3, 4)), errors.ShapeError, "bilinear: 'input2' must"),
            Fails(S(T(2, 3), T(2, 4), T(5, 4, 3)), errors.ShapeError, "bilinear: 'weight' must"),
        ),
    ),
    Row(
        "einsum",
        [
            S("ij,jk->ik", (T(2, 3), T(3, 4))),
            S("ii->i", (T(3, 3),)),
            S("...ij,...jk->...ik", (T(5, 2, 3), T(3, 4))),
            S("b i j , b k j -> k i b", (T(2, 3, 4), T(2, 5, 4))),
            S("ab,bc,cd,a", (T(2, 3), T(3, 4), T(4, 2), T(2))),
            S("ij,jk->ik", (T(2, 0), T(0, 4))),
            S("Ab,bA", (T(2, 3), T(3, 2))),
        ],
        _einsum,
        may_copy=True,
        dtypes=(float32, float64, complex64, int64),
        errors=(
            _bad("ij,jk", T(2, 3), message="einsum: 'equation' must have 1 terms"),
            _bad("i?", T(2, 3), message="einsum: 'equation' must have letters"),
            _bad("ij->kk", T(2, 3), message="einsum: 'equation' must name 'k' once"),
            _bad("ij->k", T(2, 3), message="einsum: 'equation' must name 'k' in an operand"),
            _bad("i", T(2, 3), message="einsum: 'equation' must name 2", kind=errors.ShapeError),
            _bad(
                "ij,jk",
                T(2, 3),
                T(4, 2),
                message="einsum: 'operands' must have one size for 'j'",
                kind=errors.ShapeError,
            ),
        ),
    ),
    Row(
        "tensordot",
        [
            S(T(2, 3, 4), T(4, 3, 5), (1, 2), (1, 0)),
            S(T(2, 3), T(4), (), ()),
        ],
        _tensordot,
        out="same",
        dtypes=(float32, float64, int64),
        errors=(
            Fails(S(T(2, 3), T(4), (1,), (0,)), errors.ShapeError, "tensordot: 'other' must have"),
            Fails(S(T(2, 3), T(3), (1,), ()), errors.ArgumentError, "'dims_other' must name 1"),
        ),
    ),
    Row(
        "_trilinear",
        [S(T(2, 3), T(5, 3, 4), T(2, 4), (1, 3), (0,), (1, 2), (2, 3))],
        _trilinear,
        out="same",
        dtypes=(float32, float64, int64),
    ),
]
