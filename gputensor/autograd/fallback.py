"""The kernel at the autograd keys of operators without a derivative.

The mode is set for the whole process. In mode "warn", the default, the operator runs, and backward
warns when it reaches the results. "error" rejects operands that require grad. "nothing" is a
fallthrough, and results are constants unless the operator's own kernel calls differentiable
operators. Built-in operators without a derivative (comparisons, factories) are skipped in every
mode. Source:
torch/csrc/autograd/autograd_not_implemented_fallback.cpp, which has no mode "error" yet.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..core import errors
from ..core.dtype import FLOATING
from ..dispatch import dispatcher, keys
from ..dispatch.dispatcher import Handle
from ..dispatch.operator import Operator, Table
from ..tensor.tensor import Tensor
from . import variable
from .history import gradient_edge, with_edge
from .modes import is_grad_enabled
from .node import WarnNotImplementedNode, add_output

AUTOGRAD_MODES = ("nothing", "warn", "error")
_mode = "nothing"
_serving: Handle | None = None
_BELOW = keys.below("AutogradOther")


def set_autograd_fallback_mode(mode: str) -> None:
    """Set the behaviour of operators without a derivative, for the whole process: "warn" (the
    default), "error" or "nothing".

    Raises: ArgumentError for any other mode.
    """
    global _mode, _serving
    if not isinstance(mode, str) or mode not in AUTOGRAD_MODES:
        rule = f"be one of {', '.join(AUTOGRAD_MODES)}"
        raise errors.must("set_autograd_fallback_mode", "mode", rule, mode)
    dispatcher.fallbacks()  # this loads the fallbacks, including the one of this module
    with dispatcher.lock:
        _mode = mode
        if mode != "nothing" and _serving is None:
            _serving = dispatcher.replace_fallback(keys.Autograd, autograd_not_implemented, "maker")
        elif mode == "nothing" and _serving is not None:
            _serving.remove()
            _serving = None


def autograd_fallback_mode() -> str:
    """Return the mode for operators without a derivative."""
    dispatcher.fallbacks()
    return _mode


def autograd_not_implemented(table: Table, key_set: int) -> Callable[..., Any]:
    """Return the kernel of one operator: `lib.impl("scale", autograd_not_implemented, "Autograd")`.

    For an operand that does not require grad, the kernel only reads `_autograd`. Recording stays on
    while the operator runs, so a kernel composed of differentiable operators keeps its gradients.
    """
    operator = table.operator
    declared = table.signature.schema.arguments
    places = [n for n, a in enumerate(declared) if a.type.has_tensor]
    reads = [n for n in places if not declared[n].is_write]

    def without_derivative(key_set: int, *args: Any) -> Any:
        mode, inputs = _mode, [] if _is_plain(places, args) else _recorded(places, args)
        if inputs and mode == "error":
            raise errors.no_derivative(operator)
        key_set &= _BELOW
        result = operator.redispatch_table[key_set](key_set, *args)
        if inputs and mode == "warn":
            untouched = [x for n in reads for x in _listed(args[n])]
            _warn_in_backward(operator, inputs, result, untouched)
        return result

    # Specialised kernels for operators that take one or two tensors, because every call of a user's
    # operator without a derivative runs a kernel of this function. A call takes 0.8x the time of a
    # call through `without_derivative` (bench/host/dispatch.py).
    def unrecorded_one(key_set: int, x: Any) -> Any:
        try:
            is_plain = x._autograd is None
        except AttributeError:
            is_plain = False
        if is_plain:
            key_set &= _BELOW
            return operator.redispatch_table[key_set](key_set, x)
        return without_derivative(key_set, x)

    def unrecorded_two(key_set: int, x: Any, y: Any) -> Any:
        try:
            is_plain = x._autograd is None and y._autograd is None
        except AttributeError:
            is_plain = False
        if is_plain:
            key_set &= _BELOW
            return operator.redispatch_table[key_set](key_set, x, y)
        return without_derivative(key_set, x, y)

    kernels: dict[int, Callable[..., Any]] = {1: unrecorded_one, 2: unrecorded_two}
    return kernels.get(table.n_tensors, without_derivative)


vars(autograd_not_implemented)["kernel_convention"] = "maker"


def _is_plain(places: Sequence[int], args: tuple[Any, ...]) -> bool:
    """Return True only if no operand requires grad. This is a fast test, which may return False
    although no operand requires grad."""
    try:
        for n in places:
            value = args[n]
            if type(value) is list or type(value) is tuple:
                for x in value:
                    if x._autograd is not None:
                        return False
            elif value._autograd is not None:
                return False
    except AttributeError:  # an argument is None or a number
        return False
    return True


def _recorded(places: Sequence[int], args: tuple[Any, ...]) -> list[Tensor]:
    """Return the operands that require grad, or an empty list while operations are not recorded."""
    if not is_grad_enabled():
        return []
    return [
        x for n in places for x in _listed(args[n])
        if getattr(x, "_autograd", None) is not None and x.requires_grad
    ]  # fmt: skip


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)


def _warn_in_backward(
    operator: Operator, inputs: list[Tensor], results: Any, untouched: list[Any]
) -> None:
    """Make backward issue a warning when it reaches these results, even if operators within the
    kernel have already given them a history.

    untouched: operands that the operator only reads. An untouched operand that the operator returns
    stays unchanged.
    """
    node = WarnNotImplementedNode(tuple([gradient_edge(x) for x in inputs]))
    node.operator = operator
    for x in [x for result in _listed(results) for x in _listed(result)]:
        if not isinstance(x, Tensor) or x._geometry.dtype.category < FLOATING:
            continue
        if any([x is given for given in untouched]):
            continue
        if not x.requires_grad:
            with_edge(x, (node, add_output(node, x)))
        elif not x.is_leaf:
            variable.register_hook(
                x, lambda grad: warnings.warn(errors.derivative_warning(operator), stacklevel=2)
            )
