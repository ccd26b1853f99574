"""Cast policies of operators, from native_functions.yaml and from registrations at run time."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence

from ..core import errors
from ..core.dtype import dtype
from ..dispatch import dispatcher, keys
from ..dispatch.dispatcher import Handle
from ..dispatch.operator import Operator, caller_site
from ..makers.autocast import Policy, casts, shipped, takes_dtype, with_dtype
from .autocast_mode import find
from .casting import DEVICES, PRIVATE, AutocastDevice

POLICIES = (
    "lower_precision_fp", "fp32", "fp32_set_opt_dtype", "fp32_append_dtype", "promote", "banned",
)  # fmt: skip
# Maps an Autocast key to (operator, policy) of each registration, oldest first. The policies of
# native_functions.yaml are not included.
_registered: dict[str, list[tuple[str, Policy]]] = {device.key_name: [] for device in DEVICES}


def policies(device_type: str) -> dict[str, Policy]:
    """Return a dict from operator to policy for a device type, such as `{"aten::mm":
    "lower_precision_fp", ...}`."""
    return _policies(find(device_type, "policies"))


def _policies(known: AutocastDevice) -> dict[str, Policy]:
    dispatcher.operators()  # loads all families
    return shipped.get(known.key_name, {}) | dict(_registered[known.key_name])


def policies_of(name: str) -> dict[str, str]:
    """Return a dict from device type to policy for an operator. `gputensor ops` prints this
    dict."""
    found = {d.type: _policies(d).get(name) for d in DEVICES if d.type is not None}
    return {device: str(policy) for device, policy in found.items() if policy is not None}


def register_policy(op_name: str, device_type: str, policy: Policy) -> Handle:
    """Register the cast policy of an operator for a device type. The operator may be built-in or
    user-defined.

    op_name: `mylib::scale`, or `neg` for a built-in operator. policy: one of POLICIES, or a
    floating dtype to which operands are cast, independent of the block's dtype. Returns a handle
    that undoes the registration.
    """
    site = caller_site()
    known = find(device_type, "register_policy")
    (name, policy), *_ = _checked("register_policy", {op_name: policy}).items()
    with dispatcher.lock:
        return Handle(_register(known, name, policy, site))


def _register(known: AutocastDevice, name: str, policy: Policy, site: str) -> Callable[[], None]:
    key = keys.key(known.key_name)
    handle = dispatcher.register_kernel(dispatcher.find(name), key, casts(policy), "maker", site)
    entry, registered = (name, policy), _registered[known.key_name]
    registered.append(entry)

    def undo() -> None:
        handle.remove()
        registered[:] = [other for other in registered if other is not entry]  # compare by identity

    return undo


def register_device(
    device_type: str, dtypes: Sequence[dtype], chosen: Mapping[str, Policy] | None, site: str
) -> Handle:
    """Register autocast for the device at PrivateUse1. Return a handle that undoes the
    registration."""
    wanted = policies("cuda") if chosen is None else _checked("register_autocast", chosen)
    if not dtypes or not all(isinstance(d, dtype) and d.is_floating_point for d in dtypes):
        rule = "be floating dtypes, at least one"
        raise errors.must("register_autocast", "dtypes", rule, list(dtypes))
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


def _checked(op: str, chosen: Mapping[str, Policy]) -> dict[str, Policy]:
    """Return a dict from the operators' full names to policies. Raise an error for an unknown
    operator or policy."""
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
        takes_dtype(a, "ScalarType?") for a in arguments
    ):
        rule = f"give {policy} to operators with an argument 'ScalarType? dtype'"
    elif policy == "fp32_append_dtype" and with_dtype(operator) is None:
        rule = f"give {policy} to operators with an overload that ends in 'ScalarType dtype'"
    if rule is not None:
        raise errors.must(op, "policies", rule, operator.qualified_name)
