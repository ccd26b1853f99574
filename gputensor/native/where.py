"""where(condition, self, other): self where the condition holds, other elsewhere."""

from __future__ import annotations

from typing import Any

from ..core import errors
from ..core.dtype import bool_
from ..dispatch.operator import Operator
from ..iterator.config import WHERE
from ..kernels.cpu.quiet import run
from ..tensor import Tensor, from_array
from . import pointwise
from .pointwise import Kernel, Rule

_RULE = Rule("where", "where", WHERE)


def _check(condition: Any) -> None:
    if not isinstance(condition, Tensor) or condition._geometry.dtype is not bool_:
        raise errors.must("where", "condition", "be a bool tensor", condition, kind=errors.DtypeError)


def functional(operator: Operator, loop: str) -> tuple[Kernel, Kernel]:
    general = pointwise.functional(operator, _RULE)

    def kernel(key_set: int, condition: Tensor, self: Any, other: Any) -> Tensor:
        _check(condition)
        return general(key_set, condition, self, other)  # type: ignore[no-any-return]

    def cpu(key_set: int, condition: Tensor, self: Any, other: Any) -> Tensor:
        inputs = (condition, self, other)
        key = tuple([type(x) if type(x) in pointwise.NUMBERS else x._geometry for x in inputs])
        entry = operator.table.plans.get(key)
        if entry is None:
            _check(condition)
            entry = pointwise.make_entry(operator, _RULE, loop, None, inputs, key)
        if not entry.numpy_allocates:
            return general(key_set, condition, self, other)  # type: ignore[no-any-return]
        arrays = [x if type(x) in pointwise.NUMBERS else x._get_array() for x in inputs]
        return from_array(run(entry.loop, *arrays), entry.geometry)

    return cpu, kernel


def out(operator: Operator, loop: str) -> Kernel:
    write = pointwise.write(operator, _RULE)

    def kernel(key_set: int, condition: Tensor, self: Any, other: Any, out: Tensor) -> Tensor:
        _check(condition)
        return write(out, (condition, self, other))  # type: ignore[no-any-return]

    return kernel
