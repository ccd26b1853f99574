"""Comparisons: eq, ne, lt, le, gt, ge; the result is bool. Complex numbers have no order."""

from __future__ import annotations

from typing import Any

from ..core import errors
from ..core.dtype import COMPLEX
from ..dispatch.operator import Operator
from ..iterator.config import COMPARISON
from ..iterator.plan import Plan
from ..tensor.tensor import Tensor
from ..structured import pointwise, pointwise_device
from ..structured.pointwise import Kernel, Rule


def _real(op: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
    if plan.common_dtype.category == COMPLEX:
        raise errors.must(
            op, "self", "be real", errors.Got(plan.common_dtype.short), kind=errors.DtypeError
        )


def rule(loop: str) -> Rule:
    return Rule("comparison", loop, COMPARISON, check=None if loop in ("eq", "ne") else _real)


def functional(operator: Operator, loop: str) -> tuple[Kernel, Kernel]:
    return pointwise.binary_cpu(operator, rule(loop)), pointwise_device.binary(operator, rule(loop))


def inplace(operator: Operator, loop: str) -> Kernel:
    write = pointwise.write(operator, rule(loop))

    def kernel(key_set: int, self: Tensor, other: Any) -> Tensor:
        return write(self, (self, other))

    return kernel


def out(operator: Operator, loop: str) -> Kernel:
    write = pointwise.write(operator, rule(loop))

    def kernel(key_set: int, self: Any, other: Any, out: Tensor) -> Tensor:
        return write(out, (self, other))

    return kernel
