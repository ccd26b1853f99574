"""Rows of kernels/*/unary: one input, element by element."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from scipy import special

from gputensor.core import errors
from gputensor.core.dtype import (
    ALL, bfloat16, bool_, complex64, complex128, float16, float32, float64, int64,
)  # fmt: skip

from . import Fails, Row, S, T, grid


def _conjugate(self: np.ndarray) -> np.ndarray:
    return np.conjugate(self) if self.dtype.kind == "c" else self


# Samples for operators that use the loop of exp with another function.
FEW = [S(T(2, 3, values="any")), S(T(2, 3, 4, 5)), S(T()), S(T(0, 3))]


def _like(
    name: str,
    ref: Any,
    ulp: float = 4,
    device_ulp: float = 8,
    values: str = "any",
    samples: Any = None,
    **more: Any,
) -> Row:
    """Return a row of a function that each device, and NumPy, implements separately."""
    few = [S(T(2, 3, values=values)), S(T(2, 3, 4, 5, values=values)), *FEW[2:]]
    samples = samples or few
    halves = {float16: 1, bfloat16: 1}
    floats = dict.fromkeys((float32, float64, complex64, complex128), ulp)
    why = "a few ulp are what NumPy, C libraries and CUDA promise; 16-bit floats are rounded once"
    if not ulp:
        return Row(name, samples, ref, like="exp", **more)
    return Row(
        name, samples, ref, like="exp", ulp=halves | floats, device_ulp=device_ulp, why=why, **more
    )  # fmt: skip


def _plain(function: Any) -> Any:
    """Return the reference of a function that changes real floating numbers only and copies
    others."""
    return lambda x: function(x) if x.dtype.kind == "f" else x


def _rounded(x: Any, decimals: int = 0) -> Any:
    return np.round(x, decimals) if x.dtype.kind == "f" else x


_DECIMALS = [
    S(T(2, 3, dtype=float32), decimals=1),
    S(T(2, 3, dtype=float64, layout="transposed"), decimals=-1),
    S(T(dtype=float16), decimals=0),
]


def _turned(factor: float) -> Any:
    return lambda x: x * factor


def _unit(x: np.ndarray) -> np.ndarray:
    size = np.abs(x)
    return np.where(size == 0, 0, x / np.where(size == 0, 1, size))


def _sign(x: np.ndarray) -> np.ndarray:
    return _unit(x) if x.dtype.kind == "c" else np.where(x < 0, -1, x > 0)


def _angle(x: np.ndarray) -> np.ndarray:
    """np.angle of a real -0.0 is pi, PyTorch's is 0."""
    return np.angle(x if x.dtype.kind == "c" else x + 0.0)


def _sinc(x: np.ndarray) -> np.ndarray:
    return np.where(x == 0, 1, np.sin(np.pi * x) / (np.pi * x))


ROWS = [
    Row(
        "abs",
        grid(),
        np.abs,
        operator=abs,
        out="same",
        ulp={complex64: 1, complex128: 1},
        device_ulp=3,
        why="the modulus is a hypot, good to 1 ulp in every libm, to 2 in double on CUDA",
    ),
    _like("acos", np.arccos, domain=(0.1, 0.9)),
    _like("acosh", np.arccosh, positive=True, domain=(1.2, 1.9)),
    _like("angle", _angle, out="castable"),
    _like("asin", np.arcsin, domain=(0.1, 0.9)),
    _like("asinh", np.arcsinh),
    _like("atan", np.arctan),
    _like("atanh", np.arctanh, domain=(0.1, 0.9)),
    _like("bitwise_not", np.invert, 0, operator=operator.invert, out="same"),
    _like("ceil", _plain(np.ceil), 0, out="same"),
    Row("conj_physical", grid(), _conjugate, out="same", may_copy=True),
    Row("_conj_physical", grid(), _conjugate, out="same"),
    _like("cos", np.cos),
    _like("cosh", np.cosh),
    _like("deg2rad", _turned(np.pi / 180), 1),
    _like("erf", special.erf),
    _like("erfc", special.erfc),
    Row(
        "exp",
        grid("any") + grid("exact"),
        np.exp,
        ulp={float16: 1, bfloat16: 1, float32: 4, float64: 4, complex64: 4, complex128: 4},
        device_ulp=4,
        why="NumPy and CUDA promise 4 ulp for expf; 16-bit floats round the f32 result once",
    ),
    _like("exp2", np.exp2),
    _like("expm1", np.expm1),
    _like("floor", _plain(np.floor), 0, out="same"),
    _like("frac", lambda x: x - np.trunc(x), 0, out="same"),
    _like("isfinite", np.isfinite, 0),
    _like("isinf", np.isinf, 0),
    _like("isnan", np.isnan, 0),
    _like("isneginf", lambda x: x == -np.inf, 0, out="same"),
    _like("isposinf", lambda x: x == np.inf, 0, out="same"),
    Row("isreal", FEW, np.isreal, result=lambda args, kwargs, of: bool_),
    _like("log", np.log, positive=True),
    _like("log10", np.log10, positive=True),
    _like("log1p", np.log1p, positive=True),
    _like("log2", np.log2, positive=True),
    _like("logical_not", np.logical_not, 0, out="any"),
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
    Row("positive", FEW, np.positive, operator=operator.pos, dtypes=ALL[1:]),
    _like("rad2deg", _turned(180 / np.pi), 1),
    _like("reciprocal", np.reciprocal, 2),
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
    _like(
        "round",
        _rounded,
        2,
        samples=[*FEW, *_DECIMALS],
        out="same",
        errors=(
            Fails(S(T(2), decimals=1), errors.DtypeError, "round: 'self' must be floating", int64),
            Fails(S(T(2), decimals=1.5), TypeError, "round: 'decimals' must be", float32),
        ),
    ),
    _like("rsqrt", lambda x: 1 / np.sqrt(x), positive=True),
    _like("sgn", _sign, out="same"),
    _like("sigmoid", lambda x: 1 / (1 + np.exp(-x)), values="exact"),
    _like("sign", _sign, 0, out="same"),
    _like("signbit", lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0, 0, out="same"),
    _like("sin", np.sin),
    _like("sinc", _sinc, samples=[S(T(2, 3, values="positive", dtype=d)) for d in ALL[-6:]]),
    _like("sinh", np.sinh),
    Row(
        "sqrt",
        grid("any") + grid("exact"),
        np.sqrt,
        positive=True,
        ulp={complex64: 2, complex128: 2},
        device_ulp=2,
        why="IEEE roots are exact; a complex one takes a hypot, good to 1 ulp, and a root",
    ),
    Row(
        "square",
        FEW,
        lambda x: np.square(x.astype(np.int64)) if x.dtype == bool else np.square(x),
        out="same",
        result=lambda args, kwargs, of: int64 if of is bool_ else of,
    ),
    _like("tan", np.tan),
    _like("tanh", np.tanh),
    _like("trunc", _plain(np.trunc), 0, out="same"),
]
