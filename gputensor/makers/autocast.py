"""The kernel at an Autocast key, for any operator and policy: it casts, and calls again.

A call goes on without the key of the device whose kernel runs, so what it calls is not cast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..amp.casting import (
    AUTOCAST, AutocastDevice, cast, cast_any, cast_list, device_of, is_eligible, widest,
)  # fmt: skip
from ..core.dtype import dtype, float32
from ..dispatch import dispatcher, families
from ..dispatch.calling import keys_of_list
from ..dispatch.operator import Operator, Table
from ..dispatch.tls import state as _state

# A policy, or a dtype that operands are cast to.
Policy = str | dtype
Maker = Callable[[Table, int], Callable[..., Any]]

# Key -> operator -> policy, of the operators that native_functions.yaml has one for.
shipped: dict[str, dict[str, Policy]] = {"AutocastCPU": {}, "AutocastCUDA": {}}


def ship(key_name: str, name: str, policy: Policy) -> None:
    """Note the policy of an operator of ours."""
    of_key = shipped[key_name]
    of_key[name] = policy
    families.note(lambda: of_key.pop(name, None))


def casts(policy: Policy) -> Maker:
    """The maker for a policy."""

    def make(table: Table, key_set: int) -> Callable[..., Any]:
        operator = table.operator
        prepare = _preparation(policy, operator)
        target = with_dtype(operator) if policy == "fp32_append_dtype" else operator
        assert target is not None
        tensors = [n for n, a in enumerate(operator.schema.arguments) if a.type.has_tensor]
        is_one = len(tensors) == 1 and not operator.schema.arguments[tensors[0]].type.is_list
        get, put = _state.get, _state.set

        def kernel(key_set: int, *args: Any) -> Any:
            device = device_of[key_set & AUTOCAST]
            include, keep = get()
            try:
                put((include, keep & ~device.key))
                given = list(args)
                prepare(device, given)
                key_set = (
                    given[tensors[0]]._keys if is_one else keys_of_list([given[n] for n in tensors])
                )
                key_set = (key_set | include) & keep & ~device.key
                return target.table[key_set](key_set, *given)
            finally:
                put((include, keep))

        return kernel

    return make


def _preparation(policy: Policy, operator: Operator) -> Callable[[AutocastDevice, list[Any]], None]:
    """What changes the arguments of a call."""
    arguments = operator.schema.arguments
    places = [n for n, a in enumerate(arguments) if a.type.has_tensor]
    first = places[0]
    if policy == "fp32_set_opt_dtype":
        at = next(n for n, a in enumerate(arguments) if takes_dtype(a, "ScalarType?"))

        def prepare(device: AutocastDevice, given: list[Any]) -> None:
            if given[at] is None and is_eligible(given[first], device):
                given[at] = float32

    elif policy == "fp32_append_dtype":

        def prepare(device: AutocastDevice, given: list[Any]) -> None:
            x = given[first]
            given.append(float32 if is_eligible(x, device) else x.dtype)

    else:
        numbers = operator.table.definition.numbers if operator.table.definition else ()
        casters = [
            (n, cast_list if arguments[n].type.required.is_list
             else cast_any if numbers or arguments[n].type.is_optional else cast)
            for n in places
        ]  # fmt: skip

        def prepare(device: AutocastDevice, given: list[Any]) -> None:
            to = target_dtype(policy, device, [given[n] for n in places])
            for n, caster in casters:
                given[n] = caster(given[n], to, device)

    return prepare


def target_dtype(policy: Policy, device: AutocastDevice, operands: list[Any]) -> dtype:
    """What the operands are cast to."""
    if policy == "lower_precision_fp":
        return device.dtype.get()
    if policy == "fp32":
        return float32
    if isinstance(policy, dtype):
        return policy
    flat = [x for v in operands for x in (v if isinstance(v, (list, tuple)) else (v,))]
    return widest(device, *flat)


def takes_dtype(argument: Any, type_name: str) -> bool:
    return argument.name == "dtype" and str(argument.type) == type_name


def with_dtype(operator: Operator) -> Operator | None:
    """The overload that takes the operator's arguments and then a dtype."""
    wanted = [*(a.name for a in operator.schema.arguments), "dtype"]
    for other in dispatcher.overloads(operator.name):
        if other.is_defined:
            arguments = other.schema.arguments
            if [a.name for a in arguments] == wanted and str(arguments[-1].type) == "ScalarType":
                return other
    return None
