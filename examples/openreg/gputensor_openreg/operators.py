"""The operator `gt.ops.openreg.axpy`, which this package defines, with kernels for the CPU and the
device.

The operator is defined once, when the package is imported. Its kernel for the device is registered
by `bring_up` and removed with the device. `gt.library.opcheck` tests the operator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gputensor as gt
from gputensor import Tensor

from . import kernels, runtime


def _work(out: np.ndarray, x: np.ndarray, y: np.ndarray, a: float) -> None:
    np.multiply(x, a, out=out)
    np.add(out, y, out=out)


@gt.library.custom_op("openreg::axpy", mutates_args=(), device_types="cpu")
def axpy(x: Tensor, y: Tensor, a: float = 1.0) -> Tensor:
    """Return a · x + y for tensors of equal shape and dtype."""
    out = shape_of(x, y, a)
    _work(out.numpy(), x.numpy(), y.numpy(), a)
    return out


@axpy.register_fake
def shape_of(x: Tensor, y: Tensor, a: float) -> Tensor:
    if x.shape != y.shape or x.dtype != y.dtype:
        got = f"{tuple(y.shape)} beside {tuple(x.shape)}"
        raise ValueError(f"axpy: 'y' must be like 'x' (got {got})")
    return x.new_empty(x.shape)


def axpy_on_device(x: Tensor, y: Tensor, a: float) -> Tensor:
    out = shape_of(x, y, a)
    arrays = [kernels.elements(t, x.device.index) for t in (out, x, y)]
    runtime.current_stream(x.device.index).submit(lambda: _work(*arrays, a))
    return out


def _keep_a(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.a = inputs[2]


axpy.register_autograd(lambda ctx, grad: (grad * ctx.a, grad, None), setup_context=_keep_a)
