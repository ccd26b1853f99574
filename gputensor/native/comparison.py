"""Comparisons: eq, ne, lt, le, gt, ge; the result is bool. Complex numbers have no order."""

from __future__ import annotations

from typing import Any

from ..dispatch.operator import Operator
from ..iterator.config import COMPARISON
from ..tensor.tensor import Tensor
from ..structured import pointwise, pointwise_device
from ..structured.pointwise import Kernel, Rule


def rule(loop: str) -> Rule:
    return pointwise.rule("comparison", loop, COMPARISON, COMPARISON)


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
