"""Which operator is cast how: the policies of native_functions.yaml, and what others add.

`kernel_maker` is the generated kernels' code for any operator and policy, for operators that
native_functions.yaml does not know, or has no policy for.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._generated import autocast as _autocast
from ..core import errors
from ..core.dtype import dtype, float32
from ..dispatch import dispatcher, keys, tls
from ..dispatch.dispatcher import Handle
from ..dispatch.operator import Operator, Table, caller_site
from .autocast_mode import find
from .casting import (
    AUTOCAST, DEVICES, PRIVATE, AutocastDevice, cast_any, cast_list, device_of, is_eligible, widest,
)  # fmt: skip

POLICIES = ("lower_precision_fp", "fp32", "fp32_set_opt_dtype", "fp32_append_dtype", "promote")
# A policy, or a dtype that operands are cast to.
Policy = str | dtype
# Key -> (operator, policy) of what was registered besides the YAML's, oldest first.
_registered: dict[str, list[tuple[str, Policy]]] = {device.key_name: [] for device in DEVICES}


def policies(device_type: str) -> dict[str, Policy]:
    """Operator -> policy for a type of device: `{"aten::mm": "lower_precision_fp", ...}`."""
    return _policies(find(device_type, "policies"))


def _policies(known: AutocastDevice) -> dict[str, Policy]:
    table = _autocast.POLICIES.get(known.key_name.removeprefix("Autocast"), {})
    return {name: policy for name, (policy, _) in table.items()} | dict(_registered[known.key_name])


def policies_of(name: str) -> dict[str, str]:
    """Device type -> policy for an operator; for `gputensor ops`."""
    found = {d.type: _policies(d).get(name) for d in DEVICES if d.type is not None}
    return {device: str(policy) for device, policy in found.items() if policy is not None}


def register_policy(op_name: str, device_type: str, policy: Policy) -> Handle:
    """Let autocast cast the operands of an operator, for example one of yours, on a type of device.

    op_name: `mylib::scale`, or `neg` for one of ours. policy: one of POLICIES, or a floating dtype
        that operands are cast to whatever the block's is. Returns a handle that undoes it.
    """
    site = caller_site()
    known = find(device_type, "register_policy")
    (name, policy), *_ = _checked("register_policy", {op_name: policy}).items()
    with dispatcher.lock:
        return Handle(_register(known, name, policy, site))


def _register(known: AutocastDevice, name: str, policy: Policy, site: str) -> Callable[[], None]:
    kernel, convention = _kernel(name, policy)
    key = keys.key(known.key_name)
    handle = dispatcher.register_kernel(dispatcher.find(name), key, kernel, convention, site)
    entry, registered = (name, policy), _registered[known.key_name]
    registered.append(entry)

    def undo() -> None:
        handle.remove()
        registered[:] = [other for other in registered if other is not entry]  # not an equal one

    return undo


def register_device(
    device_type: str, dtypes: Sequence[dtype], chosen: Mapping[str, Policy] | None, site: str
) -> Handle:
    """Let autocast know a further device, at PrivateUse1; the handle undoes it."""
    wanted = policies("cuda") if chosen is None else _checked("register_autocast", chosen)
    if not dtypes or not all(isinstance(d, dtype) and d.is_floating_point for d in dtypes):
        raise errors.must(
            "register_autocast", "dtypes", "be floating dtypes, at least one", list(dtypes)
        )
    key = keys.key(PRIVATE.key_name)
    undos = [dispatcher.register_fallback(key, None, "fallthrough", site).remove]
    for name, policy in wanted.items():
        undos.append(_register(PRIVATE, name, policy, site))
    PRIVATE.bring_up(device_type, tuple(dtypes))

    def undo() -> None:
        PRIVATE.type = None
        for take_back in reversed(undos):
            take_back()

    return Handle(undo)


def _kernel(name: str, policy: Policy) -> tuple[Callable[..., Any], str]:
    """The generated kernel where there is one, else one made of the schema."""
    for table in _autocast.POLICIES.values():
        if name in table and table[name][0] == policy:
            return getattr(_autocast, table[name][1]), "native"
    return kernel_maker(policy), "maker"


def _checked(op: str, chosen: Mapping[str, Policy]) -> dict[str, Policy]:
    """The policies by full name. Raises for an operator or a policy that there is not."""
    found = {}
    for name, policy in chosen.items():
        operator = dispatcher.find(dispatcher.qualified(name))
        if policy not in POLICIES and not (isinstance(policy, dtype) and policy.is_floating_point):
            near = difflib.get_close_matches(str(policy), POLICIES, n=1)
            rule = f"be one of {', '.join(POLICIES)}, or a floating dtype"
            raise errors.must(op, f"policies[{name!r}]", rule, policy,
                              remedy=f"did you mean {near[0]!r}" if near else "")  # fmt: skip
        _check_fits(op, operator, policy)
        found[operator.qualified_name] = policy
    return found


def _check_fits(op: str, operator: Operator, policy: Policy) -> None:
    arguments = operator.schema.arguments
    rule = None
    if any(a.is_write for a in arguments) or not any(a.type.has_tensor for a in arguments):
        rule = "name functional operators of tensors"
    elif policy == "fp32_set_opt_dtype" and not any(
        _takes_dtype(a, "ScalarType?") for a in arguments
    ):
        rule = f"give {policy} to operators with an argument 'ScalarType? dtype'"
    elif policy == "fp32_append_dtype" and _with_dtype(operator) is None:
        rule = f"give {policy} to operators with an overload that ends in 'ScalarType dtype'"
    if rule is not None:
        raise errors.must(op, "policies", rule, operator.qualified_name)


def _takes_dtype(argument: Any, type_name: str) -> bool:
    return argument.name == "dtype" and str(argument.type) == type_name


def _with_dtype(operator: Operator) -> Operator | None:
    """The overload that takes the operator's arguments and then a dtype."""
    wanted = [*(a.name for a in operator.schema.arguments), "dtype"]
    for other in dispatcher.operators():
        if other.name == operator.name and other.is_defined:
            arguments = other.schema.arguments
            if [a.name for a in arguments] == wanted and str(arguments[-1].type) == "ScalarType":
                return other
    return None


def kernel_maker(policy: Policy) -> Callable[[Table, int], Callable[..., Any]]:
    """What the dispatcher calls for the kernel of one operator at an Autocast key ("maker")."""

    def make(table: Table, key_set: int) -> Callable[..., Any]:
        operator = table.operator
        arguments = operator.schema.arguments
        places = [
            (n, a.type.required.is_list) for n, a in enumerate(arguments) if a.type.has_tensor
        ]
        first = places[0][0]
        at_dtype = next((n for n, a in enumerate(arguments) if _takes_dtype(a, "ScalarType?")), -1)
        target = _with_dtype(operator) if policy == "fp32_append_dtype" else operator
        assert target is not None

        def kernel(key_set: int, *args: Any) -> Any:
            device = device_of[key_set & AUTOCAST]
            include, keep = tls.state.get()
            try:
                tls.state.set((include, keep & ~device.key))
                given = list(args)
                if policy == "fp32_set_opt_dtype":
                    if given[at_dtype] is None and is_eligible(given[first], device):
                        given[at_dtype] = float32
                elif policy == "fp32_append_dtype":
                    x = given[first]
                    given.append(float32 if is_eligible(x, device) else x.dtype)
                else:
                    to = _to(policy, device, given, places)
                    for n, is_list in places:
                        given[n] = (cast_list if is_list else cast_any)(given[n], to, device)
                signature = target.table.signature
                return target(*given[: signature.n_positional], **signature.keywords_of(given))
            finally:
                tls.state.set((include, keep))

        return kernel

    return make


def _to(policy: Policy, device: Any, given: list[Any], places: list[tuple[int, bool]]) -> dtype:
    if isinstance(policy, dtype):
        return policy
    if policy == "fp32":
        return float32
    if policy == "lower_precision_fp":
        here: dtype = device.dtype.get()
        return here
    tensors = [x for n, is_list in places for x in (given[n] if is_list else [given[n]])]
    return widest(device, *tensors)
