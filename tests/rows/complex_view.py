"""Rows of views between real and complex elements, and of lazy signs."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import complex64, complex128, float16, float32, float64, int32

from . import Fails, Row, S, T, grid, with_copies

# Reading a lazy view makes a copy, which has the view's strides if the view is dense.
_COMPLEX = [
    S(T(2, 3, layout="contiguous")),
    S(T(2, 3, layout="transposed")),
    S(T(layout="contiguous")),
]


_PAIRS = [
    S(T(2, 3), T(2, 3)), S(T(2, 1), T(3)), S(T(), T(2)), S(T(0, 3), T(3)),
    S(T(2, 3, layout="transposed"), T(2, 3, layout="transposed")),
]  # fmt: skip


def _never(self: np.ndarray) -> np.ndarray:
    return np.asarray(False)


def _real_dtype(args: Any, kwargs: Any, of: Any) -> Any:
    return of.to_real if of.is_complex else of


ROWS = [
    Row("conj", _COMPLEX, np.conjugate, dtypes=(complex64, complex128)),
    Row(
        "_conj",
        _COMPLEX,
        np.conjugate,
        dtypes=(complex64, complex128),
        errors=(Fails(S(T(2)), errors.DtypeError, "_conj: 'self' must be complex", float32),),
    ),
    Row(
        "complex",
        _PAIRS,
        lambda real, imag: real + 1j * imag,
        dtypes=(float16, float32, float64),
        out="same",
        result=lambda args, kwargs, of: of.to_complex,
        errors=(
            Fails(S(T(2), T(2)), errors.DtypeError, "complex: 'real' must be", int32),
            Fails(
                S(T(2), T(2, dtype=float64)),
                errors.DtypeError,
                "complex: 'imag' must be f32",
                float32,
            ),
        ),
    ),
    Row(
        "imag",
        grid(),
        np.imag,
        dtypes=(complex64, complex128),
        result=lambda args, kwargs, of: of.to_real,
        errors=(Fails(S(T(2)), errors.DtypeError, "imag: 'self' must be complex", float32),),
    ),
    Row("is_conj", [S(T(2))], _never),
    Row("is_neg", [S(T(2))], _never),
    Row("_is_zerotensor", [S(T(2))], _never),
    Row("_neg_view", _COMPLEX, np.negative, dtypes=(int32, float32, complex64)),
    Row(
        "polar",
        _PAIRS,
        lambda size, angle: size * np.exp(1j * angle),
        dtypes=(float16, float32, float64),
        out="same",
        result=lambda args, kwargs, of: of.to_complex,
        ulp=4,
        device_ulp=4,
        why="a sine, a cosine and a product",
        errors=(Fails(S(T(2), T(2)), errors.DtypeError, "polar: 'abs' must be", int32),),
    ),
    Row(
        "real",
        grid(),
        lambda self: self.real if self.dtype.kind == "c" else self,
        result=_real_dtype,
    ),
    Row(
        "view_as_complex",
        [
            S(T(3, 2, layout="contiguous")),
            S(T(2, layout="contiguous")),
            S(T(0, 2, layout="contiguous")),
        ],
        lambda self: self[..., 0] + 1j * self[..., 1],
        dtypes=(float32, float64),
        result=lambda args, kwargs, of: of.to_complex,
        errors=(
            Fails(
                S(T(3)),
                errors.ArgumentError,
                "have a last dimension of size 2 and stride 1",
                float32,
            ),
            Fails(S(T(2)), errors.DtypeError, "be float16, float32 or float64", int32),
        ),
    ),
    Row(
        "view_as_real",
        grid(),
        lambda self: np.stack((self.real, self.imag), -1),
        dtypes=(complex64, complex128),
        result=lambda args, kwargs, of: of.to_real,
        errors=(
            Fails(S(T(3)), errors.DtypeError, "view_as_real: 'self' must be complex", float32),
        ),
    ),
]

ROWS = with_copies(ROWS, "_conj _neg_view view_as_complex view_as_real")
