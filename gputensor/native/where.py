"""where(condition, self, other): self where condition is true, other elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._generated import calls
from ..core import errors, number_range
from ..core.dtype import bool_, uint8
from ..core.promotion import result_type
from ..dispatch import defaults, refusal
from ..dispatch.boxing.calling import tensors_for_numbers
from ..dispatch.operator import Operator
from ..iterator.config import WHERE
from ..tensor.tensor import Tensor
from ..structured import float8
from ..structured.pointwise import elementwise
from ..structured import pointwise
from ..structured.pointwise import NUMBERS, Kernel, Rule

_RULE = Rule("where", "where", WHERE)


def _mask(condition: Any) -> Tensor:
    if isinstance(condition, Tensor):
        if condition._geometry.dtype is bool_:
            return condition
        if condition._geometry.dtype is uint8:
            refusal.warn(errors.byte_condition(condition), stacklevel=4)
            return calls.ne_Tensor(condition, 0)
    raise errors.wrong_dtype("where", "condition", "be a bool tensor", condition)


def mixed_entry(operator: Operator, out: Tensor | None, inputs: tuple[Any, ...]) -> Any:
    """Return the entry of `where` for these tensors and numbers from the operator's table. Make the
    entry if the table has none. If `out` is given, the entry belongs to the out form. All tensors
    are on one device."""
    return pointwise.find_entry(operator.table, _RULE, _RULE.loop, out, inputs)


def _check_numbers(entry: Any, self: Any, other: Any) -> None:
    for arg, value in (("self", self), ("other", other)):
        if type(value) in NUMBERS:
            number_range.check("where", arg, value, entry.plan.common_dtype)


def _with_tensors(inputs: Sequence[Any]) -> Sequence[Any]:
    """Convert numbers to tensors on the condition's device. Source: ATen's TensorCompare.cpp,
    `where`."""
    operands = inputs[1:3]
    if not any([type(x) in NUMBERS for x in operands]):
        return inputs
    place = inputs[0]._device
    specs = tuple([type(x) if type(x) in NUMBERS else (x._geometry, x._device) for x in operands])
    of = result_type("where", specs, defaults.get_default_dtype())
    made = [
        calls.scalar_tensor(x, of, None, place, None) if type(x) in NUMBERS else x for x in operands
    ]
    return (inputs[0], *made, *inputs[3:])


tensors_for_numbers.append(_with_tensors)


def functional(operator: Operator, loop: str) -> Kernel:
    made = elementwise.compute(operator, _RULE)

    def kernel(key_set: int, condition: Tensor, self: Any, other: Any) -> Tensor:
        mask, args = _mask(condition), (condition, self, other)
        found: Tensor
        try:
            if mask is condition:
                found = made(args, (), kernel, args)
            else:
                found = made((mask, self, other))
        except errors.NotComputedError:
            return float8.moved(functional_on_bytes, key_set, mask, *_codes(self, other))
        return found

    def functional_on_bytes(key_set: int, *args: Any) -> Tensor:
        found: Tensor = made(args)
        return found

    return kernel


def _codes(self: Any, other: Any) -> tuple[Any, Any]:
    """Return the operands; a number beside a float8 tensor is replaced by its float8 code as
    uint8."""
    for x, y in ((self, other), (other, self)):
        if isinstance(x, Tensor) and x._geometry.dtype.is_float8 and type(y) in NUMBERS:
            place = x._device
            code = calls.scalar_tensor(
                float8.code_of(y, x._geometry.dtype), uint8, None, place, None
            )
            return (code, x) if x is other else (x, code)
    return self, other


def out(operator: Operator, loop: str) -> Kernel:
    write = pointwise.write(operator, _RULE)

    def kernel(key_set: int, condition: Tensor, self: Any, other: Any, out: Tensor) -> Tensor:
        inputs = (_mask(condition), self, other)
        entry = pointwise.find_entry(operator.table, _RULE, loop, out, inputs)
        if entry.has_numbers:
            _check_numbers(entry, self, other)
        return write(out, inputs)

    return kernel
