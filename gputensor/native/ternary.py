"""Elementwise operators of three inputs: clamp, lerp, addcmul, addcdiv."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ..core import errors
from ..core.arguments import number, real
from ..core.dtype import FLOATING, dtype
from ..dispatch.operator import Operator
from ..iterator.config import BINARY
from ..iterator.plan import Plan
from ..structured.pointwise import elementwise
from ..structured import pointwise
from ..structured.pointwise import Kernel, Rule
from ..tensor.tensor import Tensor


def rule(operator: Operator, loop: str) -> Rule:
    found = elementwise.rule(operator, "ternary", loop)
    if loop == "addcdiv":
        found.check = _check_quotient
    return found


def _check_quotient(op: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
    """Reject quotients of integers, as PyTorch does, because the operator has no argument for the
    rounding mode."""
    if all([x._geometry.dtype.category < FLOATING for x in inputs[1:]]):
        rule = "be floating or complex where 'tensor1' is not"
        raise errors.must(op, "tensor2", rule, inputs[2], kind=errors.DtypeError)


functional, inplace, out = elementwise.forms(rule)


# --- nan_to_num -----------------------------------------------------------------------------------


@cache
def _largest(of: dtype) -> float:
    from ..tensor.type_info import finfo

    return finfo(of).max


def _in_place_of(operator: Operator, common: dtype, params: dict[str, Any]) -> tuple[Any, ...]:
    """Return the numbers that replace NaN and the infinities. Integers need no replacement."""
    if common.category < FLOATING:
        return (0, 0, 0)
    most = _largest(common)
    usual = {"nan": 0.0, "posinf": most, "neginf": -most}
    op = operator.short_name
    return tuple([usual[k] if x is None else real(op, k, x) for k, x in params.items()])


finite_functional, finite_inplace, finite_out = elementwise.forms(rule, _in_place_of)


# --- clamp: bounds may be numbers, and may be left out ------------------------------------------

# Maps (min is given, max is given) to the name of clamp's loop.
_BOUNDED = {(True, True): "clamp", (True, False): "clamp_min", (False, True): "clamp_max"}


def _by_bounds(operator: Operator, make: Callable[[Operator, Rule], Kernel]) -> Kernel:
    made = {given: make(operator, _clamp_rule(loop, given)) for given, loop in _BOUNDED.items()}

    def kernel(key_set: int, self: Tensor, min: Any, max: Any, *out: Tensor) -> Tensor:
        run = made.get((min is not None, max is not None))
        if run is None:
            raise errors.must(operator.short_name, "min", "be given where 'max' is not", None)
        inputs = [self]
        if min is not None:
            inputs.append(_bound(operator, "min", min))
        if max is not None:
            inputs.append(_bound(operator, "max", max))
        return run((*out, self)[0], tuple(inputs), (kernel, (self, min, max)))

    return kernel


def _bound(operator: Operator, name: str, value: Any) -> Any:
    found = value if hasattr(value, "_keys") else number(value)
    if found is None:
        raise errors.wrong_type(operator.short_name, name, "be a number or a Tensor", value)
    return found


def _clamp_rule(loop: str, given: tuple[bool, bool]) -> Rule:
    names = ["self"] + ["min"] * given[0] + ["max"] * given[1]
    config = BINARY.replace(arg_names=tuple(names), cpu_scalars=2)
    return pointwise.rule("ternary", loop, config, config)


def bounded_functional(operator: Operator, loop: str) -> Kernel:
    def make(operator: Operator, rule: Rule) -> Any:
        compute = elementwise.compute(operator, rule)
        return lambda self, inputs, called: compute(inputs, (), *called)

    return _by_bounds(operator, make)


def bounded_inplace(operator: Operator, loop: str) -> Kernel:
    def make(operator: Operator, rule: Rule) -> Any:
        write = elementwise.compute_into(operator, rule)
        return lambda out, inputs, called: write(out, inputs, (), *called)

    return _by_bounds(operator, make)


def bounded_out(operator: Operator, loop: str) -> Kernel:
    def make(operator: Operator, rule: Rule) -> Any:
        write = elementwise.compute_into(operator, rule)
        return lambda out, inputs, called: write(out, inputs)

    return _by_bounds(operator, make)
