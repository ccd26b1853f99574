"""`gt.library.opcheck`: test whether an operator does what its registrations declare.

There are four tests, each on copies of sample arguments, on any device. Memory is written and
shared as the schema declares (memory.py). A derivative is registered at an autograd key. The Meta
kernel returns the right sizes, strides and dtypes (fake.py). The derivative is correct
(derivative.py). The first three tests have PyTorch's names; `test_gradcheck` replaces PyTorch's
fourth test, which compiles the operator. Source: torch/testing/_internal/optests,
torch/_subclasses/schema_check_mode.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core import errors
from ..custom_op import CustomOpDef
from ...dispatch import dispatcher, keys
from ...dispatch.backend_select import BACKEND_OF_TYPE
from ...dispatch.operator import Operator
from ...devices.fallback import autograd_fallback_mode, set_autograd_fallback_mode
from ...tensor.base import tensors_of
from . import derivative, fake, memory
from .call import Call

OpCheckError = errors.OpCheckError


def _autograd_registration(call: Call) -> None:
    """Raise an error if results require grad although no autograd key has a kernel. In this case
    the kernel itself called operators that recorded a graph."""
    operator = call.operator
    backends = {BACKEND_OF_TYPE[x.device.type] for x in call.tensors()}
    above = [keys.key(f"Autograd{b}") for b in backends]
    above += [keys.Autograd, keys.CompositeImplicitAutograd]
    if not call.requires_grad() or any(key in operator.kernels for key in above):
        return
    before = autograd_fallback_mode()
    set_autograd_fallback_mode("nothing")
    try:
        copied = call.copied(with_grad=True)
        result = copied.run()
    finally:
        set_autograd_fallback_mode(before)
    given = copied.tensors()
    if any(x.requires_grad and not any(x is y for y in given) for x in tensors_of(result)):
        raise call.wrong(
            "a result requires grad, and no autograd key has a kernel, so it was recorded below "
            "autograd",
            "give the derivative to register_autograd, or the kernel to CompositeImplicitAutograd",
        )


Test = Callable[[Call, float | None, float | None], None]
TESTS: dict[str, Test] = {
    "test_schema": lambda call, *_: memory.check(call),
    "test_autograd_registration": lambda call, *_: _autograd_registration(call),
    "test_faketensor": lambda call, *_: fake.check(call),
    "test_gradcheck": derivative.check,
}


def opcheck(
    op: Any, args: Sequence[Any], kwargs: dict[str, Any] | None = None, *,
    test_utils: str | Sequence[str] = tuple(TESTS), raise_exception: bool = True,
    atol: float | None = None, rtol: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Test an operator's registrations on these arguments, which are not changed.

    Call it with representative arguments: on every device, with several layouts, with tensors that
    require grad. Returns test -> "SUCCESS" or the exception.

    Args:
        op: a result of `custom_op`, or an operator of `gt.ops`.
        test_utils: one or several of
            `test_schema`: memory is written and shared as the schema declares;
            `test_autograd_registration`: derivatives are registered at autograd keys;
            `test_faketensor`: the Meta kernel returns the operator's sizes, strides and dtypes;
            `test_gradcheck`: the derivative for each tensor that requires grad agrees with finite
            differences, in float64 if the kernel supports it.
        raise_exception: raise OpCheckError at the first failure instead of returning it.
        atol, rtol: tolerances of test_gradcheck. Give both or neither.
    Raises: OpCheckError; ArgumentValueError for an unknown op or test.
    """
    if (atol is None) != (rtol is None):
        rule = "be given with rtol, or neither"
        raise errors.wrong_value("opcheck", "atol", rule, errors.Got("one of them"))
    operator = _operator(op)
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if names == ("ALL",):
        names = tuple(TESTS)
    for name in names:
        if name not in TESTS:
            rule = f"be some of {', '.join(TESTS)}"
            raise errors.wrong_value("opcheck", "test_utils", rule, name)
    call = Call.of(operator, tuple(args), kwargs or {})
    found: dict[str, Any] = {}
    for name in names:
        try:
            TESTS[name](call, rtol, atol)
        except Exception as error:
            if raise_exception:
                raise errors.opcheck_failed(operator, name, error) from error
            found[name] = error
        else:
            found[name] = "SUCCESS"
    return found


def _operator(op: Any) -> Operator:
    """Return the overload to test, given as an overload, a packet or a CustomOpDef."""
    if isinstance(op, CustomOpDef):
        return op._opoverload
    if isinstance(op, Operator):
        return op
    # op is a packet of gt.ops; this module must not import the class of packets
    if hasattr(op, "overloads") and hasattr(op, "qualified_name"):
        names = op.overloads()
        if len(names) == 1:
            return dispatcher.find(f"{op.qualified_name}.{names[0]}")
        rule = f"be one overload, {' or '.join(names)}"
        raise errors.wrong_value("opcheck", "op", rule, errors.Got(op.qualified_name))
    raise errors.not_an_operator("opcheck", op)
