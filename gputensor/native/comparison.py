"""Comparisons and logical operators, such as eq, lt and logical_and; the result is bool. Complex
numbers have no order."""

from __future__ import annotations

from typing import Any

from .._generated import calls
from ..core import errors
from ..core.arguments import real
from ..core.device import CPU
from ..core.dtype import FLOATING, INTEGER
from ..dispatch import defaults
from ..dispatch.operator import Operator
from ..iterator.config import COMPARISON
from ..tensor.tensor import Tensor
from ..structured import arguments, pointwise
from ..structured.pointwise import cpu as pointwise_cpu, device as pointwise_device
from ..structured.pointwise import Kernel, Rule

# On the CPU, `equal` compares this number of elements first.
_FIRST = 1 << 12


def rule(loop: str) -> Rule:
    return pointwise.rule("comparison", loop, COMPARISON, COMPARISON)


def functional(operator: Operator, loop: str) -> tuple[Kernel, Kernel]:
    return pointwise_cpu.binary(operator, rule(loop)), pointwise_device.binary(operator, rule(loop))


def inplace(operator: Operator, loop: str) -> Kernel:
    write = pointwise.write(operator, rule(loop))

    def kernel(key_set: int, self: Tensor, other: Any) -> Tensor:
        return write(self, (self, other))

    return kernel


def out(operator: Operator, loop: str) -> Kernel:
    write = pointwise.write(operator, rule(loop))

    def kernel(key_set: int, self: Any, other: Any, out: Tensor) -> Tensor:
        return write(out, (self, other), (), kernel)

    return kernel


# --- whole tensors --------------------------------------------------------------------------------


def isclose(
    key_set: int, self: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:  # fmt: skip
    """Return an elementwise test for near equality. Source: ATen/native/TensorCompare.cpp,
    isclose."""
    of = self._geometry.dtype
    if other._geometry.dtype is not of:
        raise errors.dtypes_differ("isclose", "other", (other._geometry, other._device), of)
    rtol, atol = real("isclose", "rtol", rtol), real("isclose", "atol", atol)
    for name, bound in (("rtol", rtol), ("atol", atol)):
        if not bound >= 0:
            raise errors.must("isclose", name, "not be negative", bound)
    close = calls.eq_Tensor(self, other)
    if equal_nan and of.category >= FLOATING:
        both = calls.bitwise_and_Tensor(calls.ne_Tensor(self, self), calls.ne_Tensor(other, other))
        close = calls.bitwise_or_Tensor(close, both)
    if rtol == 0 and atol == 0:
        return close
    if of.category <= INTEGER:
        self, other = [x.to(defaults.get_default_dtype()) for x in (self, other)]
    allowed = calls.add_Tensor(calls.abs(calls.mul_Tensor(other, rtol)), atol)
    apart = calls.abs(calls.sub_Tensor(self, other))
    near = calls.bitwise_and_Tensor(
        calls.lt_Tensor(apart, float("inf")), calls.le_Tensor(apart, allowed)
    )
    return calls.bitwise_or_Tensor(close, near)


def equal(key_set: int, self: Tensor, other: Tensor) -> bool:
    arguments.check_device("equal", "self", self, "other", other)
    if self._geometry.sizes != other._geometry.sizes:
        return False
    if self._device is CPU and self._geometry.numel > _FIRST and self._geometry.is_contiguous:
        if other._geometry.is_contiguous:
            # Different tensors usually differ in their first elements.
            first = [calls.slice_Tensor(calls.view(x, (-1,)), 0, 0, _FIRST) for x in (self, other)]
            if not calls.all(calls.eq_Tensor(*first)):
                return False
    return bool(calls.all(calls.eq_Tensor(self, other)))
