"""Operators of one input, element by element: a new one needs no line here."""

from __future__ import annotations

from functools import cache
from typing import Any

from .._generated import calls, operators
from ..core.device import CPU
from ..dispatch.keys import CONJUGATE
from ..dispatch.operator import Operator
from ..iterator.config import UNARY, UNARY_FLOAT
from ..tensor.tensor import Tensor
from ..structured import pointwise, pointwise_device
from ..structured.pointwise import Kernel, Rule


def rule(loop: str) -> Rule:
    return pointwise.rule("unary", loop, UNARY, UNARY_FLOAT)


def functional(operator: Operator, loop: str) -> tuple[Kernel, Kernel]:
    return pointwise.unary_cpu(operator, rule(loop)), pointwise_device.unary(operator, rule(loop))


def inplace(operator: Operator, loop: str) -> Kernel:
    write = pointwise.write(operator, rule(loop))

    def kernel(key_set: int, self: Tensor) -> Tensor:
        return write(self, (self,))

    return kernel


def out(operator: Operator, loop: str) -> Kernel:
    write = pointwise.write(operator, rule(loop))

    def kernel(key_set: int, self: Tensor, out: Tensor) -> Any:
        return write(out, (self,))

    return kernel


# --- conj_physical: real tensors are their own conjugates -----------------------------------------


def conj_physical(key_set: int, self: Tensor) -> Tensor:
    return calls._conj_physical(self) if self._geometry.dtype.is_complex else self


def _conj_physical(key_set: int, self: Tensor) -> Tensor:
    if self._keys & CONJUGATE:
        return calls.clone(calls._conj(self))
    return _functional(_has_loop(self))(key_set, self)


def conj_physical_(key_set: int, self: Tensor) -> Tensor:
    return _write(True)(self, (self,)) if self._geometry.dtype.is_complex else self


def conj_physical_out(key_set: int, self: Tensor, out: Tensor) -> Tensor:
    return _write(_has_loop(self))(out, (self,))


def _has_loop(self: Tensor) -> bool:
    """The loops of other devices are for complex numbers; real ones are copied there."""
    return self._geometry.dtype.is_complex or self._device is CPU


_RULES = Rule("copy", "copy", UNARY), Rule("unary", "conj_physical", UNARY)


# Made when first called: this module names no operator while it loads.
@cache
def _functional(is_turned: bool) -> Kernel:
    return pointwise.functional(operators._conj_physical, _RULES[is_turned])


@cache
def _write(is_turned: bool) -> Kernel:
    return pointwise.write(operators.conj_physical_out, _RULES[is_turned])
