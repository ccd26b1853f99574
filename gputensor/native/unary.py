"""Operators of one input, element by element: neg, abs, exp.

A new one needs no line here unless it refuses dtypes or changes them.
"""

from __future__ import annotations

from typing import Any

from ..core import errors
from ..core.dtype import BOOL, dtype
from ..dispatch.operator import Operator
from ..iterator.config import UNARY, UNARY_FLOAT
from ..iterator.plan import Plan
from ..tensor import Tensor
from . import pointwise
from .pointwise import Kernel, Rule


def _not_bool(op: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
    if plan.common_dtype.category == BOOL:
        raise errors.must(
            op, "self", "not be bool", errors.Got("bool"), kind=errors.DtypeError, remedy="use logical_not"
        )


def _real(common: dtype) -> dtype:
    return common.to_real


# Operators whose dtypes follow another rule than "the input's own".
_RULES = {
    "neg": Rule("unary", "neg", UNARY, check=_not_bool),
    "abs": Rule("unary", "abs", UNARY, out_dtype=_real),
    "exp": Rule("unary", "exp", UNARY_FLOAT),
}


def rule(loop: str) -> Rule:
    return _RULES.get(loop) or Rule("unary", loop, UNARY_FLOAT)


def functional(operator: Operator, loop: str) -> tuple[Kernel, Kernel]:
    return pointwise.unary_cpu(operator, rule(loop)), pointwise.functional(operator, rule(loop))


def inplace(operator: Operator, loop: str) -> Kernel:
    write = pointwise.write(operator, rule(loop))

    def kernel(key_set: int, self: Tensor) -> Tensor:
        return write(self, (self,))  # type: ignore[no-any-return]

    return kernel


def out(operator: Operator, loop: str) -> Kernel:
    write = pointwise.write(operator, rule(loop))

    def kernel(key_set: int, self: Tensor, out: Tensor) -> Any:
        return write(out, (self,))

    return kernel
