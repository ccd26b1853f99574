"""Rows of kernels/*/unary: one input, element by element."""

from __future__ import annotations

import operator

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, bool_, complex64, complex128, float16, float32, float64

from . import Fails, Row, S, T, grid


def _conjugate(self: np.ndarray) -> np.ndarray:
    return np.conjugate(self) if self.dtype.kind == "c" else self


ROWS = [
    Row(
        "abs",
        grid(),
        np.abs,
        operator=abs,
        out="same",
        ulp={complex64: 1, complex128: 1},
        device_ulp=1,
        why="the modulus is a hypot, good to 1 ulp in every libm",
    ),
    Row("conj_physical", grid(), _conjugate, out="same", may_copy=True),
    Row("_conj_physical", grid(), _conjugate, out="same"),
    Row(
        "exp",
        grid("any") + grid("exact"),
        np.exp,
        ulp={float16: 1, bfloat16: 1, float32: 4, float64: 4, complex64: 4, complex128: 4},
        device_ulp=4,
        why="NumPy and CUDA promise 4 ulp for expf; 16-bit floats round the f32 result once",
    ),
    Row(
        "neg",
        grid(),
        np.negative,
        operator=operator.neg,
        out="same",
        errors=(
            Fails(S(T(2)), errors.DtypeError, "neg: 'self' must not be bool", bool_),
            Fails(S([1.0]), TypeError, "neg: 'self' must be a Tensor"),
        ),
    ),
    Row(
        "relu",
        grid(),
        lambda x: np.maximum(x, 0),
        out="same",
        zeros_equal=True,
        errors=(
            Fails(S(T(2)), errors.DtypeError, "relu: 'self' must be real and not bool", bool_),
            Fails(S(T(2)), errors.DtypeError, "relu: 'self' must be real and not bool", complex64),
        ),
    ),
    Row(
        "sqrt",
        grid("any") + grid("exact"),
        np.sqrt,
        positive=True,
        ulp={complex64: 2, complex128: 2},
        device_ulp=2,
        why="IEEE roots are exact; a complex one takes a hypot, good to 1 ulp, and a root",
    ),
]
