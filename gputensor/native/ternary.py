"""Operators of three inputs, element by element: clamp, lerp, addcmul, addcdiv."""

from __future__ import annotations

from typing import Any

from ..core import errors
from ..core.dtype import FLOATING
from ..dispatch.operator import Operator
from ..iterator.plan import Plan
from ..structured import elementwise
from ..structured.pointwise import Kernel, Rule


def rule(operator: Operator, loop: str) -> Rule:
    found = elementwise.rule(operator, "ternary", loop)
    if loop == "addcdiv":
        found.check = _check_quotient
    return found


def _check_quotient(op: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
    """PyTorch keeps integer operands for a division that rounds, and has none here."""
    if all([x._geometry.dtype.category < FLOATING for x in inputs[1:]]):
        rule = "be floating or complex where 'tensor1' is not"
        raise errors.must(op, "tensor2", rule, inputs[2], kind=errors.DtypeError)


def functional(operator: Operator, loop: str) -> Kernel:
    return elementwise.functional(operator, rule(operator, loop))


def inplace(operator: Operator, loop: str) -> Kernel:
    return elementwise.inplace(operator, rule(operator, loop))


def out(operator: Operator, loop: str) -> Kernel:
    return elementwise.out(operator, rule(operator, loop))
