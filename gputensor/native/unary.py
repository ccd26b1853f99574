"""Operators of one input, element by element: neg, abs, exp, relu, sqrt.

A new one needs no line here unless it refuses dtypes or changes them.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls, operators
from ..core import errors
from ..core.device import CPU
from ..core.dtype import BOOL, COMPLEX, dtype
from ..dispatch.keys import CONJUGATE
from ..dispatch.operator import Operator
from ..iterator.config import UNARY, UNARY_FLOAT
from ..iterator.plan import Plan
from ..tensor.tensor import Tensor
from ..structured import pointwise, pointwise_device
from ..structured.pointwise import Kernel, Rule


def _not_bool(op: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
    if plan.common_dtype.category == BOOL:
        raise errors.must(
            op,
            "self",
            "not be bool",
            errors.Got("bool"),
            kind=errors.DtypeError,
            remedy="use logical_not",
        )


def _numeric_real(op: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
    if plan.common_dtype.category in (BOOL, COMPLEX):
        raise errors.must(
            op,
            "self",
            "be real and not bool",
            errors.Got(plan.common_dtype.short),
            kind=errors.DtypeError,
        )


def _real(common: dtype) -> dtype:
    return common.to_real


# Operators whose dtypes follow another rule than "the input's own".
_RULES = {
    "neg": Rule("unary", "neg", UNARY, check=_not_bool),
    # Source: ATen/native/UnaryOps.cpp, unary_op_impl_with_complex_to_float.
    "abs": Rule("unary", "abs", UNARY, out_dtype=_real, like_input=True),
    "conj_physical": Rule("unary", "conj_physical", UNARY),
    "exp": Rule("unary", "exp", UNARY_FLOAT),
    "relu": Rule("unary", "relu", UNARY, check=_numeric_real),
}


def rule(loop: str) -> Rule:
    return _RULES.get(loop) or Rule("unary", loop, UNARY_FLOAT)


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
    return (_conjugated if _has_loop(self) else _copied)(key_set, self)


def conj_physical_(key_set: int, self: Tensor) -> Tensor:
    return _conjugate_into(self, (self,)) if self._geometry.dtype.is_complex else self


def conj_physical_out(key_set: int, self: Tensor, out: Tensor) -> Tensor:
    return (_conjugate_into if _has_loop(self) else _copy_into)(out, (self,))


def _has_loop(self: Tensor) -> bool:
    """The loops of other devices are for complex numbers; real ones are copied there."""
    return self._geometry.dtype.is_complex or self._device is CPU


_COPY = Rule("copy", "copy", UNARY)
_conjugated = pointwise.functional(operators._conj_physical, rule("conj_physical"))
_copied = pointwise.functional(operators._conj_physical, _COPY)
_conjugate_into = pointwise.write(operators.conj_physical_out, rule("conj_physical"))
_copy_into = pointwise.write(operators.conj_physical_out, _COPY)
