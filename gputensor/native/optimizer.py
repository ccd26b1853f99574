"""Optimizer steps on lists of parameters, in place, with the formulas of structured/steps.py.

If grad_scale is given, the gradients are first divided by it, in place. If found_inf is not 0, no
tensor changes. If found_inf is on a GPU, the kernels select between old and new elements, so that
the host does not wait.

Source: aten/src/ATen/native/FusedAdam.cpp, FusedSGD.cpp and FusedAdagrad.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._generated import calls
from ..core import errors
from ..core.device import CPU
from ..dispatch.tls import AutoDispatchBelowAutograd
from ..iterator import overlap
from ..structured import arguments, steps
from ..structured.forms import Kernel, given
from ..tensor.tensor import Tensor

Tensors = Sequence[Tensor]


def _check(
    op: str, params: Tensors, states: dict[str, Tensors], lr: Any, grad_scale: Tensor | None,
    found_inf: Tensor | None,
) -> None:  # fmt: skip
    """Check all operands before any tensor is written."""
    for arg, one in {"lr": lr, "grad_scale": grad_scale, "found_inf": found_inf}.items():
        if isinstance(one, Tensor):
            _check_number(op, arg, one)
    for arg, tensors in {"self": params, **states}.items():
        if len(tensors) != len(params):
            raise errors.must(op, arg, f"hold {len(params)} tensors, as self", len(tensors))
        for p, x in zip(params, tensors):
            arguments.check_is_floating(op, "self", p)
            arguments.check_sizes(op, p._geometry.sizes, **{arg: x})
            arguments.check_alike(op, "self", p, arg, x)
            if arg != "grads" or grad_scale is not None:
                overlap.check_itself(op, x, arg)


def _check_number(op: str, arg: str, x: Tensor) -> None:
    if x._geometry.numel != 1:
        raise errors.wrong_shape(op, arg, "have one element", x)
    arguments.check_is_floating(op, arg, x)


def _steps(op: str, params: Tensors, state_steps: Tensors) -> list[Any]:
    """Return the step number of each parameter, in the form that `_number` returns."""
    if len(state_steps) != len(params):
        rule = f"hold {len(params)} tensors, as self"
        raise errors.must(op, "state_steps", rule, len(state_steps))
    for x in state_steps:
        _check_number(op, "state_steps", x)
    found = [_number(x) for x in state_steps]
    for n in found:
        if not isinstance(n, Tensor) and not n >= 1:
            raise errors.must(op, "state_steps", "hold numbers from 1 on", n)
    return found


def _each(
    params: Tensors, grads: Tensors, written: Sequence[Tensors], maximize: bool,
    grad_scale: Tensor | None, found_inf: Tensor | None, step: Callable[..., None],
) -> None:  # fmt: skip
    """Call step(number, parameter, gradient, *states) for each parameter, without recording for
    autograd. written: for each kind of state, a list with one tensor per parameter.
    """
    with AutoDispatchBelowAutograd():
        _all(params, grads, written, maximize, grad_scale, found_inf, step)


def _all(
    params: Tensors, grads: Tensors, written: Sequence[Tensors], maximize: bool,
    grad_scale: Tensor | None, found_inf: Tensor | None, step: Callable[..., None],
) -> None:  # fmt: skip
    if found_inf is not None and found_inf._device is CPU:
        if found_inf.item() != 0:
            return
        found_inf = None
    for number, changed in enumerate(zip(params, grads, *written)):
        p, grad, *states = changed
        kept = [] if found_inf is None else [calls.clone(x, None) for x in changed]
        if grad_scale is not None:
            calls.copy_(grad, grad / grad_scale)
        step(number, p, -grad if maximize else grad, *states)
        if found_inf is not None:
            is_bad = found_inf.reshape(()) != 0
            for x, before in zip(changed, kept):
                calls.copy_(x, calls.where_self(is_bad, before, x))


def _number(x: Any) -> Any:
    """Return a step number or a rate: as a number on the CPU, as a 0-d tensor on other devices, so
    that the host does not wait.
    """
    if not isinstance(x, Tensor):
        return x
    return x.item() if x._device is CPU else x.reshape(())


def _adam(
    key_set: int, op: str, is_decoupled: bool, self: Tensors, grads: Tensors, exp_avgs: Tensors,
    exp_avg_sqs: Tensors, max_exp_avg_sqs: Tensors, state_steps: Tensors, lr: Any, beta1: float,
    beta2: float, weight_decay: float, eps: float, amsgrad: bool, maximize: bool,
    grad_scale: Tensor | None = None, found_inf: Tensor | None = None,
) -> None:  # fmt: skip
    states = {"grads": grads, "exp_avgs": exp_avgs, "exp_avg_sqs": exp_avg_sqs}
    if amsgrad:
        states["max_exp_avg_sqs"] = max_exp_avg_sqs
    _check(op, self, states, lr, grad_scale, found_inf)
    for arg, beta in (("beta1", beta1), ("beta2", beta2)):
        if not 0 <= beta < 1:
            raise errors.must(op, arg, "be in [0, 1)", beta)
    lr, counts = _number(lr), _steps(op, self, state_steps)

    def step(
        number: int, p: Tensor, grad: Tensor, average: Tensor, square: Tensor, *largest: Tensor
    ) -> None:
        grad = steps.decayed(p, grad, lr, weight_decay, is_decoupled)
        most = largest[0] if largest else None
        steps.adam(p, grad, average, square, most, lr, (beta1, beta2), eps, counts[number])

    written = [x for arg, x in states.items() if arg != "grads"]
    _each(self, grads, written, maximize, grad_scale, found_inf, step)


_fused_adam_: Kernel = given(_adam, op="_fused_adam_", is_decoupled=False)
_fused_adamw_: Kernel = given(_adam, op="_fused_adamw_", is_decoupled=True)


def _fused_sgd_(
    key_set: int, self: Tensors, grads: Tensors, momentum_buffer_list: Tensors,
    weight_decay: float, momentum: float, lr: Any, dampening: float, nesterov: bool, maximize: bool,
    is_first_step: bool, grad_scale: Tensor | None = None, found_inf: Tensor | None = None,
) -> None:  # fmt: skip
    op, states = "_fused_sgd_", {"grads": grads}
    if momentum:
        states["momentum_buffer_list"] = momentum_buffer_list
    _check(op, self, states, lr, grad_scale, found_inf)
    lr = _number(lr)

    def step(number: int, p: Tensor, grad: Tensor, *average: Tensor) -> None:
        grad = steps.decayed(p, grad, lr, weight_decay, False)
        if average and is_first_step:
            calls.copy_(average[0], grad)
        numbers = (lr, momentum, dampening, nesterov, is_first_step)
        steps.sgd(p, grad, average[0] if average else None, *numbers)

    written = [momentum_buffer_list] if momentum else []
    _each(self, grads, written, maximize, grad_scale, found_inf, step)


def _fused_adagrad_(
    key_set: int, self: Tensors, grads: Tensors, state_sums: Tensors, state_steps: Tensors,
    lr: Any, lr_decay: float, weight_decay: float, eps: float, maximize: bool,
    grad_scale: Tensor | None = None, found_inf: Tensor | None = None,
) -> None:  # fmt: skip
    op, states = "_fused_adagrad_", {"grads": grads, "state_sums": state_sums}
    _check(op, self, states, lr, grad_scale, found_inf)
    if not lr_decay >= 0:
        raise errors.must(op, "lr_decay", "be at least 0", lr_decay)
    lr, counts = _number(lr), _steps(op, self, state_steps)

    def step(number: int, p: Tensor, grad: Tensor, total: Tensor) -> None:
        grad = steps.decayed(p, grad, lr, weight_decay, False)
        steps.adagrad(p, grad, total, lr, lr_decay, eps, counts[number])

    _each(self, grads, [state_sums], maximize, grad_scale, found_inf, step)
