"""Activations and their gradients: pointwise operators whose arguments after the tensors are
numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any


from .._generated import calls, functions, operators
from ..core import errors
from ..core.arguments import real
from ..core.device import CPU
from ..core.dtype import dtype
from ..core.geometry import Geometry
from ..dispatch.operator import Operator
from ..dispatch.shortcuts import CPU as CPU_CALL, jumps
from ..iterator.config import UNARY
from ..kernels import stub
from ..structured.pointwise import elementwise
from ..structured import arguments, pointwise
from ..structured.pointwise import Kernel, Rule
from ..structured.shortcuts.computed import learn_again, made_new, new_array
from ..tensor.tensor import Tensor


def rule(operator: Operator, loop: str) -> Rule:
    return elementwise.rule(operator, "activation", loop)


functional, inplace, out = elementwise.forms(rule)


# --- gelu: `approximate` selects the loop -------------------------------------------------------


def _by_approximation(make: Callable[..., Any]) -> Callable[[Operator, str], Kernel]:
    """Return a kernel factory. A kernel of the factory selects its loop by the argument
    `approximate`, which it does not pass to the loop. make(operator, rule) returns the function
    that runs the loop. The arguments of this function are (inputs, arguments after `approximate`,
    the kernel, all arguments)."""

    def of(operator: Operator, loop: str) -> Kernel:
        names = [argument.name for argument in operator.schema.arguments]
        at = names.index("approximate")
        config = UNARY.replace(arg_names=tuple(names[:at]))
        loops = {"none": loop, "tanh": loop.replace("gelu", "gelu_tanh")}
        made = {
            mode: make(operator, pointwise.rule("activation", name, config, config))
            for mode, name in loops.items()
        }

        def kernel(key_set: int, *args: Any) -> Tensor:
            if args[at] not in made:
                rule = "be 'none' or 'tanh'"
                raise errors.must(operator.short_name, "approximate", rule, args[at])
            found: Tensor = made[args[at]](args[:at], args[at + 1 :], kernel, args)
            return found

        return kernel

    return of


def _into(operator: Operator, said: Rule) -> Kernel:
    write = pointwise.write(operator, said)
    return lambda inputs, out, kernel, args: write(*(out or inputs), inputs)


mode_functional = _by_approximation(elementwise.compute)
mode_inplace = mode_out = _by_approximation(_into)


# --- softshrink ---------------------------------------------------------------------------------


def _shrinks(make: Callable[[Operator, Rule, Any], Kernel]) -> Callable[[Operator, str], Kernel]:
    def prepare(operator: Operator, common: Any, params: dict[str, Any]) -> tuple[Any, ...]:
        found = elementwise.checked(operator, common, params)
        if not found[0] >= 0:
            raise errors.must(operator.short_name, "lambd", "not be negative", params["lambd"])
        return found

    return lambda operator, loop: make(operator, rule(operator, loop), prepare)


shrink_functional, shrink_out = _shrinks(elementwise.functional), _shrinks(elementwise.out)


# --- composed -------------------------------------------------------------------------------------


def celu(key_set: int, self: Tensor, alpha: Any) -> Tensor:
    if not real("celu", "alpha", alpha):
        raise errors.must("celu", "alpha", "be a number other than 0", alpha)
    return calls.elu(self, alpha, 1.0, 1.0 / alpha)


def prelu(key_set: int, self: Tensor, weight: Tensor) -> Tensor:
    """Return the leaky ReLU with slope `weight` for each channel. Source:
    ATen/native/Activation.cpp, prelu."""
    shape, given = self._geometry, weight._geometry
    if given.ndim > 1:
        raise errors.must("prelu", "weight", "have at most one dimension", weight)
    if given.dtype is not shape.dtype:
        raise errors.wrong_dtype("prelu", "weight", f"be {shape.dtype.short}, as 'self' is", weight)
    if given.numel != 1:
        channels = shape.sizes[1] if shape.ndim > 1 else 1
        if shape.ndim == 0 or channels != given.numel:
            rule_ = f"have 1 element or one for each of {channels} channels"
            raise errors.must("prelu", "weight", rule_, weight)
    if shape.ndim != given.ndim or given.ndim:
        sizes = [1] * shape.ndim
        if shape.ndim:
            sizes[1 if shape.ndim > 1 else 0] = given.numel
        weight = calls.reshape(weight, tuple(sizes))
    return calls._prelu_kernel(self, weight)


def glu(key_set: int, self: Tensor, dim: int) -> Tensor:
    shape = self._geometry
    if not shape.dtype.is_floating_point:
        raise errors.wrong_dtype("glu", "self", "be floating", self)
    if not shape.ndim:
        raise errors.must("glu", "self", "have at least one dimension", self)
    size = shape.sizes[arguments.dim("glu", dim, shape.ndim)]
    if size % 2:
        raise errors.must("glu", "self", f"have an even size along dim {dim}", self)
    # Split self by one operator: its derivative is one concatenation, whereas the derivatives of
    # two calls of narrow would each fill a tensor with zeros.
    first, second = calls.split_with_sizes(self, (size // 2, size // 2), dim)
    made = calls._gated(first, second)
    allocate = new_array(made._geometry)
    if self._device is CPU and allocate is not None:
        compute = partial(_glu_of_array, made._geometry, allocate, dim % shape.ndim)
        learn_again(operators.glu.table, glu, (self, dim), made_new(compute, made._geometry))
    return made


@lru_cache
def _gated_loop(of: dtype) -> Callable[..., Any]:
    return stub.cpu_loop("activation", "_gated", (of, of), of, of)


def _glu_of_array(made: Geometry, allocate: Callable[[], Any], axis: int, x: Any) -> Any:
    half, out = made.sizes[axis], allocate()
    lead = (slice(None),) * axis
    _gated_loop(made.dtype)(x[(*lead, slice(half))], x[(*lead, slice(half, None))], out)
    return out


_GATED = "structured.pointwise.elementwise.functional.<locals>.kernel"
jumps(glu, lambda: (
    (operators.split_with_sizes, CPU_CALL, "slicing.split_with_sizes"),
    (operators._gated, CPU_CALL, _GATED),
))  # fmt: skip


def log_sigmoid_forward(key_set: int, self: Tensor) -> tuple[Tensor, Tensor]:
    """Return the result and a buffer for the derivative. Source: ATen/native/cpu/Activation.cpp,
    log_sigmoid_cpu_kernel."""
    if not self._geometry.dtype.is_floating_point:
        raise errors.wrong_dtype("log_sigmoid", "self", "be floating", self)
    self = calls.contiguous(self)  # Both results are contiguous.
    buffer = calls.exp(calls.neg(calls.abs(self)))
    least = calls.hardtanh(self, -math.inf, 0)
    return calls.sub_Tensor(least, calls.log1p(buffer), 1), buffer


# --- rrelu ----------------------------------------------------------------------------------------


def rrelu_with_noise(
    key_set: int, self: Tensor, noise: Tensor, lower: Any, upper: Any, training: bool,
    generator: Any,
) -> Tensor:  # fmt: skip
    if not training:
        return rrelu(key_set, self, lower, upper, training, generator)
    slope = _drawn(self, lower, upper, generator)
    calls.copy_(noise, slope, False)
    return calls.mul_Tensor(self, slope)


def _drawn(self: Tensor, lower: Any, upper: Any, generator: Any) -> Tensor:
    """Return random slopes between `lower` and `upper`; the slope of positive elements is 1."""
    lower, upper = _slopes(lower, upper)
    slope = calls.uniform_(calls.empty_like(self), lower, upper, generator)
    return functions.where(calls.le_Tensor(calls.detach(self), 0), slope, 1)


def _slopes(lower: Any, upper: Any) -> tuple[float, float]:
    lower, upper = real("rrelu", "lower", lower), real("rrelu", "upper", upper)
    if not lower <= upper:
        raise errors.must("rrelu_with_noise", "lower", f"be at most upper={upper}", lower)
    return lower, upper


def rrelu_with_noise_backward(
    key_set: int, grad_output: Tensor, self: Tensor, noise: Tensor, lower: Any, upper: Any,
    training: bool, self_is_result: bool,
) -> Tensor:  # fmt: skip
    lower, upper = real("rrelu", "lower", lower), real("rrelu", "upper", upper)
    if training and upper - lower > 1e-6:
        return calls.mul_Tensor(grad_output, noise)
    slope = (lower + upper) / 2
    return calls.leaky_relu_backward(grad_output, self, slope, self_is_result)


def rrelu(
    key_set: int, self: Tensor, lower: Any, upper: Any, training: bool, generator: Any
) -> Tensor:
    if training:
        return calls.mul_Tensor(self, _drawn(self, lower, upper, generator))
    return calls.leaky_relu(calls.contiguous(self), sum(_slopes(lower, upper)) / 2)
