"""Operators for tests: NumPy's functions on any device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gputensor as gt
from gputensor import Tensor
from gputensor.library import custom_op


def through_numpy(function: Callable[..., Any], *tensors: Tensor) -> Tensor:
    """Return NumPy's result for tensors, on the first tensor's device."""
    made = function(*[x.cpu().numpy() for x in tensors])
    return gt.from_numpy(np.asarray(made, order="C")).to(tensors[0].device)


def write(x: Tensor, values: Any) -> None:
    """Write values to a tensor's memory without incrementing the version, as a kernel does."""
    with gt.dispatch.AutoDispatchBelowADInplaceOrView():
        x.copy_(gt.from_numpy(np.asarray(values, order="C")))


def cube(name: str = "t::cube", **kwargs: Any) -> Any:
    """x³ · by, with shapes and a derivative."""

    @custom_op(name, mutates_args=(), **kwargs)
    def cube(x: Tensor, by: float = 2.0) -> Tensor:
        return through_numpy(lambda a: a**3 * a.dtype.type(by), x)

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.by = inputs
        ctx.save_for_backward(x)

    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x * x * (3 * ctx.by), None

    cube.register_fake(lambda x, by: x.new_empty(x.shape))
    cube.register_autograd(backward, setup_context=setup)
    return cube
