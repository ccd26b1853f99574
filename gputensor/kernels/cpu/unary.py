"""out[i] = op(x[i]).                                                                family: unary

Types    computes in the common dtype; f16 and bf16 in f32, rounded once. abs of complex is real.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._generated.loops import LOOPS as DTYPES
from ...core.dtype import COMPLEX, FLOATING, INTEGER, bfloat16, bool_, dtype, float16, float32
from ...core.dtype_rules import RULES
from .pointwise import Input, Loop, rounded, typed
from .select import stored, where


def bind(op: str, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """Return the loop `(x, out=None)` of `op` for these dtypes."""
    if op in _COPIES and common.category < _COPIES[op]:
        return _copied
    if op == "relu":
        return _relu(inputs, common, out)
    if op in _OF_INTEGERS and common.category < FLOATING:
        return _always(_OF_INTEGERS[op])
    said, function = RULES[DTYPES["unary"][op]], LOOPS[op]
    result = bool_ if said.gives_bool else common.to_real if said.gives_real else common
    if not isinstance(function, np.ufunc):
        return _composed(function, inputs, common, result, out)
    loop = typed(function, inputs, common, result, out)
    return _around_stride_fault(loop) if op == "neg" else loop


def _composed(
    function: Loop, inputs: Sequence[Input], common: dtype, result: dtype, out: dtype
) -> Loop:
    """Return a loop that casts its input to the dtype of the computation and calls `function`,
    which is composed of several ufuncs."""
    compute = float32 if common in (float16, bfloat16) else common
    if compute is common is inputs[0] and out is result:
        return function
    at, to = compute.np, result.np

    def loop(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return rounded(np.asarray(function(x.astype(at))), to, out)

    return loop


# --- functions that NumPy lacks: (x, out=None), for arrays in the dtype of the computation ------


def _angle(x: np.ndarray, out: np.ndarray | None = None) -> Any:
    if x.dtype.kind == "c":
        return np.arctan2(x.imag, x.real, out)
    found, is_nan = (x < 0).astype(x.dtype) * x.dtype.type(math.pi), np.isnan(x)
    return stored(where(is_nan, x, found) if is_nan.any() else found, out)


def _expm1(x: np.ndarray, out: np.ndarray | None = None) -> Any:
    """Return expm1. For complex infinities, NaN and zeros the result is exp(x) - 1, because NumPy's
    expm1 differs there."""
    found = np.expm1(x, out)
    if x.dtype.kind == "c":
        is_special = ~np.isfinite(x) | (x == 0)
        if is_special.any():
            found = where(is_special, np.exp(x) - x.dtype.type(1), found)
            return stored(found, out)
    return found


def _log1p(x: np.ndarray, out: np.ndarray | None = None) -> Any:
    """Return log1p. Complex numbers are computed by real functions of their parts, because NumPy's
    log1p loses digits by cancellation for small numbers."""
    if x.dtype.kind != "c":
        return np.log1p(x, out)
    re, im = x.real, x.imag
    is_small = (np.abs(re) < 0.5) & (np.abs(im) < 0.5)
    size = where(is_small, np.log1p(re * (2 + re) + im * im) / 2, np.log(np.hypot(1 + re, im)))
    found = np.empty_like(x)
    found.real, found.imag = size, np.arctan2(im, 1 + re)
    return stored(found, out)


def _rsqrt(x: np.ndarray, out: np.ndarray | None = None) -> Any:
    root = np.sqrt(x, out)
    return np.divide(1, root, root if out is None and isinstance(root, np.ndarray) else out)


def _sgn(x: np.ndarray, out: np.ndarray | None = None) -> Any:
    if x.dtype.kind != "c":
        return _sign(x, out)
    size = np.abs(x)
    return stored(where(size == 0, 0, x / where(size == 0, 1, size)), out)


def _sigmoid(x: np.ndarray, out: np.ndarray | None = None) -> Any:
    y = _negative(x, np.empty_like(x) if out is None else out)
    np.exp(y, y)
    one = _ones.get(y.dtype, 1)
    np.add(y, one, y)
    return np.divide(one, y, y)


# These are arrays, because NumPy takes twice as long with Python numbers.
_ones = {of: np.ones((), of) for of in map(np.dtype, "efd")}


def _sign(x: np.ndarray, out: np.ndarray | None = None) -> Any:
    """Return the sign of each element; the sign of NaN is 0."""
    found = np.subtract((x > 0).view(np.int8), (x < 0).view(np.int8))
    return stored(found.astype(x.dtype) if out is None else found, out)


def _signbit(x: np.ndarray, out: np.ndarray | None = None) -> Any:
    return np.signbit(x, out) if x.dtype.kind == "f" else np.less(x, 0, out)


def _sinc(x: np.ndarray, out: np.ndarray | None = None) -> Any:
    angle = x * x.dtype.type(math.pi)
    return stored(where(x == 0, 1, np.sin(angle) / angle).astype(x.dtype, copy=False), out)


def _erf(x: np.ndarray, out: np.ndarray | None = None) -> Any:
    from scipy.special import erf

    return erf(x, out)


def _erfc(x: np.ndarray, out: np.ndarray | None = None) -> Any:
    from scipy.special import erfc

    return erfc(x, out)


def _relu(inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """Make the loop of relu, max(x, 0), where 0 has the operand's dtype."""
    result = out if inputs[0] is common else inputs[0]
    larger = typed(np.maximum, (common, common), common, common, result)
    zero = np.zeros((), common.np)
    return lambda x, out=None: larger(x, zero, out=out)


def _around_stride_fault(negative: Loop) -> Loop:
    """Wrap np.negative, which at some strides writes wrong elements.

    Seen in NumPy 2.4.6 on x86: elements of 4 bytes are 16 bytes apart, or elements of 8 bytes are
    64 bytes apart, and `out` is strided too. As a workaround, NumPy allocates a dense result, which
    is then copied.
    """

    def loop(x: np.ndarray, out: np.ndarray | None = None) -> Any:
        if out is None or x.itemsize * x.itemsize not in x.strides:
            return negative(x, out)
        out[...] = negative(x)
        return out

    return loop


_negative = _around_stride_fault(np.negative)


def _copied(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Copy x: the loop of operators that leave x unchanged, such as floor for integers. See
    _COPIES."""
    if out is None:
        return x.copy("K")
    np.copyto(out, x)
    return out


def _always(answer: bool) -> Loop:
    """Make the loop of isnan and similar operators for integers, where all results are equal. `out`
    may have any dtype."""

    def loop(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        if out is None:
            out = np.empty_like(x, np.bool_)
        out.fill(answer)
        return out

    return loop


# Operators whose name is also the name of the NumPy function that computes them.
_OF_NUMPY = (
    "ceil", "cos", "cosh", "exp", "exp2", "floor", "isfinite", "isinf", "isnan", "log", "log10",
    "log2", "logical_not", "reciprocal", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
LOOPS: dict[str, Any] = {
    **{name: getattr(np, name) for name in _OF_NUMPY},
    "abs": np.absolute,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "angle": _angle,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "bitwise_not": np.invert,
    "conj_physical": np.conjugate,
    "deg2rad": lambda x, out=None: np.multiply(x, math.pi / 180, out),
    "erf": _erf,
    "erfc": _erfc,
    "expm1": _expm1,
    "frac": lambda x, out=None: np.subtract(x, np.trunc(x), out),
    "isneginf": lambda x, out=None: np.equal(x, -math.inf, out),
    "isposinf": lambda x, out=None: np.equal(x, math.inf, out),
    "log1p": _log1p,
    "neg": np.negative,
    "rad2deg": lambda x, out=None: np.multiply(x, 180 / math.pi, out),
    "round": np.rint,
    "rsqrt": _rsqrt,
    "sgn": _sgn,
    "sigmoid": _sigmoid,
    "sign": _sign,
    "signbit": _signbit,
    "sinc": _sinc,
}
OPS = (*LOOPS, "relu")
_OF_INTEGERS = {
    "isfinite": True, "isinf": False, "isnan": False, "isneginf": False, "isposinf": False,
}  # fmt: skip
# Maps an operator to a category. If the category of the operand's dtype is lower, the operator only
# copies.
_COPIES = {
    "ceil": FLOATING, "conj_physical": COMPLEX, "floor": FLOATING, "round": FLOATING,
    "sgn": INTEGER, "sign": INTEGER, "trunc": FLOATING,
}  # fmt: skip
