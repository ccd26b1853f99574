"""Kernels of the operators `_c10d_functional::…`, which have the schemas of PyTorch's functional
collectives.

The operators return at once; `wait_tensor` waits for a result. The CPU kernels use MPI on the
tensor's memory. The CUDA kernels use NCCL; on emulated devices they wait for the stream and use
MPI. The Meta kernels compute shapes. Operators that return new tensors have derivatives, which are
also collectives, so all ranks of a group must call backward.

The operators are rows of native_functions.yaml, in the family `collective`. The first use of one of
their names loads this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import numpy as np

from . import nccl, records, shapes, straight, transport
from .groups import ProcessGroup, group_named, world
from .shapes import check_size, empty, gathered_sizes, operator, scattered_sizes
from .work import Work, _broken, check_usable, started, wait_for
from .. import runtime
from .._generated import calls
from ..autograd.modes import is_grad_enabled
from ..core import errors
from ..core.device import CPU
from ..runtime.libraries import Array
from ..tensor.tensor import Tensor

# Other devices have no kernels for collectives, because neither NCCL nor MPI can access their
# memory.
BY_LIBRARY = True

# --- shared by all kernels ------------------------------------------------------------------------


def carried(op: str, *tensors: Tensor) -> tuple[Any, list[Any]]:
    """Return the module that transfers these tensors, and the operands for its functions: nccl and
    tensors, or transport and arrays.

    On an emulated device, first wait for its work.
    """
    place = tensors[0]._device
    for x in tensors[1:]:
        if x._device is not place:
            raise errors.mixed_devices(op, tensors[0], "input", x, "out")
    if place is CPU:
        return transport, [x._get_array() for x in tensors]
    if place.type != "cuda":
        raise errors.must(op, "tensor", "be on the CPU or a CUDA device", tensors[0])
    if nccl.library(op) is not None:
        return nccl, [*tensors]
    operands = []
    for x in tensors:
        g = x._geometry
        extent = g.extent * g.dtype.itemsize if g.numel else 0
        operands.append(Array(x._address(), g.sizes, g.stride_bytes, g.dtype.np, extent, True))
    found: list[Any] = runtime.cuda().call_library(
        op, lambda host, *given: given, operands, None, place.index
    )
    return transport, found


def together(op: str, inputs: Sequence[Tensor], group_name: str) -> Any:
    """Return a context manager in which several NCCL collectives become one launch."""
    if any(x._device.type == "cuda" for x in inputs) and nccl.library(op) is not None:
        return nccl.coalesced(op, group_named(op, group_name))
    return nullcontext()


def start(op: str, group: ProcessGroup, kept: Any, make: Callable[..., Work], *args: Any) -> Work:
    """Call `make(op, group, *args)` and return its Work. The Work keeps `kept` alive until it has
    finished."""
    if world.broken:
        check_usable(op)
    try:
        work = make(op, group, *args)
    except world.mpi.Exception as reason:
        raise _broken(op, errors.mpi_failed(op, reason)) from None
    work._held = (work._held, kept)
    return work


def start_agreed(
    op: str, group: ProcessGroup, what: str, kept: Any, via: Any, name: str, *args: Any
) -> Work:
    """Start the collective `name` of distributed/nccl or transport.py with these arguments.

    what: the call's description, equal on all ranks. Between GPUs, the hosts agree before the
    launch.
    """
    if world.broken:
        check_usable(op)
    if via is nccl:
        records.agree(op, group, what, (args[2], args[3]) if name == "all_to_all" else None)
        return start(op, group, kept, getattr(nccl, name), *args)
    work = records.start(op, group, what, getattr(transport, name)(op, group, *args))
    work._held = (work._held, kept)
    return work


def agree(op: str, group: ProcessGroup, x: Tensor, more: str = "", shape: Any = None) -> str:
    """Return a description of the call that is equal on all ranks. In debug mode, first compare it
    with the other ranks' descriptions."""
    g = x._geometry
    what = _said(op, g.dtype.short, g.sizes if shape is None else shape, x._device.type, more)
    if records.is_detailed():
        records.check_detailed(op, group, what)
    return what.partition(" |")[0]


@lru_cache(1024)
def _said(op: str, dtype: str, sizes: tuple[Any, ...], device: str, more: str) -> str:
    return f"{op} {dtype}[{','.join(map(str, sizes))}] {device} {more}".rstrip(" ")


def in_place(op: str, x: Tensor, arg: str = "input") -> None:
    """Raise an error if the tensor cannot be written to because several elements share memory."""
    g = x._geometry
    if g.numel and not g.is_contiguous:
        if any(s == 0 and n > 1 for s, n in zip(g.strides, g.sizes)):
            raise errors.internal_overlap(op, arg, (g, x._device))


def _check_out(op: str, out: Tensor, x: Tensor, sizes: tuple[int, ...]) -> None:
    """Check the dtype and the number of elements of `out`, which concatenates or stacks the
    parts."""
    numel = int(np.prod(sizes, dtype=np.int64))
    if out._geometry.dtype is not x._geometry.dtype:
        raise errors.wrong_dtype(op, "out", f"be {x._geometry.dtype.name}", out)
    if out._geometry.numel != numel:
        raise errors.wrong_shape(op, "out", f"have {numel} elements", out)
    in_place(op, out)


# --- kernels --------------------------------------------------------------------------------------


def all_reduce_(key_set: int, input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    table = operator("all_reduce_").table
    group = group_named("all_reduce", group_name)
    in_place("all_reduce", input)
    via, (x,) = carried("all_reduce", input)
    via.reduction("all_reduce", reduce_op, input._geometry.dtype.np)
    what = agree("all_reduce", group, input, reduce_op)
    work = start_agreed("all_reduce", group, what, input, via, "all_reduce", x, x, reduce_op)
    started(work, input)
    straight.all_reduce(table, all_reduce_, input, group, reduce_op, what)
    return input


def all_reduce(key_set: int, input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    group = group_named("all_reduce", group_name)
    out = empty(input, input._geometry.sizes)
    via, (x, made) = carried("all_reduce", input, out)
    via.reduction("all_reduce", reduce_op, input._geometry.dtype.np)
    what = agree("all_reduce", group, input, reduce_op)
    work = start_agreed("all_reduce", group, what, out, via, "all_reduce", x, made, reduce_op)
    started(work, out)
    return out


def all_reduce_coalesced(
    key_set: int, inputs: Sequence[Tensor], reduce_op: str, group_name: str
) -> list[Tensor]:
    with together("all_reduce", inputs, group_name):
        return [all_reduce(key_set, x, reduce_op, group_name) for x in inputs]


def all_reduce_coalesced_(
    key_set: int, inputs: Sequence[Tensor], reduce_op: str, group_name: str
) -> Sequence[Tensor]:
    for x in inputs:
        if x.requires_grad and is_grad_enabled():
            rule = "not require a gradient: what writes lists has no derivative"
            raise errors.must("all_reduce_coalesced_", "inputs", rule, x, kind=errors.AutogradError)
    with together("all_reduce", inputs, group_name):
        for x in inputs:
            all_reduce_(key_set, x, reduce_op, group_name)
    return inputs


def all_gather_into_tensor_out(
    key_set: int, input: Tensor, group_size: int, group_name: str, out: Tensor
) -> Tensor:
    op, table = "all_gather_into_tensor", operator("all_gather_into_tensor_out").table
    group = group_named(op, group_name)
    check_size(op, group_size, group.size())
    _check_out(op, out, input, gathered_sizes(input, group_size))
    via, (x, made) = carried(op, input, out)
    what = agree(op, group, input)
    kept = input, out
    started(start_agreed(op, group, what, kept, via, "all_gather", x, made), out)
    straight.all_gather(table, all_gather_into_tensor_out, input, out, group, what)
    return out


def all_gather_into_tensor(key_set: int, input: Tensor, group_size: int, group_name: str) -> Tensor:
    op = "all_gather_into_tensor"
    check_size(op, group_size, group_named(op, group_name).size())
    out = empty(input, gathered_sizes(input, group_size))
    return all_gather_into_tensor_out(key_set, input, group_size, group_name, out)


def all_gather_into_tensor_coalesced(
    key_set: int, inputs: Sequence[Tensor], group_size: int, group_name: str
) -> list[Tensor]:
    with together("all_gather_into_tensor", inputs, group_name):
        return [all_gather_into_tensor(key_set, x, group_size, group_name) for x in inputs]


def reduce_scatter_tensor_out(
    key_set: int, input: Tensor, reduce_op: str, group_size: int, group_name: str, out: Tensor
) -> Tensor:
    op = "reduce_scatter_tensor"
    group = group_named(op, group_name)
    check_size(op, group_size, group.size())
    numel = out._geometry.numel * group_size
    if input._geometry.numel != numel:
        raise errors.wrong_shape(op, "input", f"have {numel} elements", input)
    _check_out(op, out, input, out._geometry.sizes)
    via, (x, made) = carried(op, input, out)
    via.reduction(op, reduce_op, input._geometry.dtype.np)
    what = agree(op, group, input, reduce_op)
    kept = input, out
    work = start_agreed(op, group, what, kept, via, "reduce_scatter", x, made, reduce_op)
    started(work, out)
    return out


def reduce_scatter_tensor(
    key_set: int, input: Tensor, reduce_op: str, group_size: int, group_name: str
) -> Tensor:
    op = "reduce_scatter_tensor"
    check_size(op, group_size, group_named(op, group_name).size())
    out = empty(input, scattered_sizes(op, input, group_size))
    return reduce_scatter_tensor_out(key_set, input, reduce_op, group_size, group_name, out)


def reduce_scatter_tensor_coalesced(
    key_set: int, inputs: Sequence[Tensor], reduce_op: str, group_size: int, group_name: str
) -> list[Tensor]:
    with together("reduce_scatter_tensor", inputs, group_name):
        return [
            reduce_scatter_tensor(key_set, x, reduce_op, group_size, group_name) for x in inputs
        ]


def split_sizes(
    arg: str, given: Sequence[int], rows: int | None, group: ProcessGroup
) -> Sequence[int]:
    """Return the number of rows sent to, or received from, each rank. By default the number is
    equal for all ranks.

    rows: the sum of the result, or None if it is not known.
    """
    op, size = "all_to_all_single", group.size()
    if not given and rows is not None:
        if rows % size:
            rule = f"be given where {size} does not divide the first dimension"
            raise errors.wrong_value(op, arg, rule, errors.Got(f"{rows} rows"))
        return [rows // size] * size
    if len(given) != size or any(n < 0 for n in given):
        raise errors.wrong_value(op, arg, f"have a size for each of {size} ranks", [*given])
    if rows is not None and sum(given) != rows:
        raise errors.wrong_value(op, arg, f"add up to {rows}", [*given])
    return given


def all_to_all_single(
    key_set: int, input: Tensor, output_split_sizes: Sequence[int],
    input_split_sizes: Sequence[int], group_name: str,
) -> Tensor:  # fmt: skip
    op = "all_to_all_single"
    group = group_named(op, group_name)
    if not input._geometry.ndim:
        raise errors.wrong_shape(op, "input", "have a first dimension", input)
    rows, *rest = input._geometry.sizes
    given = split_sizes("input_split_sizes", input_split_sizes, rows, group)
    known = None if output_split_sizes else rows
    wanted = split_sizes("output_split_sizes", output_split_sizes, known, group)
    out = empty(input, (sum(wanted), *rest))
    via, (x, made) = carried(op, input, out)
    splits = ""
    if records.is_detailed():
        splits = "|" + ">".join(",".join(map(str, part)) for part in (given, wanted))
    what = agree(op, group, input, splits, ("*", *rest))
    n = int(np.prod(rest, dtype=np.int64))
    counts = [k * n for k in given], [k * n for k in wanted]
    kept = input, out
    started(start_agreed(op, group, what, kept, via, "all_to_all", x, made, *counts), out)
    return out


def broadcast_(key_set: int, input: Tensor, src: int, group_name: str) -> Tensor:
    table = operator("broadcast_").table
    group = group_named("broadcast", group_name)
    if not 0 <= src < group.size():
        raise errors.wrong_value("broadcast", "src", f"be in [0, {group.size() - 1}]", src)
    in_place("broadcast", input)
    via, (x,) = carried("broadcast", input)
    what = agree("broadcast", group, input, f"src={src}")
    started(start_agreed("broadcast", group, what, input, via, "broadcast", x, src), input)
    straight.broadcast(table, broadcast_, input, group, src, what)
    return input


def broadcast(key_set: int, input: Tensor, src: int, group_name: str) -> Tensor:
    return broadcast_(key_set, calls.clone(input), src, group_name)


def wait_tensor(key_set: int, tensor: Tensor) -> Tensor:
    wait_for(tensor)
    return tensor


# --- Meta, and lazy views -------------------------------------------------------------------------

meta_all_reduce = meta_broadcast = shapes.like
meta_all_reduce_ = meta_broadcast_ = meta_all_reduce_coalesced_ = shapes.given
meta_all_reduce_coalesced = shapes.of_each(shapes.like)
meta_all_gather_into_tensor = shapes.gathered
meta_all_gather_into_tensor_coalesced = shapes.of_each(shapes.gathered)
meta_reduce_scatter_tensor = shapes.scattered
meta_reduce_scatter_tensor_coalesced = shapes.of_each(shapes.scattered)
meta_all_to_all_single = shapes.exchanged
meta_out = shapes.last


def _refuse_lazy(op: str, place: int = 0) -> Callable[..., Any]:
    """Make a kernel that rejects lazy views. Materialising a lazy view would run another kernel
    before the collective has finished."""

    def refuse(key_set: int, *args: Any) -> Any:
        remedy = "use .resolve_conj() or .resolve_neg(), which copy"
        raise errors.must(op, "input", "not be a lazy view", args[place], remedy=remedy)

    return refuse


lazy_all_reduce_ = _refuse_lazy("all_reduce_")
lazy_all_reduce_coalesced_ = _refuse_lazy("all_reduce_coalesced_")
lazy_broadcast_ = _refuse_lazy("broadcast_")
lazy_all_gather_into_tensor_out = _refuse_lazy("all_gather_into_tensor_out")
lazy_reduce_scatter_tensor_out = _refuse_lazy("reduce_scatter_tensor_out")
