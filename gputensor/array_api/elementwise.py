"""Elementwise functions.

`together` has the standard's promotion, which differs from PyTorch's for 0-d tensors; the rest is
the operator's.
"""

from __future__ import annotations

from typing import Any

import gputensor as gt
from gputensor import Tensor

from .dtypes import Number, like, together


def abs(x: Tensor, /) -> Tensor:
    """The absolute value; real for complex numbers."""
    return gt.abs(x)


def acos(x: Tensor, /) -> Tensor:
    """The inverse cosine."""
    return gt.acos(x)


def acosh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic cosine."""
    return gt.acosh(x)


def add(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """x1 + x2."""
    return gt.add(*together("add", x1, x2))


def asin(x: Tensor, /) -> Tensor:
    """The inverse sine."""
    return gt.asin(x)


def asinh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic sine."""
    return gt.asinh(x)


def atan(x: Tensor, /) -> Tensor:
    """The inverse tangent."""
    return gt.atan(x)


def atan2(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """The angle of the point (x2, x1)."""
    return gt.atan2(*together("atan2", x1, x2))


def atanh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic tangent."""
    return gt.atanh(x)


def bitwise_and(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """Bitwise and."""
    return gt.bitwise_and(*together("bitwise_and", x1, x2))


def bitwise_invert(x: Tensor, /) -> Tensor:
    """Invert each bit; for bools, `not`."""
    return gt.bitwise_not(x)


def bitwise_left_shift(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """x1 with its bits shifted left by x2."""
    return gt.bitwise_left_shift(*together("bitwise_left_shift", x1, x2))


def bitwise_or(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """Bitwise or."""
    return gt.bitwise_or(*together("bitwise_or", x1, x2))


def bitwise_right_shift(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """x1 with its bits shifted right by x2; the sign is kept."""
    return gt.bitwise_right_shift(*together("bitwise_right_shift", x1, x2))


def bitwise_xor(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """Bitwise exclusive or."""
    return gt.bitwise_xor(*together("bitwise_xor", x1, x2))


def ceil(x: Tensor, /) -> Tensor:
    """The smallest integer that is not below the element."""
    return gt.ceil(x)


def clip(
    x: Tensor, /, min: Tensor | Number | None = None, max: Tensor | Number | None = None
) -> Tensor:
    """x clamped to [`min`, `max`]; the dtype stays that of x."""
    if min is None and max is None:
        return gt.clone(x)
    bounds: Any = [None if bound is None else like(x, bound) for bound in (min, max)]
    return gt.clamp(x, *bounds)


def conj(x: Tensor, /) -> Tensor:
    """The complex conjugate."""
    return gt.conj_physical(x)


def copysign(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """x1 with the sign of x2."""
    return gt.copysign(*together("copysign", x1, x2))


def cos(x: Tensor, /) -> Tensor:
    """The cosine."""
    return gt.cos(x)


def cosh(x: Tensor, /) -> Tensor:
    """The hyperbolic cosine."""
    return gt.cosh(x)


def divide(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """x1 / x2."""
    return gt.divide(*together("divide", x1, x2))


def equal(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """True where x1 == x2."""
    return gt.eq(*together("equal", x1, x2))


def exp(x: Tensor, /) -> Tensor:
    """e to the power of x."""
    return gt.exp(x)


def expm1(x: Tensor, /) -> Tensor:
    """exp(x) - 1, precise near 0."""
    return gt.expm1(x)


def floor(x: Tensor, /) -> Tensor:
    """The largest integer that is not above the element."""
    return gt.floor(x)


def floor_divide(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """The largest integer that is not above x1 / x2."""
    return gt.floor_divide(*together("floor_divide", x1, x2))


def greater(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """True where x1 > x2."""
    return gt.gt(*together("greater", x1, x2))


def greater_equal(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """True where x1 >= x2."""
    return gt.ge(*together("greater_equal", x1, x2))


def hypot(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """sqrt(x1 * x1 + x2 * x2), without overflow of intermediate results."""
    return gt.hypot(*together("hypot", x1, x2))


def imag(x: Tensor, /) -> Tensor:
    """The imaginary part; of real numbers, zeros."""
    return gt.imag(x) if x.is_complex() else gt.zeros_like(x)


def isfinite(x: Tensor, /) -> Tensor:
    """True where an element is neither infinite nor NaN."""
    return gt.isfinite(x)


def isinf(x: Tensor, /) -> Tensor:
    """True where an element is infinite."""
    return gt.isinf(x)


def isnan(x: Tensor, /) -> Tensor:
    """True where an element is NaN."""
    return gt.isnan(x)


def less(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """True where x1 < x2."""
    return gt.lt(*together("less", x1, x2))


def less_equal(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """True where x1 <= x2."""
    return gt.le(*together("less_equal", x1, x2))


def log(x: Tensor, /) -> Tensor:
    """The natural logarithm."""
    return gt.log(x)


def log10(x: Tensor, /) -> Tensor:
    """The logarithm of base 10."""
    return gt.log10(x)


def log1p(x: Tensor, /) -> Tensor:
    """log(1 + x), precise near 0."""
    return gt.log1p(x)


def log2(x: Tensor, /) -> Tensor:
    """The logarithm of base 2."""
    return gt.log2(x)


def logaddexp(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """log(exp(x1) + exp(x2)), without overflow of intermediate results."""
    return gt.logaddexp(*together("logaddexp", x1, x2))


def logical_and(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """True where both operands are true."""
    return gt.logical_and(*together("logical_and", x1, x2))


def logical_not(x: Tensor, /) -> Tensor:
    """True where an element is zero."""
    return gt.logical_not(x)


def logical_or(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """True where at least one operand is true."""
    return gt.logical_or(*together("logical_or", x1, x2))


def logical_xor(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """True where exactly one operand is true."""
    return gt.logical_xor(*together("logical_xor", x1, x2))


def maximum(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """The larger of both; NaN if one is NaN."""
    return gt.maximum(*together("maximum", x1, x2))


def minimum(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """The smaller of both; NaN if one is NaN."""
    return gt.minimum(*together("minimum", x1, x2))


def multiply(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """x1 * x2."""
    return gt.multiply(*together("multiply", x1, x2))


def negative(x: Tensor, /) -> Tensor:
    """The negated number."""
    return gt.negative(x)


def nextafter(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """The next number of the dtype after x1 in the direction of x2."""
    return gt.nextafter(*together("nextafter", x1, x2))


def not_equal(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """True where x1 != x2."""
    return gt.ne(*together("not_equal", x1, x2))


def positive(x: Tensor, /) -> Tensor:
    """The number itself."""
    return gt.positive(x)


def pow(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """x1 to the power of x2."""
    return gt.pow(*together("pow", x1, x2))


def real(x: Tensor, /) -> Tensor:
    """The real part."""
    return gt.real(x)


def reciprocal(x: Tensor, /) -> Tensor:
    """1 / x."""
    return gt.reciprocal(x)


def remainder(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """The remainder of floor_divide; it has the sign of x2."""
    return gt.remainder(*together("remainder", x1, x2))


def round(x: Tensor, /) -> Tensor:
    """The nearest integer; of two equally near ones, the even one."""
    if x.is_complex():
        return gt.complex(gt.round(gt.real(x)), gt.round(gt.imag(x)))
    return gt.round(x)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; of complex numbers, x / abs(x)."""
    # PyTorch's sign of NaN is 0
    return gt.where(gt.isnan(x), x, gt.sgn(x)) if x.is_floating_point() else gt.sgn(x)


def signbit(x: Tensor, /) -> Tensor:
    """True where the sign bit is set, including -0."""
    return gt.signbit(x)


def sin(x: Tensor, /) -> Tensor:
    """The sine."""
    return gt.sin(x)


def sinh(x: Tensor, /) -> Tensor:
    """The hyperbolic sine."""
    return gt.sinh(x)


def sqrt(x: Tensor, /) -> Tensor:
    """The square root."""
    return gt.sqrt(x)


def square(x: Tensor, /) -> Tensor:
    """x * x."""
    return gt.square(x)


def subtract(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """x1 - x2."""
    return gt.subtract(*together("subtract", x1, x2))


def tan(x: Tensor, /) -> Tensor:
    """The tangent."""
    return gt.tan(x)


def tanh(x: Tensor, /) -> Tensor:
    """The hyperbolic tangent."""
    return gt.tanh(x)


def trunc(x: Tensor, /) -> Tensor:
    """Round towards zero."""
    return gt.trunc(x)
