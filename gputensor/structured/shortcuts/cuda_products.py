"""Short cuts of matrix products on CUDA: launches of our kernel or of cuBLAS for fixed layouts.

The operands of a launch are pointers to out, a, b and, if there is one, the summand.
"""

from __future__ import annotations

from typing import Any

from ... import runtime
from ...core.geometry import Geometry
from ...dispatch.operator import Table
from ...iterator.broadcast import strides_over
from ...kernels import cublas, stub
from ...runtime import capture
from ...tensor.tensor import Tensor
from . import cuda_calls
from .computed import comes_again

Operands = tuple[Any, ...]


def learn(
    table: Table, kernel: Any, op: str, args: tuple[Any, ...], made: Tensor,
    scales: tuple[Any, Any] = (0, 1), copy: Any = None,
) -> None:  # fmt: skip
    """Store the short cut of a product, once the call is repeated. args: the summand, if there is
    one, the two factors, and numbers. scales, copy: as in `launch_of`."""
    shape = made._geometry
    if (
        not shape.numel
        or shape.dtype.is_float8
        or not comes_again(table, kernel, args, made._device)
    ):
        return
    tensors = [x for x in args if isinstance(x, Tensor)]
    order = (0, 1) if len(tensors) == 2 else (1, 2, 0)
    a, b, *added = [args[n]._geometry for n in order]
    launch = launch_of(op, shape, a, b, added[0] if added else None, scales, copy)
    if launch is not None:
        inputs = (None,) * len(order)
        cuda_calls.learn(table, kernel, args, shape, launch, inputs, low_bits=0, order=order)


def launch_of(
    op: str, out: Geometry, a: Geometry, b: Geometry, added: Geometry | None = None,
    scales: tuple[Any, Any] = (0, 1), copy: Any = None,
) -> Any:  # fmt: skip
    """Return the launch of beta * added + alpha * a @ b, or None if it needs more than one launch.

    scales: (beta, alpha). copy: the launch that copies the summand to out, if cuBLAS needs it.
    """
    if not a.numel or not b.numel or stub.registered("matmul", "mm", "cuda") is not None:
        return None
    (*batch, m, n), k = out.sizes, a.sizes[-1]
    walks = [(*g.strides[-2:], *g.strides[:-2]) for g in (out, a, b)]
    if added is not None:
        over = strides_over(added.sizes, added.strides, out.sizes)
        walks.append((*over[-2:], *over[:-2]))
    kernels = stub.cuda("matmul")
    by = kernels.mm(out.dtype) if added is None else kernels.addmm(out.dtype)
    own = by.fixed((m, n, k), walks, scales, *batch)
    if not cublas.takes(out.dtype, out.sizes, k):
        return own
    if runtime.cuda().is_emulated or not (cublas.form(a) and cublas.form(b) and _is_rows(out)):
        return None
    if own is None or added is not None and scales[0] != 0 and copy is None:
        return None
    return _ByCublas(op, cublas.product(out, a, b), scales, copy, own)


def _is_rows(out: Geometry) -> bool:
    found = cublas.form(out)
    return found is not None and not found[0]


class _ByCublas:
    """A call of cuBLAS. own: the launch of our kernel, which is used in the capture of a graph."""

    __slots__ = ("op", "product", "beta", "alpha", "copy", "own")

    def __init__(self, op: str, product: Any, scales: tuple[Any, Any], copy: Any, own: Any) -> None:
        self.op, self.product, self.copy, self.own = op, product, copy, own
        self.beta, self.alpha = scales

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        if capture.capturing and capture.here() is not None:
            self.own(device_index, operands)
            return
        out, a, b, *added = operands
        if added and self.beta != 0:
            self.copy(device_index, (out, *added))
        with runtime.cuda().blas(self.op, device_index) as (routines, handle):
            self.product(routines, handle, out, a, b, self.alpha, self.beta)
