"""Public collectives with PyTorch's names, which write into the caller's tensors.

With `async_op=True` a collective returns a Work, and the caller must not use the tensors before the
Work has finished. Otherwise the collective has finished when the call returns. `src` and `dst` are
ranks in the world; `group_src` and `group_dst` are ranks in the group. This module records no
gradients; the operators of distributed/operators.py are differentiable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import operators, records, transport
from .groups import GroupMember, ProcessGroup, chosen_rank, group_of
from .operators import agree, carried, in_place, start_agreed
from .shapes import operator
from .work import Work, taken
from .._generated import calls
from ..autograd.modes import no_grad
from ..core import errors
from ..core.arguments import flag
from ..tensor.base import materialised
from ..tensor.tensor import Tensor

_all_reduce_ = operator("all_reduce_")


class ReduceOp:
    """Values of the argument `op` of reductions. AVG accepts only floats, the bitwise operators
    only integers. For bool, SUM and MAX mean any, and PRODUCT and MIN mean all."""

    SUM: str = "sum"
    AVG: str = "avg"
    PRODUCT: str = "product"
    MIN: str = "min"
    MAX: str = "max"
    BAND: str = "band"
    BOR: str = "bor"
    BXOR: str = "bxor"


def _reduction(op: str, reduce_op: Any) -> str:
    if not isinstance(reduce_op, str) or reduce_op not in transport.REDUCTIONS:
        raise errors.wrong_value(op, "op", "be one of ReduceOp's", reduce_op)
    return reduce_op


def _tensor(op: str, arg: str, x: Any) -> Tensor:
    if not isinstance(x, Tensor):
        raise errors.not_a_tensor(op, arg, "a Tensor", x)
    return x


def _group(op: str, group: Any, x: Tensor) -> ProcessGroup:
    """Return the group. Raise an error if its backend cannot transfer tensors on x's device."""
    found = group_of(op, group)
    if found.backend == "nccl" and x.is_cpu:
        raise errors.must(op, "tensor", "be on a CUDA device with backend nccl", x)
    return found


def _list(op: str, arg: str, xs: Any, like: Tensor, group: ProcessGroup) -> list[Tensor]:
    """Check that a list holds one tensor for each rank, with the shape, dtype and device of
    `like`."""
    if not isinstance(xs, (list, tuple)):
        raise errors.wrong_type(op, arg, "be a list of tensors", xs)
    if len(xs) != group.size():
        rule = f"have a tensor for each of {group.size()} ranks"
        raise errors.wrong_value(op, arg, rule, errors.Got(f"{len(xs)}"))
    for x in xs:
        _tensor(op, arg, x)
        if x._geometry.sizes != like._geometry.sizes or x.dtype is not like.dtype:
            got = errors.Got(f"{errors.describe(x)} beside {errors.describe(like)}")
            raise errors.wrong_shape(op, arg, "be tensors of one shape and dtype", got)
        if x._device is not like._device:
            raise errors.mixed_devices(op, like, "tensor", x, arg)
    return list(xs)


def _check_flag(op: str, async_op: Any) -> None:
    """Raise an error for a wrong `async_op`, before any tensor is written."""
    if async_op is not False:
        flag(op, "async_op", async_op)


def _begun(op: str, arg: str, x: Any, group: Any, async_op: Any) -> tuple[Tensor, ProcessGroup]:
    """Check the arguments that are common to all collectives on one tensor. Return the tensor and
    the group."""
    _check_flag(op, async_op)
    found = _tensor(op, arg, x)
    return found, _group(op, group, found)


def _end(work: Work, async_op: bool, results: list[Tensor]) -> Work | None:
    """Return the Work of an asynchronous call. For a synchronous call, wait for the Work and return
    None. results: the value of the Work's future."""
    if async_op:
        work._results = results
        return work
    work.wait()
    return None


def copying(to: Sequence[Tensor], source: Sequence[Tensor] | Tensor) -> Any:
    """Return a function that copies source[n] to to[n]."""

    def copy() -> None:
        with no_grad():
            for x, made in zip(to, source):
                x.copy_(made)

    return copy


def all_reduce(
    tensor: Tensor, op: str = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce a tensor over all ranks, in place. All ranks get bitwise equal results.

    Args:
        tensor: (*), any strides. f16 and bf16 are reduced in f32 and rounded once.
    """
    if async_op is False and type(tensor) is Tensor and type(op) is str:
        place = GroupMember.WORLD if group is None else group
        if type(place) is ProcessGroup:
            short = _all_reduce_.table.short.get((tensor._geometry, op, place))
            if short is not None and short(tensor) is not None:
                return None
    x, where = _begun("all_reduce", "tensor", tensor, group, async_op)
    with no_grad():
        operator("all_reduce_")(x, _reduction("all_reduce", op), where.name)
    return _end(taken(x), async_op, [x])


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Copy the tensor of rank `src` to the tensors of all ranks."""
    x, where = _begun("broadcast", "tensor", tensor, group, async_op)
    root = _root("broadcast", "src", where, src, group_src)
    if async_op is False:
        short = operator("broadcast_").table.short.get((x._geometry, root, where))
        if short is not None and short(x) is not None:
            return None
    with no_grad():
        operator("broadcast_")(x, root, where.name)
    return _end(taken(x), async_op, [x])


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Concatenate or stack the tensors of all ranks in one tensor, on all ranks.

    Args:
        output_tensor: (n * s, *) or (n, s, *) for n ranks. input_tensor: (s, *).
    """
    op = "all_gather_into_tensor"
    _check_flag(op, async_op)
    out, x = _tensor(op, "output_tensor", output_tensor), _tensor(op, "input_tensor", input_tensor)
    where = _group(op, group, x)
    if async_op is False:
        given = x._geometry, out._geometry, where
        short = operator("all_gather_into_tensor_out").table.short.get(given)
        if short is not None and short(x, out) is not None:
            return None
    with no_grad():
        operator("all_gather_into_tensor_out")(
            materialised(x.detach()), where.size(), where.name, out=out
        )
    return _end(taken(out), async_op, [out])


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copy the tensors of all ranks, which have the same shape, to the tensors of a list on each
    rank."""
    x, where = _begun("all_gather", "tensor", tensor, group, async_op)
    outs = _list("all_gather", "tensor_list", tensor_list, x, where)
    for one in outs:
        in_place("all_gather", one, "tensor_list")
    with no_grad():
        made = operator("all_gather_into_tensor")(x.detach(), where.size(), where.name)
    work = taken(made)
    stacked = made.view(where.size(), *x.shape)
    return _end(work._then(copying(outs, stacked)), async_op, outs)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: str = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce over all ranks. Each rank gets its part of the result.

    Args:
        output: (s, *). input: (n * s, *) or (n, s, *) for n ranks.
    """
    name = "reduce_scatter_tensor"
    _check_flag(name, async_op)
    out, x = _tensor(name, "output", output), _tensor(name, "input", input)
    where = _group(name, group, x)
    given = materialised(x.detach()), _reduction(name, op), where.size(), where.name
    with no_grad():
        operator("reduce_scatter_tensor_out")(*given, out=out)
    return _end(taken(out), async_op, [out])


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: str = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Reduce lists of tensors over all ranks; rank n gets the n-th result."""
    out, where = _begun("reduce_scatter", "output", output, group, async_op)
    with no_grad():
        stacked = calls.stack(_list("reduce_scatter", "input_list", input_list, out, where))
    return reduce_scatter_tensor(out, stacked, op, where, async_op)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None, group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Send the n-th part of the input, split along dimension 0, to rank n. All ranks must call it.

    Args:
        output_split_sizes, input_split_sizes: rows from and to each rank; by default equal.
    """
    op = "all_to_all_single"
    _check_flag(op, async_op)
    out, x = _tensor(op, "output", output), _tensor(op, "input", input)
    where = _group(op, group, x)
    if out._geometry.dtype is not x._geometry.dtype:
        raise errors.wrong_dtype(op, "output", f"be {x._geometry.dtype.name}", out)
    if out._geometry.sizes[1:] != x._geometry.sizes[1:]:
        raise errors.wrong_shape(op, "output", "have input's sizes but for the first", out)
    rows = out._geometry.sizes[0] if out._geometry.ndim else 0
    in_place(op, out, "output")
    wanted = _splits("output_split_sizes", output_split_sizes, rows, where)
    given = _splits("input_split_sizes", input_split_sizes, x.shape[0] if x.ndim else 0, where)
    with no_grad():
        made = operator(op)(x.detach(), [*wanted], [*given], where.name)
    return _end(taken(made)._then(copying([out], [made])), async_op, [out])


def _splits(arg: str, given: Any, rows: int, group: ProcessGroup) -> Sequence[int]:
    is_list = isinstance(given, (list, tuple)) and all(type(n) is int for n in given)
    if given is not None and not is_list:
        raise errors.wrong_type("all_to_all_single", arg, "be a list of ints, or None", given)
    return operators.split_sizes(arg, given or (), rows, group)


def reduce(
    tensor: Tensor, dst: int | None = None, op: str = ReduceOp.SUM, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Reduce a tensor over all ranks, in place on rank `dst`; other ranks keep their tensors."""
    x, where = _begun("reduce", "tensor", tensor, group, async_op)
    root = _root("reduce", "dst", where, dst, group_dst)
    how, is_root = _reduction("reduce", op), where.rank() == root
    if is_root:
        in_place("reduce", x, "tensor")
    made = calls.empty_like(x.detach())
    kept = materialised(x.detach()), made
    via, (given, into) = carried("reduce", *kept)
    via.reduction("reduce", how, x._geometry.dtype.np)
    what = agree("reduce", where, x, f"{how} dst={root}")
    args = given, into if is_root else None, how, root
    work = start_agreed("reduce", where, what, kept, via, "reduce", *args)
    return _end(work._then(copying([x], [made])) if is_root else work, async_op, [x])


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None,
    group: Any = None, async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Copy the tensors of all ranks to a list of tensors on rank `dst`. Other ranks pass None as
    the list."""
    x, where = _begun("gather", "tensor", tensor, group, async_op)
    root = _root("gather", "dst", where, dst, group_dst)
    is_root = where.rank() == root
    outs = _list_of_root("gather", "gather_list", gather_list, x, where, is_root)
    for one in outs:
        in_place("gather", one, "gather_list")
    shape = (where.size() if is_root else 0, *x.shape)
    made = calls.empty_memory_format(shape, dtype=x.dtype, device=x.device)
    kept = materialised(x.detach()), made
    via, (given, into) = carried("gather", *kept)
    args = given, into if is_root else None, root
    what = agree("gather", where, x, f"dst={root}")
    work = start_agreed("gather", where, what, kept, via, "gather", *args)
    return _end(work._then(copying(outs, made)), async_op, outs)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None,
    group: Any = None, async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Copy the n-th tensor of rank `src`'s list to the tensor of rank n. Other ranks pass None as
    the list."""
    x, where = _begun("scatter", "tensor", tensor, group, async_op)
    root = _root("scatter", "src", where, src, group_src)
    is_root = where.rank() == root
    in_place("scatter", x, "tensor")
    parts = _list_of_root("scatter", "scatter_list", scatter_list, x, where, is_root)
    made = calls.empty_like(x.detach())
    with no_grad():
        kept = made, calls.stack(parts) if is_root else made
    via, (into, given) = carried("scatter", *kept)
    args = given if is_root else None, into, root
    what = agree("scatter", where, x, f"src={root}")
    work = start_agreed("scatter", where, what, kept, via, "scatter", *args)
    return _end(work._then(copying([x], [made])), async_op, [x])


def _list_of_root(
    op: str, arg: str, xs: Any, like: Tensor, group: ProcessGroup, is_root: bool
) -> list[Tensor]:
    if is_root:
        return _list(op, arg, xs, like, group)
    if xs:
        rank = group.ranks[group.rank()]
        raise errors.must(op, arg, "be given on one rank alone", errors.Got(f"one on rank {rank}"))
    return []


def _root(op: str, arg: str, group: ProcessGroup, of_world: Any, of_group: Any) -> int:
    """Return the given rank as a rank in the group. The default is rank 0 of the world."""
    of_world = 0 if of_world is None and of_group is None else of_world
    return chosen_rank(op, arg, group, of_world, of_group)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all ranks have called this function. device_ids: has no effect, because the
    barrier uses no device."""
    _check_flag("barrier", async_op)
    where = group_of("barrier", group)
    if records.is_detailed():
        records.check_detailed("barrier", where, "barrier")
    work = start_agreed("barrier", where, "barrier", None, transport, "barrier")
    return _end(work, async_op, [])


def wait_tensor(tensor: Tensor) -> Tensor:
    """Wait for all collectives that operators started on a tensor's storage; return the tensor."""
    found: Tensor = operator("wait_tensor")(_tensor("wait_tensor", "tensor", tensor))
    return found
