"""Elementwise functions.

`together` promotes the operands by the standard's rules, which differ from PyTorch's for 0-d
tensors. Then gputensor's operator computes the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import gputensor as gt
from gputensor import Tensor

from .dtypes import Number, like, together

F = TypeVar("F", bound=Callable[..., Tensor])
One: TypeAlias = Callable[[Tensor], Tensor]
Two: TypeAlias = Callable[[Tensor | Number, Tensor | Number], Tensor]


def one(name: str, doc: str, operator: str = "", module: Any = gt) -> Any:
    """Return the standard's function `name`, which takes one tensor. The function calls the
    operator of `module` that is named `operator`, or `name` if `operator` is empty."""
    # look up the operator at the first call, because the look-up may load an operator family
    call: Callable[..., Tensor] | None = None

    def function(x: Tensor, /) -> Tensor:
        nonlocal call
        if call is None:
            call = getattr(module, operator or name)
        return call(x)

    return _named(name, function, doc)


def _two(name: str, doc: str, operator: str = "") -> Two:
    """Return the standard's function `name`, which takes two operands. The function promotes the
    operands and calls gt's operator."""
    call: Callable[..., Tensor] | None = None

    def function(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
        nonlocal call
        if call is None:
            call = getattr(gt, operator or name)
        return call(*together(name, x1, x2))

    return _named(name, function, doc)


def _named(name: str, function: F, doc: str) -> F:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


abs: One = one("abs", "The absolute value; real for complex numbers.")
acos: One = one("acos", "The inverse cosine.")
acosh: One = one("acosh", "The inverse hyperbolic cosine.")
add: Two = _two("add", "x1 + x2.")
asin: One = one("asin", "The inverse sine.")
asinh: One = one("asinh", "The inverse hyperbolic sine.")
atan: One = one("atan", "The inverse tangent.")
atan2: Two = _two("atan2", "The angle of the point (x2, x1).")
atanh: One = one("atanh", "The inverse hyperbolic tangent.")
bitwise_and: Two = _two("bitwise_and", "Bitwise and.")
bitwise_invert: One = one("bitwise_invert", "Invert each bit; for bools, `not`.", "bitwise_not")
bitwise_left_shift: Two = _two("bitwise_left_shift", "x1 with its bits shifted left by x2.")
bitwise_or: Two = _two("bitwise_or", "Bitwise or.")
bitwise_right_shift: Two = _two(
    "bitwise_right_shift", "x1 with its bits shifted right by x2; the sign is kept."
)
bitwise_xor: Two = _two("bitwise_xor", "Bitwise exclusive or.")
ceil: One = one("ceil", "The smallest integer that is not below the element.")
conj: One = one("conj", "The complex conjugate.", "conj_physical")
copysign: Two = _two("copysign", "x1 with the sign of x2.")
cos: One = one("cos", "The cosine.")
cosh: One = one("cosh", "The hyperbolic cosine.")
divide: Two = _two("divide", "x1 / x2.")
equal: Two = _two("equal", "True where x1 == x2.", "eq")
exp: One = one("exp", "e to the power of x.")
expm1: One = one("expm1", "exp(x) - 1, precise near 0.")
floor: One = one("floor", "The largest integer that is not above the element.")
floor_divide: Two = _two("floor_divide", "The largest integer that is not above x1 / x2.")
greater: Two = _two("greater", "True where x1 > x2.", "gt")
greater_equal: Two = _two("greater_equal", "True where x1 >= x2.", "ge")
hypot: Two = _two("hypot", "sqrt(x1 * x1 + x2 * x2), without overflow of intermediate results.")
isfinite: One = one("isfinite", "True where an element is neither infinite nor NaN.")
isinf: One = one("isinf", "True where an element is infinite.")
isnan: One = one("isnan", "True where an element is NaN.")
less: Two = _two("less", "True where x1 < x2.", "lt")
less_equal: Two = _two("less_equal", "True where x1 <= x2.", "le")
log: One = one("log", "The natural logarithm.")
log10: One = one("log10", "The logarithm of base 10.")
log1p: One = one("log1p", "log(1 + x), precise near 0.")
log2: One = one("log2", "The logarithm of base 2.")
logaddexp: Two = _two(
    "logaddexp", "log(exp(x1) + exp(x2)), without overflow of intermediate results."
)
logical_and: Two = _two("logical_and", "True where both operands are true.")
logical_not: One = one("logical_not", "True where an element is zero.")
logical_or: Two = _two("logical_or", "True where at least one operand is true.")
logical_xor: Two = _two("logical_xor", "True where exactly one operand is true.")
maximum: Two = _two("maximum", "The larger of both; NaN if one is NaN.")
minimum: Two = _two("minimum", "The smaller of both; NaN if one is NaN.")
multiply: Two = _two("multiply", "x1 * x2.")
negative: One = one("negative", "The negated number.")
nextafter: Two = _two("nextafter", "The next number of the dtype after x1 in the direction of x2.")
not_equal: Two = _two("not_equal", "True where x1 != x2.", "ne")
positive: One = one("positive", "The number itself.")
pow: Two = _two("pow", "x1 to the power of x2.")
real: One = one("real", "The real part.")
reciprocal: One = one("reciprocal", "1 / x.")
remainder: Two = _two("remainder", "The remainder of floor_divide; it has the sign of x2.")
signbit: One = one("signbit", "True where the sign bit is set, including -0.")
sin: One = one("sin", "The sine.")
sinh: One = one("sinh", "The hyperbolic sine.")
sqrt: One = one("sqrt", "The square root.")
square: One = one("square", "x * x.")
subtract: Two = _two("subtract", "x1 - x2.")
tan: One = one("tan", "The tangent.")
trunc: One = one("trunc", "Round towards zero.")


def clip(
    x: Tensor, /, min: Tensor | Number | None = None, max: Tensor | Number | None = None
) -> Tensor:
    """Clamp x to [`min`, `max`]. The result has the dtype of x."""
    if min is None and max is None:
        return gt.clone(x)
    bounds: Any = [None if bound is None else like(x, bound) for bound in (min, max)]
    return gt.clamp(x, *bounds)


def imag(x: Tensor, /) -> Tensor:
    """Return the imaginary part, or zeros for a real tensor."""
    return gt.imag(x) if x.is_complex() else gt.zeros_like(x)


def round(x: Tensor, /) -> Tensor:
    """Round to the nearest integer; halves round to the even neighbour."""
    if x.is_complex():
        return gt.complex(gt.round(gt.real(x)), gt.round(gt.imag(x)))
    return gt.round(x)


def sign(x: Tensor, /) -> Tensor:
    """Return -1, 0 or 1 for real numbers, and x / abs(x) for complex numbers."""
    # PyTorch's sign of NaN is 0; the standard's is NaN
    return gt.where(gt.isnan(x), x, gt.sgn(x)) if x.is_floating_point() else gt.sgn(x)


def tanh(x: Tensor, /) -> Tensor:
    """Return the hyperbolic tangent."""
    found = gt.tanh(x)
    if not x.is_complex():
        return found
    # For an infinite real part, the imaginary part of the result is a zero. In C this zero has the
    # sign of sin(2 imag(x)); the standard requires the sign of imag(x).
    signed = gt.complex(gt.real(found), gt.copysign(gt.imag(found), gt.imag(x)))
    return gt.where(gt.isinf(gt.real(x)), signed, found)
