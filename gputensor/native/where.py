"""where(condition, self, other): self where the condition holds, other elsewhere."""

from __future__ import annotations

from typing import Any

from ..core import errors
from ..core.dtype import bool_
from ..dispatch.operator import Operator
from ..iterator.config import WHERE
from ..tensor import Tensor
from . import pointwise
from .pointwise import Kernel, Rule

_RULE = Rule("where", "where", WHERE)


def _check(condition: Any) -> None:
    if not isinstance(condition, Tensor) or condition._geometry.dtype is not bool_:
        raise errors.must("where", "condition", "be a bool tensor", condition, kind=errors.DtypeError)


def functional(operator: Operator, loop: str) -> Kernel:
    run = pointwise.functional(operator, _RULE)

    def kernel(key_set: int, condition: Tensor, self: Any, other: Any) -> Tensor:
        _check(condition)
        return run(key_set, condition, self, other)  # type: ignore[no-any-return]

    return kernel


def out(operator: Operator, loop: str) -> Kernel:
    write = pointwise.write(operator, _RULE)

    def kernel(key_set: int, condition: Tensor, self: Any, other: Any, out: Tensor) -> Tensor:
        _check(condition)
        return write(out, (condition, self, other))  # type: ignore[no-any-return]

    return kernel
