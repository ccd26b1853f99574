"""Errors of schemas, registrations, dispatch tables, fallbacks, modes and devices of extensions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .base import (
    ArgumentTypeError, ArgumentValueError, DispatchError, Got, GpuTensorError, RegistrationError,
    SchemaError, describe, must,
)  # fmt: skip
from .shapes import MissingAttribute


# --- schema ---------------------------------------------------------------------------------------


def bad_schema(text: str, position: int, rule: str, got: str) -> SchemaError:
    """Make the error for a schema that does not parse. The message has the column (from 1) and the
    whole text."""
    return SchemaError(f"schema: column {position + 1} must {rule} (got {got!r}) in {text!r}")


# --- dispatch -------------------------------------------------------------------------------------


def schema_missing(operator: Any) -> DispatchError:
    return DispatchError(
        f"{operator.qualified_name}: kernels are registered but no schema "
        f"({_sites(operator, operator.kernels)}); define it with Library.define"
    )


def operator_not_found(name: str, operator: Any) -> DispatchError:
    if operator is not None:
        return schema_missing(operator)
    return DispatchError(f"{name}: no such operator is registered")


def defined_twice(operator: Any, site: str) -> RegistrationError:
    where = f"at {operator.def_site} and at {site}; schema {operator.schema}"
    return RegistrationError(f"{operator.qualified_name}: defined twice, {where}")


def fallback_twice(key: Any, first: str, second: str) -> RegistrationError:
    where = f"at {first}, and again at {second}"
    return RegistrationError(f"{key}: a backend fallback is registered {where}")


def unknown_key(name: Any, known: Any) -> GpuTensorError:
    """Make the error for an unknown dispatch key. The message names the most similar key."""
    import difflib

    near = difflib.get_close_matches(name if isinstance(name, str) else "", known, 1)
    remedy = f"did you mean {near[0]}" if near else ""
    return must("dispatch", "dispatch_key", "name a dispatch key", name, remedy=remedy)


def alias_key(name: str) -> GpuTensorError:
    rule = "be a run-time key; alias keys exist at registration only"
    return must("dispatch", "dispatch_key", rule, Got(name))


def no_kernel(operator: Any, key: Any, table: str, remedy: str = "") -> DispatchError:
    """Make the error for a call whose keys have no kernel. The message names the operator, the key,
    the keys with kernels and a remedy. It also prints the computed table."""
    return DispatchError(
        f"{operator.short_name}: no kernel for key {key} (kernels are registered at: "
        f"{_registered_at(operator)}){'; ' if remedy else ''}{remedy}{_table_of(operator, table)}"
    )


def masked_by_fallthrough(operator: Any, skipped: Any, table: str) -> DispatchError:
    """Make the error for a call whose only kernels are at keys that fall through."""
    names = ", ".join(f"{key} (registered at {kernel.site})" for key, kernel in skipped)
    return DispatchError(
        f"{operator.short_name}: no kernel is left, as a fallthrough masks the key {names}"
        f"{_table_of(operator, table)}"
    )


def no_dispatch_keys(operator: Any, table: str) -> DispatchError:
    return DispatchError(
        f"{operator.short_name}: no tensor arguments, or an empty list of tensors, so nothing "
        f"chooses a backend (kernels are registered at: {_registered_at(operator)})"
        f"{_table_of(operator, table)}"
    )


def _registered_at(operator: Any) -> str:
    return ", ".join(str(k) for k in operator.kernels) or "none"


def _sites(operator: Any, chosen: Any) -> str:
    """Return `CPU at <file:line>` for the active kernel of each key."""
    kernels = operator.kernels
    return ", ".join(f"{key} at {kernels[key][0].site}" for key in chosen) or "none is left"


def _table_of(operator: Any, table: str) -> str:
    schema = _schema_of(operator)
    site = operator.definition.site if operator.definition else "nowhere"
    return f"\nschema: {schema}, registered at {site}\n{table.rstrip()}"


def ambiguous_autograd_other(operator: Any, composite: Any, backends: Any) -> DispatchError:
    """Make the error for two kernels that conflict at AutogradOther. composite, backends: the keys
    of these kernels."""
    return DispatchError(
        f"{operator.short_name}: AutogradOther is ambiguous between "
        f"{_sites(operator, [composite])} and {_sites(operator, backends)}; register a kernel at "
        f"AutogradOther; schema {_schema_of(operator)}"
    )


def _schema_of(operator: Any) -> Any:
    return operator.definition.schema if operator.definition else "(none)"


def wrong_stack(operator: Any, rule: str, expected: int, got: int) -> DispatchError:
    """Make the error for a boxed kernel with a wrong number of values on the stack. rule: a clause
    that precedes the expected number."""
    stack = f"{rule} {expected} values on the stack (got {got})"
    return DispatchError(f"{operator.qualified_name}: a boxed {stack}")


def wrong_return(operator: Any, site: str, result: Any) -> ArgumentTypeError:
    returns = operator.schema.returns
    types = str(returns[0]) if len(returns) == 1 else f"({', '.join(map(str, returns))})"
    return ArgumentTypeError(
        f"{operator.short_name}: the kernel registered at {site} must return {types} (got "
        f"{describe(result)})"
    )


def _misfit(operator: Any, what: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"{operator.short_name}: {what}; declaration {operator.schema}")


def wrong_argument(operator: Any, argument: Any, position: int, value: Any) -> ArgumentTypeError:
    """Make the error for an argument that does not fit its declared type. The message contains its
    position."""
    got = f"(got {type(value).__name__} {describe(value)} at position {position})"
    return _misfit(operator, f"'{argument.name}' must be {argument.type} {got}")


def too_many_arguments(operator: Any, takes: int, got: int) -> ArgumentTypeError:
    return _misfit(operator, f"takes {takes} positional arguments (got {got})")


def argument_twice(operator: Any, name: str) -> ArgumentTypeError:
    return _misfit(operator, f"'{name}' given by position and by name")


def argument_missing(operator: Any, name: str) -> ArgumentTypeError:
    return _misfit(operator, f"'{name}' must be given")


def argument_unknown(operator: Any, name: str) -> ArgumentTypeError:
    return _misfit(operator, f"no argument '{name}'")


def no_overload_fits(name: str, reasons: list[str]) -> ArgumentTypeError:
    """Make the error for a call that no overload fits. The message has one line for each overload,
    in the order in which they were tried."""
    return ArgumentTypeError(f"{name}: no overload takes these arguments\n" + "\n".join(reasons))


# --- library --------------------------------------------------------------------------------------


class OverrideWarning(UserWarning):
    """Warning about a kernel that a new kernel replaced."""


def kernel_overridden(operator: Any, key: Any, before: str, after: str) -> OverrideWarning:
    return OverrideWarning(
        f"{operator.qualified_name}: the kernel for {key} registered at {before} is overridden by "
        f"the one registered at {after}; schema {_schema_of(operator)}"
    )


def may_not_override(operator: Any, key: Any, before: str, after: str) -> RegistrationError:
    return RegistrationError(
        f"{operator.qualified_name}: a kernel for {key} is registered at {before}, and "
        f"allow_override=False at {after}; schema {_schema_of(operator)}"
    )


def kernel_does_not_fit(
    operator: Any, definition: Any, kernel: Any, key: Any, signature: str, reason: str
) -> RegistrationError:
    name, at = getattr(kernel.function, "__name__", "kernel"), "" if key is None else f" for {key}"
    return RegistrationError(
        f"{operator.qualified_name}: the schema {definition.schema} registered at "
        f"{definition.site} and the kernel {name}{signature} registered{at} at {kernel.site} must "
        f"agree: {reason}"
    )


def fallthrough_called() -> DispatchError:
    return DispatchError(
        "fallthrough_kernel: must be given to Library.impl or Library.fallback, not called"
    )


def wrong_registration(what: str, rule: str, site: str, remedy: str = "") -> RegistrationError:
    """Make the error for a call of Library that breaks a rule of registration. site: the file and
    line of the call."""
    tail = f"; {remedy}" if remedy else ""
    return RegistrationError(f"{what} must {rule} (at {site}){tail}")


def second_library(namespace: str, first: str, second: str) -> RegistrationError:
    return RegistrationError(
        f"Library: namespace '{namespace}' has one DEF library, made at {first} (got another at "
        f"{second}); use FRAGMENT to define more operators, IMPL to register kernels"
    )


def no_schema_for(name: str, what: str, got: Any) -> ArgumentValueError:
    """Make the error for a function whose annotations do not translate to a schema. got: the
    annotation or its text."""
    shown = "none" if getattr(got, "__name__", "") == "_empty" else getattr(got, "__name__", got)
    if hasattr(got, "__args__"):
        shown = str(got)
    return ArgumentValueError(
        f"{name}: {what} must have an annotation that a schema can say (got {shown})"
    )


# --- stubs ----------------------------------------------------------------------------------------


def no_stub(family: str, op: str, device_type: str) -> DispatchError:
    what = f"no kernel of family '{family}' for device type '{device_type}'"
    return DispatchError(f"{op}: {what} (register one with register_stub)")


def no_op_of_family(family: str, op: str, known: Iterable[str]) -> GpuTensorError:
    rule = f"be of family '{family}', which has {', '.join(sorted(known))}"
    return must("register_stub", "ops", rule, op)


def bound_nothing(family: str, op: str, device_type: str, bind_op: Any, got: Any) -> DispatchError:
    name = getattr(bind_op, "__qualname__", type(bind_op).__name__)
    return DispatchError(
        f"{op}: the stub '{name}' of family '{family}' for device type '{device_type}' must return "
        f"a function (got {describe(got)})"
    )


# --- further devices ------------------------------------------------------------------------------


def incomplete_runtime(device_type: str, missing: list[str]) -> RegistrationError:
    return RegistrationError(
        f"{device_type}: the runtime must have {', '.join(missing)} "
        "(see docs/extensions/new_device.md)"
    )


def backend_taken(backend: str, name: str, holder: str, site: str) -> RegistrationError:
    return RegistrationError(
        f"register: {backend} must be free for '{name}' (got '{holder}', registered at {site}); "
        "take another of PrivateUse1, PrivateUse2 and PrivateUse3, or remove that one"
    )


def backend_not_loaded(name: str, entry_point: Any, error: BaseException) -> RegistrationError:
    return RegistrationError(
        f"device '{name}': its package did not load from the entry point {entry_point.value} "
        f"({type(error).__name__}: {error}); GPUTENSOR_BACKEND_AUTOLOAD=0 leaves such packages "
        f"alone"
    )


def stub_taken(family: str) -> RegistrationError:
    return RegistrationError(
        f"declare_stub: 'family' must be new (got '{family}', which has kernels)"
    )


def no_family(family: str, known: list[str]) -> GpuTensorError:
    rule = f"be one of {', '.join(known)}, or declared by declare_stub"
    return must("register_stub", "family", rule, family)


def no_module_attribute(device_type: str, name: str) -> MissingAttribute:
    return MissingAttribute(f"gputensor.{device_type}: its runtime has no '{name}'")


# --- fallbacks ------------------------------------------------------------------------------------


class FallbackWarning(UserWarning):
    """Warning about an operator that runs a fallback, because it has no kernel of its own."""


def not_implemented_at(operator: Any, key: str) -> DispatchError:
    return DispatchError(
        f"{operator.short_name}: not implemented for {key}, by the fallback that is registered "
        f"there; schema {operator.schema}"
    )


def runs_on_the_cpu(operator: Any, place: Any, nbytes: int) -> FallbackWarning:
    return FallbackWarning(
        f"{operator.qualified_name}: no kernel for {place}, so it runs on the CPU, {nbytes} bytes "
        "of operands being copied there (said once for each operator)"
    )


def composite_falls_back(argument: str, name: str) -> GpuTensorError:
    return must(
        "enable_cpu_fallback", argument, "name operators that a device has kernels of", name,
        remedy="this one is made of others on every device; name those (gputensor trace shows "
               "them)",
    )  # fmt: skip


def fallback_denied(operator: Any, key: str) -> DispatchError:
    return DispatchError(
        f"{operator.short_name}: no kernel for key {key}, and the CPU fallback is denied to it "
        f"(kernels are registered at: {_registered_at(operator)})"
    )


def no_device_for_fallback(operator: Any) -> DispatchError:
    what = "no operand and no 'device' tells to which device the CPU's result belongs"
    return DispatchError(f"{operator.short_name}: {what}")


def no_derivative(operator: Any) -> DispatchError:
    return DispatchError(
        f"{operator.short_name}: an operand requires grad and the operator has no derivative; "
        "register a kernel at Autograd, or call it under no_grad()"
    )


def derivative_warning(operator: Any) -> FallbackWarning:
    return FallbackWarning(
        f"{operator.qualified_name}: backward came to a result of an operator that has no "
        "derivative, so gradients may be missing or wrong; register a kernel at Autograd, or call "
        "it under no_grad()"
    )


# --- modes ----------------------------------------------------------------------------------------


def not_handled(operator: Any, asked: list[str]) -> ArgumentTypeError:
    got = f"NotImplemented from {', '.join(asked)}"
    return ArgumentTypeError(f"{operator.short_name}: no handler took the call (got {got})")


# --- profiler -------------------------------------------------------------------------------------


class MissingExtra(GpuTensorError, ImportError):
    """Error for a missing package that an optional part of gputensor needs."""


def extra_missing(what: str, extra: str) -> MissingExtra:
    return MissingExtra(
        f"{what}: the package {extra} is not installed; use pip install 'gputensor[{extra}]'"
    )


def vmap_without_rule(op: str) -> str:
    return f"vmap: '{op}' has no batch rule, so it runs for one entry of the batch after another"


def vmap_of_nothing(op: str) -> ArgumentValueError:
    what = "an operator without a batch rule must have at least one entry to run for (got 0)"
    return ArgumentValueError(f"vmap: {what} in '{op}'")


def vmap_no_tensor(op: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"vmap: '{op}' must return Tensors, as its operands have a batch")


def vmap_data_dependent(op: str) -> DispatchError:
    return DispatchError(
        f"vmap: '{op}' must not be called within vmap (got an operand with a batch), since its "
        "result or its sizes depend on the elements of each entry"
    )


def vmap_randomness(op: str) -> DispatchError:
    return DispatchError(
        f"vmap: '{op}' must not draw random numbers with randomness='error' (got a call); say "
        "vmap(..., randomness='different') or 'same'"
    )


def no_backward_hooks(module: str, result: object) -> str:
    rule = "'forward' must return a tensor or a tuple of tensors"
    return f"no backward hook of {module} is called: {rule} (got {type(result).__name__})"


def hook_silenced(error: Exception) -> str:
    return f"a forward hook raised {type(error).__name__} while another error was raised: {error}"
