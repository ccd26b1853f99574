"""Elementwise operators with one input. A new operator needs no line in this file."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from functools import cache
from typing import Any

from .._generated import calls, operators
from ..core import errors
from ..core.device import CPU
from ..core.dtype import bool_, float32
from ..core.geometry import contiguous_geometry
from ..dispatch.keys import CONJUGATE
from ..dispatch.operator import Operator
from ..iterator import overlap
from ..iterator.config import UNARY, UNARY_FLOAT
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from ..structured import arguments, pointwise
from ..structured.pointwise import cpu as pointwise_cpu, device as pointwise_device
from ..structured.pointwise import Kernel, Rule
from ..structured.transfer import resize_output


def rule(loop: str) -> Rule:
    found = pointwise.rule("unary", loop, UNARY, UNARY_FLOAT)
    if loop == "logical_not":  # Only logical_not may write its bool result to any dtype.
        found.config = found.config.replace(cast_common_dtype_to_outputs=True)
    return found


def functional(operator: Operator, loop: str) -> tuple[Kernel, Kernel]:
    return pointwise_cpu.unary(operator, rule(loop)), pointwise_device.unary(operator, rule(loop))


def inplace(operator: Operator, loop: str) -> Kernel:
    write = pointwise.write(operator, rule(loop))

    def kernel(key_set: int, self: Tensor) -> Tensor:
        return write(self, (self,), (), kernel)

    return kernel


def out(operator: Operator, loop: str) -> Kernel:
    write = pointwise.write(operator, rule(loop))

    def kernel(key_set: int, self: Tensor, out: Tensor) -> Any:
        return write(out, (self,), (), kernel)

    return kernel


# --- bitwise_not: for bool it is logical_not, because CUDA kernels compute bool as an integer ---


def _flips(make: Callable[[Operator, Rule], Kernel]) -> Callable[[Operator, str], Kernel]:
    def of(operator: Operator, loop: str) -> Kernel:
        bits = make(operator, rule(loop))
        truth = make(operator, Rule("unary", "logical_not", UNARY))

        def kernel(key_set: int, self: Tensor, *out: Tensor) -> Tensor:
            chosen = truth if self._geometry.dtype is bool_ else bits
            return chosen(key_set, self, *out)

        return kernel

    return of


def _into(operator: Operator, said: Rule) -> Kernel:
    write = pointwise.write(operator, said)
    return lambda key_set, self, out=None: write(self if out is None else out, (self,))


flip_functional = _flips(pointwise.functional)
flip_inplace = flip_out = _flips(_into)


# --- angle ----------------------------------------------------------------------------------------


def angles_functional(operator: Operator, loop: str) -> Kernel:
    """Make the functional kernel of angle. For complex numbers its result is row-major. Source:
    ATen/native/UnaryOps.cpp, angle."""
    of_real = pointwise.functional(operator, rule(loop))
    write = pointwise.write(operator, rule(loop))

    def kernel(key_set: int, self: Tensor) -> Tensor:
        shape = self._geometry
        if not shape.dtype.is_complex:
            return of_real(key_set, self)
        made = allocate(contiguous_geometry(shape.sizes, shape.dtype.to_real), self._device)
        return write(made, (self,))

    return kernel


def angles_out(operator: Operator, loop: str) -> Kernel:
    """Make the out kernel of angle. If it resizes `out`, then `out` becomes row-major."""
    general = out(operator, loop)

    def kernel(key_set: int, self: Tensor, out: Tensor) -> Tensor:
        shape = self._geometry
        if shape.dtype.is_complex and out._geometry.sizes != shape.sizes:
            wanted = contiguous_geometry(shape.sizes, out._geometry.dtype)
            overlap.check_out("angle", out, wanted, self=self)
            resize_output("angle", out, wanted)
        return general(key_set, self, out)

    return kernel


# --- composed of other operators ----------------------------------------------------------------


def isreal(key_set: int, self: Tensor) -> Tensor:
    if not self._geometry.dtype.is_complex:
        return calls.ones_like(self, bool_)
    return calls.eq_Tensor(calls.imag(self), 0)


def positive(key_set: int, self: Tensor) -> Tensor:
    if self._geometry.dtype is bool_:
        raise errors.wrong_dtype("positive", "self", "not be bool", self)
    return self


def round_decimals(key_set: int, self: Tensor, decimals: int) -> Tensor:
    of = self._geometry.dtype
    if not of.is_floating_point:
        raise errors.wrong_dtype("round", "self", "be floating where decimals are given", self)
    places = arguments.integer("round", "decimals", decimals)
    if places == 0:
        return calls.round(self)
    x = calls.to_dtype(self, float32) if of.itemsize == 2 else self
    ten = float(10 ** builtins.abs(places)) if builtins.abs(places) < 309 else math.inf
    if places > 0:
        made = calls.div_Tensor(calls.round(calls.mul_Tensor(x, ten)), ten)
    else:
        made = calls.mul_Tensor(calls.round(calls.div_Tensor(x, ten)), ten)
    return made if x is self else calls.to_dtype(made, of)


def square(key_set: int, self: Tensor) -> Tensor:
    # As in pow, the integer exponent 2 takes part in type promotion: bool becomes int64.
    if self._geometry.dtype is bool_:
        return calls.mul_Tensor(self, 1)
    return calls.mul_Tensor(self, self)


# --- conj_physical: a real tensor is its own conjugate --------------------------------------------


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
    """Return True if the device has a conjugation loop for this dtype. Devices other than the CPU
    have one only for complex numbers; real numbers are copied."""
    return self._geometry.dtype.is_complex or self._device is CPU


_RULES = Rule("copy", "copy", UNARY), Rule("unary", "conj_physical", UNARY)


# The kernels are made at the first call, because this module must not use operators during import.
@cache
def _functional(is_turned: bool) -> Kernel:
    return pointwise.functional(operators._conj_physical, _RULES[is_turned])


@cache
def _write(is_turned: bool) -> Kernel:
    return pointwise.write(operators.conj_physical_out, _RULES[is_turned])
