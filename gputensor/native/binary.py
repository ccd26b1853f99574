"""Operators of two inputs that take part in type promotion: add, sub, mul, div, minimum, maximum.

add and sub take `alpha`, a factor of `other`; div takes a rounding mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._generated import calls, operators
from ..kernels._generated.loops import LOOPS
from ..core import errors
from ..core.arguments import number_in
from ..core.dtype import (
    BOOL, COMPLEX, FLOATING, INTEGER, complex128, dtype, float32, float64,
)  # fmt: skip
from ..dispatch.operator import Operator
from ..iterator.config import BINARY, BINARY_FLOAT, UNARY
from ..iterator.plan import Plan
from ..tensor.tensor import Tensor
from ..structured.pointwise import elementwise, cpu as pointwise_cpu, device as pointwise_device
from ..structured import pointwise
from ..structured.pointwise import Kernel, Rule


_WITH_ALPHA = ("add", "sub")
# CPython has one object for each small int, so alpha=1 is recognised by identity, and no
# multiplication is done.
_ONE = 1


def rule(loop: str) -> Rule:
    promotes = LOOPS["binary"][loop].startswith("promoted")
    found = pointwise.rule("binary", loop, BINARY if promotes else SAME, BINARY_FLOAT)
    if loop == "nextafter":
        found.check = _check_nextafter
    found.takes_scalars = loop.partition("_")[0] in ("mul", "div")
    return found


# The config of operators whose operands do not take part in type promotion.
SAME = UNARY.replace(arg_names=("self", "values"))


def _check_nextafter(op: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
    """Reject unsupported dtypes. Device kernels compute 16-bit floats in f32, so they would return
    the neighbouring f32 number."""
    common, is_exact = plan.common_dtype, plan.device.type in ("cpu", "meta")
    if common.category != FLOATING or not is_exact and common.itemsize == 2:
        rule = "be floating" if is_exact else "be float32 or float64 on devices"
        raise errors.must(op, "self", rule, errors.Got(common.short), kind=errors.DtypeError)


# --- the three forms: (for the CPU, for every other device) -------------------------------------


def functional(operator: Operator, loop: str) -> tuple[Kernel, Kernel]:
    if loop not in _WITH_ALPHA:
        device = pointwise_device.binary(operator, rule(loop))
        return pointwise_cpu.binary(operator, rule(loop)), device
    scaled_cpu = pointwise.functional(operator, rule(loop), loop + "_alpha", n_params=1)

    def with_alpha_cpu(key_set: int, self: Any, other: Any, alpha: Any) -> Tensor:
        alpha = check_alpha(operator, self, other, alpha)
        return scaled_cpu(key_set, self, other, alpha)

    device = pointwise_device.binary(operator, rule(loop), check_alpha)
    return pointwise_cpu.binary(operator, rule(loop), with_alpha_cpu), device


def inplace(operator: Operator, loop: str) -> tuple[Kernel, Kernel]:
    if loop not in _WITH_ALPHA:
        device = pointwise_device.binary_inplace(operator, rule(loop))
        return pointwise_cpu.binary_inplace(operator, rule(loop)), device

    scaled_cpu = pointwise.write(operator, rule(loop), loop + "_alpha")

    def with_alpha_cpu(key_set: int, self: Tensor, other: Any, alpha: Any) -> Tensor:
        alpha = check_alpha(operator, self, other, alpha)
        return scaled_cpu(self, (self, other), (alpha,))

    device = pointwise_device.binary_inplace(operator, rule(loop), check_alpha)
    return pointwise_cpu.binary_inplace(operator, rule(loop), with_alpha_cpu), device


def out(operator: Operator, loop: str) -> Kernel:
    write = pointwise.write(operator, rule(loop))
    if loop not in _WITH_ALPHA:

        def kernel(key_set: int, self: Any, other: Any, out: Tensor) -> Tensor:
            return write(out, (self, other), (), kernel)

        return kernel
    scaled = pointwise.write(operator, rule(loop), loop + "_alpha")

    def with_alpha(key_set: int, self: Any, other: Any, alpha: Any, out: Tensor) -> Tensor:
        if alpha is _ONE:
            return write(out, (self, other), (), with_alpha)
        alpha = check_alpha(operator, self, other, alpha)
        return scaled(out, (self, other), (alpha,))

    return with_alpha


def rsub(key_set: int, self: Tensor, other: Any, alpha: Any = 1) -> Tensor:
    """Return other - alpha * self. Call sub with the key set of self, because `other` may be a
    number."""
    table = operators.sub_Tensor.table
    return table[key_set](key_set, other, self, alpha)


def rsub_Tensor_out(key_set: int, self: Tensor, other: Any, alpha: Any, out: Tensor) -> Tensor:
    made: Tensor = operators.sub_out.redispatch_table[key_set](key_set, other, self, alpha, out)
    return made


# --- powers ---------------------------------------------------------------------------------------


def _by_exponent(operator: Operator, tensors: Kernel, numbers: Kernel) -> Kernel:
    """Make the kernel of pow from two kernels: one for exponents that are tensors, and one for
    exponents that are numbers. The second one computes exponent 2 as a product and exponent 0.5 as
    a square root."""

    def kernel(key_set: int, self: Any, exponent: Any, *out: Tensor) -> Tensor:
        if type(exponent) in pointwise.NUMBERS:
            if type(exponent) is int and exponent < 0 and _category(self) <= INTEGER:
                raise errors.must("pow", "exponent", "not be negative for integers", exponent)
            return numbers(key_set, self, exponent, *out)
        return tensors(key_set, self, exponent, *out)

    return kernel


def pow_functional(operator: Operator, loop: str) -> tuple[Kernel, Kernel]:
    tensors, numbers = functional(operator, "pow"), functional(operator, "pow_number")
    first, second = [_by_exponent(operator, *pair) for pair in zip(tensors, numbers)]
    return first, second


def pow_inplace(operator: Operator, loop: str) -> tuple[Kernel, Kernel]:
    tensors, numbers = inplace(operator, "pow"), inplace(operator, "pow_number")
    first, second = [_by_exponent(operator, *pair) for pair in zip(tensors, numbers)]
    return first, second


def pow_out(operator: Operator, loop: str) -> Kernel:
    return _by_exponent(operator, out(operator, "pow"), out(operator, "pow_number"))


def float_power(key_set: int, self: Any, exponent: Any) -> Tensor:
    """Return pow in double precision. Source: ATen/native/Pow.cpp, float_power."""
    is_complex = COMPLEX in (_category(self), _category(exponent))
    to = complex128 if is_complex else float64
    operands = [_as(x, to) for x in (self, exponent)]
    table = operators.pow_Tensor_Tensor.table
    return table[key_set](key_set, *operands)


def _as(x: Any, to: Any) -> Any:
    if type(x) in pointwise.NUMBERS:
        return complex(x) if to is complex128 else float(x)
    return x.to(to)


def float_power_(key_set: int, self: Tensor, exponent: Any) -> Tensor:
    is_complex = COMPLEX in (_category(self), _category(exponent))
    to = complex128 if is_complex else float64
    if self._geometry.dtype is not to:
        raise errors.wrong_dtype("float_power_", "self", f"be {to.name}, the result's dtype", self)
    table = operators.pow__Tensor.table
    return table[key_set](key_set, self, _as(exponent, to))


def ldexp(key_set: int, self: Tensor, other: Tensor) -> Tensor:
    """Multiply self by a power of two. With integer exponents the result has the dtype of self. For
    f16 the powers may be outside of the dtype's range."""
    of = self._geometry.dtype
    is_whole = of.category == FLOATING and other._geometry.dtype.category == INTEGER
    if is_whole:
        other = other.to(float64 if of is float64 else float32)
    made = calls.mul_Tensor(self, 2.0**other)
    return made.to(of) if is_whole else made


def floor_divide(key_set: int, self: Any, other: Any) -> Tensor:
    table = operators.div_Tensor_mode.table
    return table[key_set](key_set, self, other, "floor")


def floor_divide_(key_set: int, self: Tensor, other: Any) -> Tensor:
    table = operators.div__Tensor_mode.table
    return table[key_set](key_set, self, other, "floor")


# --- threshold_backward ---------------------------------------------------------------------------


def threshold_functional(operator: Operator, loop: str) -> Kernel:
    return elementwise.functional(operator, rule(loop), _threshold)


def _threshold(operator: Operator, common: dtype, params: dict[str, Any]) -> tuple[Any, ...]:
    if type(params["threshold"]) is complex:
        raise errors.wrong_type(
            operator.short_name, "threshold", "be a real number", params["threshold"]
        )
    return elementwise.checked(operator, common, params)


# --- rounding modes -------------------------------------------------------------------------------

_MODES = {None: "div", "trunc": "div_trunc", "floor": "div_floor"}


def _by_mode(operator: Operator, make: Callable[[Operator, str], Any]) -> Kernel:
    """Make a kernel whose third argument selects the loop. make: a function that makes the kernel
    of one loop.

    All loops share one table of plans, so the loop's name must be part of a plan's key. The fast
    paths of `pointwise_cpu.binary` leave out the name and cannot be used here.
    """
    made = {mode: make(operator, loop) for mode, loop in _MODES.items()}

    def kernel(key_set: int, self: Any, other: Any, rounding_mode: str | None, *out: Tensor) -> Any:
        return made[_mode(rounding_mode)](key_set, self, other, *out)

    return kernel


def _mode(rounding_mode: Any) -> Any:
    if rounding_mode is not None and rounding_mode not in ("trunc", "floor"):
        raise errors.must("div", "rounding_mode", "be None, 'trunc' or 'floor'", rounding_mode)
    return rounding_mode


def mode_functional(operator: Operator, loop: str) -> Kernel:
    return _by_mode(operator, lambda op, name: pointwise.functional(op, rule(name)))


def mode_inplace(operator: Operator, loop: str) -> Kernel:
    def make(operator: Operator, name: str) -> Kernel:
        write = pointwise.write(operator, rule(name))
        return lambda key_set, self, other: write(self, (self, other))

    return _by_mode(operator, make)


def mode_out(operator: Operator, loop: str) -> Kernel:
    return _by_mode(operator, out)


# --- alpha ----------------------------------------------------------------------------------------


def check_alpha(operator: Operator, self: Any, other: Any, alpha: Any) -> Any:
    """Return alpha as a Python number. Raise if its kind does not fit the operands: a float for
    integers, or a complex number for reals. Source: ATen/native/BinaryOps.h, alpha_check."""
    kind = type(alpha)
    if kind is int:
        return alpha
    op = operator.short_name
    if kind not in pointwise.NUMBERS:
        given, alpha = alpha, number_in(alpha)
        if alpha is None:
            raise errors.wrong_type(op, "alpha", "be a number", given)
    check_scale(op, "alpha", alpha, max(_category(self), _category(other)))
    return alpha


def check_scale(op: str, arg: str, value: Any, highest: int) -> None:
    """Raise if a number is of a higher category than the operands. highest: the operands' highest
    category."""
    kind = type(value)
    if kind is bool and highest != BOOL:
        raise errors.must(op, arg, "not be bool unless both operands are", value)
    if kind is float and highest <= INTEGER:
        raise errors.must(op, arg, "be an integer for integer operands", value)
    if kind is complex and highest < COMPLEX:
        raise errors.must(op, arg, "be real for real operands", value)


_NUMBER_CATEGORY = {bool: 0, int: 1, float: 2, complex: 3}


def _category(operand: Any) -> int:
    number = _NUMBER_CATEGORY.get(type(operand))
    return operand._geometry.dtype.category if number is None else number
