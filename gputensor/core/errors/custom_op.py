"""Errors of custom operators, raised by `custom_op` and `opcheck`."""

from __future__ import annotations

from typing import Any

from .autograd import AutogradError
from .base import ArgumentValueError, DispatchError, GpuTensorError, RegistrationError, describe


# --- definitions of operators -------------------------------------------------------------------


def mutates_no_tensor(name: str, argument: str, type_text: str | None) -> ArgumentValueError:
    got = f"{type_text} {argument}"
    if not type_text:
        got = f"'{argument}', which the function does not take"
    return ArgumentValueError(
        f"{name}: 'mutates_args' must name tensors, or lists of them (got {got})"
    )


def tag_does_not_fit(name: str, tag: str, rule: str) -> ArgumentValueError:
    return ArgumentValueError(f"{name}: a function tagged '{tag}' must {rule}")


def mutates_other_than_schema(
    name: str, given: Any, schema: Any, written: Any
) -> ArgumentValueError:
    return ArgumentValueError(
        f"{name}: 'mutates_args' must be what the schema writes to, {sorted(written)} (got "
        f"{given!r}; schema {schema})"
    )


def keyword_only_tensor(name: str, argument: str, schema: Any) -> DispatchError:
    return DispatchError(
        f"{name}: '{argument}' must not be keyword-only, as it is a tensor (schema {schema}); make "
        "it positional, or tag the operator 'out' if it writes to it"
    )


def no_device_argument(name: str, schema: Any) -> ArgumentValueError:
    return ArgumentValueError(
        f"{name}: a kernel for one device must be chosen by a tensor or by an argument 'device' "
        f"(schema {schema}); add device: gt.device, or leave device_types out"
    )


def not_an_operator(what: str, got: Any) -> ArgumentValueError:
    return ArgumentValueError(
        f"{what}: 'op' must be an operator, or its name (got {describe(got)})"
    )


def not_functional(operator: Any) -> RegistrationError:
    return RegistrationError(
        f"{operator.qualified_name}: an operator with a derivative must return something and write "
        f"to none of its arguments (schema {operator.schema}); register it for a functional "
        "operator, and write with that one's result"
    )


def formula_does_not_fit(name: str, what: str, takes: str, signature: str) -> RegistrationError:
    return RegistrationError(f"{name}: {what} must take {takes} (got {signature})")


# --- calls of operators -------------------------------------------------------------------------


def result_is_alias(operator: Any, site: str, what: str) -> RegistrationError:
    return RegistrationError(
        f"{operator.short_name}: the kernel registered at {site} must return new memory (got "
        f"{what}); return a clone, or declare the alias with schema="
    )


def result_is_not_argument(
    operator: Any, site: str, argument: str, number: int
) -> RegistrationError:
    return RegistrationError(
        f"{operator.short_name}: the kernel registered at {site} must return '{argument}' itself "
        f"as result {number}, as the schema says {operator.schema}"
    )


class MissingFake(DispatchError):
    """Error for an operator that needs a kernel for Meta, but has none."""


def no_fake(operator: Any) -> MissingFake:
    return MissingFake(
        f"{operator.short_name}: no kernel for Meta, which would say the result's shape without "
        "data; register one with register_fake"
    )


def no_formula(operator: Any) -> AutogradError:
    return AutogradError(
        f"Trying to backward through {operator} but no autograd formula was registered. Please use "
        "register_autograd to add one."
    )


def gradient_for_no_tensor(name: str, number: int, argument: str) -> AutogradError:
    return AutogradError(
        f"function {name} returned a gradient different than None at position {number + 1}, but "
        f"the corresponding forward input, '{argument}', is not a tensor"
    )


def gradients_of_list(
    name: str, number: int, argument: str, length: int, got: Any
) -> AutogradError:
    return AutogradError(
        f"function {name} must return the gradients of '{argument}' at position {number + 1} as a "
        f"list of {length} (got {describe(got)})"
    )


# --- checking -------------------------------------------------------------------------------------


class OpCheckError(GpuTensorError, AssertionError):
    """Error for an operator that behaves differently from what its registration declares."""


def opcheck_found(operator: Any, what: str, remedy: str) -> OpCheckError:
    """Make the error for a finding of `opcheck`. The message is the finding and a remedy."""
    return OpCheckError(f"{operator.qualified_name}: {what}; {remedy}")


def opcheck_raises(operator: Any, what: str, error: BaseException, remedy: str) -> OpCheckError:
    said = str(error).partition("\n")[0]
    return opcheck_found(operator, f"its {what} raises {type(error).__name__} ({said})", remedy)


def opcheck_failed(operator: Any, test: str, error: BaseException) -> OpCheckError:
    said = str(error) if isinstance(error, OpCheckError) else f"{type(error).__name__}: {error}"
    return OpCheckError(f"opcheck: {test} failed: {said.removeprefix('opcheck: ')}")
