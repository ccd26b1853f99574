"""Derivatives of simple functions such as pow, clamp and sgn, and functions that several modules
use.

Source: torch/csrc/autograd/FunctionsManual.cpp.
"""

from __future__ import annotations

import math
from typing import Any, overload

from ..._generated import calls, functions
from ...core.arguments import NUMBERS
from ...tensor.tensor import Tensor


# --- numbers and complex values -------------------------------------------------------------------


@overload
def conj(x: Tensor) -> Tensor: ...
@overload
def conj(x: Any) -> Any: ...
def conj(x: Any) -> Any:
    """Return the conjugate of a tensor or a number."""
    if type(x) in NUMBERS:
        return x.conjugate()
    return calls._conj_physical(x) if x._geometry.dtype.is_complex else x


def scaled(grad: Tensor, factor: Any) -> Tensor:
    """Return grad times the conjugate of a number."""
    if factor == 1:
        return grad
    return -grad if factor == -1 else grad * factor.conjugate()


def repeated(grad: Tensor, count: int) -> Tensor:
    """Return a batch that contains the gradient `count` times."""
    found: Tensor = calls.expand(grad, (count, *grad._geometry.sizes), False)
    return found


def angle_backward(grad: Tensor, self: Tensor) -> Tensor:
    """Return grad * i * self / |self|^2 for complex numbers, zero for real numbers."""
    if not self._geometry.dtype.is_complex:
        return functions.zeros_like(self) * grad
    size = self.abs()
    return functions.where(size == 0, 0, self / (size * size) * 1j * grad)


def pow_backward_self(grad: Tensor, self: Any, exponent: Any) -> Any:
    """Return the gradient of the base of pow. Source: torch/csrc/autograd/FunctionsManual.cpp,
    pow_backward and pow_backward_self."""
    if type(exponent) in NUMBERS:
        if exponent == 0:
            return functions.zeros_like(grad)
        return grad * conj(exponent * self ** (exponent - 1))
    return functions.where(exponent == 0, 0, grad * conj(exponent * self ** (exponent - 1)))


def pow_backward_exponent(grad: Tensor, self: Any, exponent: Tensor, result: Tensor) -> Any:
    """Return the gradient of the exponent of pow. It is 0 where the base is 0 and the exponent is
    not negative. `self` may be a number."""
    if type(self) in NUMBERS:
        self = functions.full_like(result, self)
    # The logarithm of a negative base is complex.
    self = self.to(result._geometry.dtype)
    real = functions.real(exponent) if exponent._geometry.dtype.is_complex else exponent
    is_flat = (self == 0) & (real >= 0)
    return functions.where(is_flat, 0, grad * conj(result * functions.log(self)))


def clamp_backward(grad: Tensor, self: Tensor, min: Any, max: Any) -> Tensor:
    """Return the gradient of clamp. Source: torch/csrc/autograd/FunctionsManual.cpp, clamp_backward
    and related functions."""
    is_kept: Any = True
    if min is not None:
        is_kept = (self >= min) & is_kept
    if max is not None:
        is_kept = (self <= max) & is_kept
    return functions.where(is_kept, grad, 0)


def as_held(number: Any, x: Tensor) -> float:
    """Return the number, rounded to x's dtype, so that it equals the clamped elements of the
    result."""
    return float(x._geometry.dtype.np.type(number))


def clamp_min_backward(grad: Tensor, self: Tensor, min: Tensor, max: Any) -> Tensor:
    is_bound = self < min
    return functions.where(is_bound if max is None else is_bound & (min < max), grad, 0)


def clamp_max_backward(grad: Tensor, self: Tensor, min: Any, max: Tensor) -> Tensor:
    is_bound = self > max
    return functions.where(is_bound if min is None else is_bound | (max < min), grad, 0)


def sgn_backward(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """Return zero for real numbers, and for complex numbers the component orthogonal to self."""
    if not self._geometry.dtype.is_complex:
        return functions.zeros_like(grad)
    size = self.abs()
    along = (conj(grad) * result).real
    return functions.where(size == 0, 0, (grad - along * result) / size)


def sigmoid_double_backward(grad: Tensor, self: Tensor) -> Tensor:
    share = self.sigmoid()
    return grad * share * (1 - share)


def logit_backward(grad: Tensor, self: Tensor, eps: float | None) -> Tensor:
    """Return the gradient of logit. Source: infinitely_differentiable_logit_backward."""
    slope = grad / (self * (1.0 - self))
    low, outside = (0.0, math.nan) if eps is None else (eps, 0.0)
    return calls.where_self((self >= low) & (self <= 1.0 - low), slope, outside)


def sinc_backward(grad: Tensor, self: Tensor) -> Tensor:
    angle = self * math.pi
    square = angle * self
    slope = (angle * angle.cos() - angle.sin()) / square
    return grad * conj(functions.where(square == 0, 0, slope))


def div_other_backward(grad: Tensor, self: Any, other: Tensor, rounding_mode: str | None) -> Tensor:
    if rounding_mode is not None:
        return functions.zeros_like(grad)
    slope: Tensor = conj(self / other / other)
    return -grad * slope
