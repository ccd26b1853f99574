"""Which operator autocast casts how: the table of native_functions.yaml, and what further devices add.

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
from ..dispatch.operator import Operator, Table
from .autocast_mode import find
from .casting import AUTOCAST, PRIVATE, cast_any, cast_list, device_of, is_eligible, widest

POLICIES = ("lower_precision_fp", "fp32", "fp32_set_opt_dtype", "fp32_append_dtype", "promote")
# What the further device chose.
_further: dict[str, str] = {}


def policies(device_type: str) -> dict[str, str]:
    """Operator -> policy for a type of device: `{"aten::mm": "lower_precision_fp", ...}`."""
    known = find(device_type, "policies")
    if known is PRIVATE:
        return dict(_further)
    table = _autocast.POLICIES[known.key_name.removeprefix("Autocast")]
    return {name: policy for name, (policy, _) in table.items()}


def policies_of(name: str) -> dict[str, str]:
    """Device type -> policy for an operator; for `gputensor ops`."""
    found = {device.lower(): table[name][0] for device, table in _autocast.POLICIES.items() if name in table}
    if PRIVATE.type is not None and name in _further:
        found[PRIVATE.type] = _further[name]
    return found


def register(device_type: str, dtypes: Sequence[dtype], chosen: Mapping[str, str] | None, site: str) -> Handle:
    """Let autocast know a further device, at PrivateUse1; the handle undoes it."""
    wanted = policies("cuda") if chosen is None else _checked(chosen)
    if not dtypes or not all(isinstance(d, dtype) and d.is_floating_point for d in dtypes):
        raise errors.must("register_autocast", "dtypes", "be floating dtypes, at least one", list(dtypes))
    key = keys.key(PRIVATE.key_name)
    undos = [dispatcher.register_fallback(key, None, "fallthrough", site).remove]
    for name, policy in wanted.items():
        kernel, convention = _kernel(name, policy)
        undos.append(dispatcher.register_kernel(dispatcher.find(name), key, kernel, convention, site).remove)
    _further.update(wanted)
    PRIVATE.bring_up(device_type, tuple(dtypes))

    def undo() -> None:
        PRIVATE.type = None
        _further.clear()
        for take_back in reversed(undos):
            take_back()

    return Handle(undo)


def _kernel(name: str, policy: str) -> tuple[Callable[..., Any], str]:
    """The generated kernel where there is one, else one made of the schema."""
    for table in _autocast.POLICIES.values():
        if name in table and table[name][0] == policy:
            return getattr(_autocast, table[name][1]), "native"
    return kernel_maker(policy), "maker"


def _checked(chosen: Mapping[str, str]) -> dict[str, str]:
    """The policies by full name. Raises for an operator or a policy that there is not."""
    found = {}
    for name, policy in chosen.items():
        operator = dispatcher.find(name if "::" in name else f"aten::{name}")
        if policy not in POLICIES:
            near = difflib.get_close_matches(str(policy), POLICIES, n=1)
            raise errors.must("register_autocast", f"policies[{name!r}]", f"be one of {', '.join(POLICIES)}", policy,
                              remedy=f"did you mean {near[0]!r}" if near else "")  # fmt: skip
        _check_fits(operator, policy)
        found[operator.qualified_name] = policy
    return found


def _check_fits(operator: Operator, policy: str) -> None:
    arguments = operator.schema.arguments
    rule = None
    if any(a.is_write for a in arguments) or not any(a.type.has_tensor for a in arguments):
        rule = "name functional operators of tensors"
    elif policy == "fp32_set_opt_dtype" and not any(_takes_dtype(a, "ScalarType?") for a in arguments):
        rule = f"give {policy} to operators with an argument 'ScalarType? dtype'"
    elif policy == "fp32_append_dtype" and _with_dtype(operator) is None:
        rule = f"give {policy} to operators with an overload that ends in 'ScalarType dtype'"
    if rule is not None:
        raise errors.must("register_autocast", "policies", rule, operator.qualified_name)


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


def kernel_maker(policy: str) -> Callable[[Table, int], Callable[..., Any]]:
    """What the dispatcher calls for the kernel of one operator at an Autocast key ("maker")."""

    def make(table: Table, key_set: int) -> Callable[..., Any]:
        operator = table.operator
        arguments = operator.schema.arguments
        places = [(n, a.type.required.is_list) for n, a in enumerate(arguments) if a.type.has_tensor]
        first = places[0][0]
        at_dtype = next((n for n, a in enumerate(arguments) if _takes_dtype(a, "ScalarType?")), -1)
        target = _with_dtype(operator) if policy == "fp32_append_dtype" else operator
        assert target is not None

        def kernel(key_set: int, *args: Any) -> Any:
            device = device_of[key_set & AUTOCAST]
            include, keep = tls.state.get()
            token = tls.state.set((include, keep & ~device.key))
            try:
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
                tls.state.reset(token)

        return kernel

    return make


def _to(policy: str, device: Any, given: list[Any], places: list[tuple[int, bool]]) -> dtype:
    if policy == "fp32":
        return float32
    if policy == "lower_precision_fp":
        return device.dtype.get()  # type: ignore[no-any-return]
    tensors = [x for n, is_list in places for x in (given[n] if is_list else [given[n]])]
    return widest(device, *tensors)
