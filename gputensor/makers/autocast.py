"""The kernel at an Autocast key, for any operator and policy. It casts the operands and calls the
operator again.

The second call excludes the device's Autocast key, so the operators inside it are not cast again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ._generated import shapes
from ..amp.casting import (
    AUTOCAST, cast_any, cast_list, device_of, is_eligible, widest,
)  # fmt: skip
from ..core import errors
from ..core.device import AUTOCAST_DEVICES
from ..core.dtype import dtype, float32
from ..dispatch import dispatcher, families
from ..dispatch.boxing.calling import keys_of_list
from ..dispatch.operator import Operator, Table
from ..dispatch.tls import state as _state
from .autograd import shape_of

# The name of a policy, or a dtype to which operands are cast.
Policy = str | dtype
Maker = Callable[[Table, int], Callable[..., Any]]

# Maps the name of an Autocast key to a dict with the policies of operators, as in
# native_functions.yaml.
shipped: dict[str, dict[str, Policy]] = {f"Autocast{device}": {} for device in AUTOCAST_DEVICES}


def ship(key_name: str, name: str, policy: Policy) -> None:
    """Register the policy of a built-in operator."""
    of_key = shipped[key_name]
    of_key[name] = policy
    families.note(partial(of_key.pop, name, None))


def casts(policy: Policy) -> Maker:
    """Return the maker of kernels for a policy."""

    def make(table: Table, key_set: int) -> Callable[..., Any]:
        if policy == "banned":
            return _refusing(table.operator)
        if policy in ("fp32_set_opt_dtype", "fp32_append_dtype"):
            return _in_float32(table.operator, policy == "fp32_append_dtype")
        return _casting(table, policy)

    return make


def _refusing(operator: Operator) -> Callable[..., Any]:
    def kernel(key_set: int, *args: Any) -> Any:
        raise errors.banned_from_autocast(operator.short_name)

    return kernel


def _casting(table: Table, policy: Policy) -> Callable[..., Any]:
    fixed = float32 if policy == "fp32" else policy if isinstance(policy, dtype) else None
    make: Callable[..., Callable[..., Any]]
    make = vars(shapes).get(f"casts_{shape_of(table)}", general)
    return make(table.operator, fixed, policy == "promote")


def general(operator: Operator, fixed: dtype | None, is_widest: bool) -> Callable[..., Any]:
    """Make the kernel for any schema. For the schemas of our operators, shapes.py has faster
    kernels.
    """
    places = [n for n, a in enumerate(operator.schema.arguments) if a.type.has_tensor]
    get, put = _state.get, _state.set

    def kernel(key_set: int, *args: Any) -> Any:
        device = device_of[key_set & AUTOCAST]
        include, keep = before = get()
        keep &= ~device.key
        try:
            put((include, keep))
            given, operands = list(args), [args[n] for n in places]
            flat = [x for v in operands for x in (v if isinstance(v, (list, tuple)) else (v,))]
            to = widest(device, *flat) if is_widest else fixed or device.dtype.get()
            for n, value in zip(places, operands):
                is_list = isinstance(value, (list, tuple))
                given[n] = (cast_list if is_list else cast_any)(value, to, device)
            key_set = (keys_of_list([given[n] for n in places]) | include) & keep
            return operator.table[key_set](key_set, *given)
        finally:
            put(before)

    return kernel


def _in_float32(operator: Operator, appends: bool) -> Callable[..., Any]:
    """Make a kernel that requests computation in float32: it sets the argument `dtype`, or calls an
    overload that has this argument."""
    arguments = operator.schema.arguments
    places = [n for n, a in enumerate(arguments) if a.type.has_tensor]
    at = next((n for n, a in enumerate(arguments) if takes_dtype(a, "ScalarType?")), -1)
    target = with_dtype(operator) if appends else operator
    assert target is not None
    get, put = _state.get, _state.set

    def kernel(key_set: int, *args: Any) -> Any:
        device = device_of[key_set & AUTOCAST]
        include, keep = before = get()
        try:
            put((include, keep & ~device.key))
            given, x = list(args), args[places[0]]
            if appends:
                given.append(float32 if is_eligible(x, device) else x.dtype)
            elif given[at] is None and is_eligible(x, device):
                given[at] = float32
            include |= keys_of_list([given[n] for n in places])
            key_set = include & keep & ~device.key
            return target.table[key_set](key_set, *given)
        finally:
            put(before)

    return kernel


def takes_dtype(argument: Any, type_name: str) -> bool:
    return argument.name == "dtype" and str(argument.type) == type_name


def with_dtype(operator: Operator) -> Operator | None:
    """Return the overload that takes the operator's arguments, followed by a dtype."""
    wanted = [*(a.name for a in operator.schema.arguments), "dtype"]
    for other in dispatcher.overloads(operator.name):
        if other.is_defined:
            arguments = other.schema.arguments
            if [a.name for a in arguments] == wanted and str(arguments[-1].type) == "ScalarType":
                return other
    return None
