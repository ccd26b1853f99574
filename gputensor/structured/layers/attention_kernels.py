"""Operands and results of the CUDA kernels for attention (kernels/cuda/attention.cu).

Operands have four dimensions: samples, heads, rows and elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._generated import calls
from ...core.dtype import dtype, float32
from ...core.geometry import geometry
from ...dispatch.operator import Operator
from ...kernels import stub
from ...tensor.make import allocate
from ...tensor.tensor import Tensor
from ..shortcuts import cuda_calls
from ..shortcuts.computed import comes_again
from .attention_tiles import Dropout
from .precision import cast, wide


def empty_as(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return a new tensor of these sizes. Its dimensions have the same order in memory as x's
    dimensions."""
    return allocated(x, tuple(sizes), order_of(x)[0], x._geometry.dtype)


def allocated(
    x: Tensor, sizes: tuple[int, ...], order: tuple[int, ...], of: dtype
) -> Tensor:  # fmt: skip
    """Return a new tensor on x's device. order: its dimensions, the outermost first."""
    strides, step = [0] * len(sizes), 1
    for d in reversed(order):
        strides[d] = step
        step *= sizes[d]
    return allocate(geometry(sizes, tuple(strides), of), x._device)


def order_of(x: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    strides = x._geometry.strides
    order = tuple(sorted(range(4), key=lambda d: -strides[d]))
    return order, tuple(order.index(d) for d in range(4))


def launches(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, scale: float,
    dropout: Dropout | None = None,
) -> Any:  # fmt: skip
    """Return the launches of the CUDA kernels for these operands, or None if the kernels do not
    support them."""
    numel = query._geometry.numel * key._geometry.numel * value._geometry.numel
    if query._device.type != "cuda" or not numel:
        return None
    (samples, heads, queries, width), kept = query._geometry.sizes, key._geometry.sizes
    if kept[1] != value._geometry.sizes[1]:
        return None
    made = stub.cuda("attention").Attention(
        query._geometry.dtype, samples, heads, heads // kept[1], queries, kept[2], width,
        value._geometry.sizes[3], None if mask is None else mask._geometry.dtype, bool(is_causal),
        float(scale),
        dropout and (dropout.seed, dropout.block, dropout.limit, dropout.grown),
    )  # fmt: skip
    return made if made.is_taken() else None


def _operand(x: Tensor) -> tuple[int, tuple[int, ...]]:
    return x._address(), (*x._geometry.stride_bytes, 0)[:4]


def _operands(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **others: Tensor
) -> dict[str, Any]:
    tensors = {"query": query, "key": key, "value": value, **others}
    if mask is not None:
        sizes = (*query._geometry.sizes[:3], key._geometry.sizes[2])
        tensors["mask"] = calls.expand(mask, sizes, False)
    return {name: _operand(x) for name, x in tensors.items()}


def forward(
    kernels: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the result and, for each query, the logarithm of its sum of exponentials. kernels:
    from `launches`.
    """
    samples, heads, length, _ = query._geometry.sizes
    out = empty_as(query, (samples, heads, length, value._geometry.sizes[3]))
    sums = allocated(query, (samples, heads, length), (0, 2, 1), float32)
    operands = _operands(query, key, value, mask, out=out, sums=sums)
    kernels.forward(query._device.index, **operands)
    return out, sums


def learn(
    operator: Operator, kernel: Any, args: tuple[Any, ...], kernels: Any,
    made: tuple[Tensor, Tensor], mask: Tensor | None,
) -> None:  # fmt: skip
    """Store the short cut of a call on CUDA, once the call is repeated. args: all arguments; query,
    key and value first. made: the results."""
    table, (query, key, value) = operator.table, args[:3]
    if not comes_again(table, kernel, args, query._device):
        return
    given = _operands(query, key, value, mask, out=made[0], sums=made[1])
    names = ("out", "sums", "query", "key", "value", *(() if mask is None else ("mask",)))
    launch = kernels.fixed(*names, **{name: strides for name, (_, strides) in given.items()})
    shapes, inputs = (made[0]._geometry, made[1]._geometry), (None,) * (len(names) - 2)
    cuda_calls.learn(table, kernel, args, shapes, launch, inputs, low_bits=0)


def backward(
    kernels: Any, grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor,
    logsumexp: Tensor, mask: Tensor | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the gradients of query, key and value. kernels: from `launches`."""
    deltas = calls.sum_dim_IntList(calls.mul_Tensor(wide(grad_out), wide(out)), (3,), False)
    made = [empty_as(x, x._geometry.sizes) for x in (query, key, value)]
    sums = cast(logsumexp, float32)  # the variable keeps the tensor alive until the launch
    results = dict(zip(("of_query", "of_key", "of_value"), made))
    operands = _operands(
        query, key, value, mask, out=grad_out, sums=sums, deltas=deltas,
        **results,
    )  # fmt: skip
    kernels.backward(query._device.index, **operands)
    return tuple(made)
