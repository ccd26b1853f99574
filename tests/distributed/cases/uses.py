"""Uses of collectives: operators, derivatives, mean gradients, redistributed arrays."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import gputensor as gt
import gputensor.distributed as dist

from ..reference import LAYOUTS, case, data, laid, reduced, same


@case
def functional_operators(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    ops, name = gt.ops._c10d_functional, dist.groups.GroupMember.WORLD.name
    given = [data((2 * n, 3), gt.float32, 7, r) for r in range(n)]
    x = laid(given[rank], device, "turned")

    def waited(y: Any) -> Any:
        return ops.wait_tensor(y)

    total = reduced(given, "sum")
    same(waited(ops.all_reduce(x, "sum", name)), total)
    same(x, given[rank])
    same(waited(ops.all_gather_into_tensor(x, n, name)), np.concatenate(given))
    same(waited(ops.reduce_scatter_tensor(x, "sum", n, name)), np.split(total, n)[rank])
    same(waited(ops.broadcast(x, n - 1, name)), given[n - 1])
    wanted = np.concatenate([np.split(a, n)[rank] for a in given])
    same(waited(ops.all_to_all_single(x, [], [], name)), wanted)
    for made, one in zip(
        (ops.all_reduce_coalesced([x, x + 1], "sum", name),
         ops.all_gather_into_tensor_coalesced([x, x], n, name),
         ops.reduce_scatter_tensor_coalesced([x, x], "sum", n, name)),
        (total, np.concatenate(given), np.split(total, n)[rank]),
    ):  # fmt: skip
        same(waited(made[0]), one)
        waited(made[1])
    both = [x.clone(), x.clone()]
    made = ops.all_reduce_coalesced_(both, "max", name)
    assert made[0] is both[0] and both[0]._version == 1
    for y in both:
        same(waited(y), reduced(given, "max"))


@case
def meta_says_what_comes(device: str) -> None:
    n, name = dist.get_world_size(), dist.groups.GroupMember.WORLD.name
    ops = gt.ops._c10d_functional
    x = gt.ones(2 * n, 3, device=device)
    calls = [
        (ops.all_reduce, ("sum", name)), (ops.all_gather_into_tensor, (n, name)),
        (ops.reduce_scatter_tensor, ("sum", n, name)), (ops.broadcast, (0, name)),
        (ops.all_to_all_single, ([], [], name)), (ops.all_reduce_, ("sum", name)),
    ]  # fmt: skip
    for op, rest in calls:
        told, made = op(x.to("meta"), *rest), ops.wait_tensor(op(x.clone(), *rest))
        assert (told.shape, told.stride(), told.dtype) == (made.shape, made.stride(), made.dtype)


@case
def derivatives(device: str) -> None:
    """Differentiate a weighted sum over ranks: a gradient contains the parts that all other ranks
    send back."""
    n, rank = dist.get_world_size(), dist.get_rank()
    ops, name = gt.ops._c10d_functional, dist.groups.GroupMember.WORLD.name

    def weights(shape: Any, r: int) -> np.ndarray:
        return data(tuple(shape), gt.float32, 11, r)

    def gradient(op: Any, *rest: Any) -> Any:
        x = gt.ones(2 * n, 3, device=device, requires_grad=True)
        y = ops.wait_tensor(op(x, *rest))
        (y * gt.from_numpy(weights(y.shape, rank)).to(device)).sum().backward()
        return x.grad

    of_all = [weights((2 * n, 3), r) for r in range(n)]
    same(gradient(ops.all_reduce, "sum", name), sum(of_all))
    same(gradient(ops.all_reduce, "avg", name), sum(of_all) / np.float32(n))
    wide = [weights((2 * n * n, 3), r) for r in range(n)]
    wanted = np.split(sum(wide), n)[rank]
    same(gradient(ops.all_gather_into_tensor, n, name), wanted)
    parts = [weights((2, 3), r) for r in range(n)]
    same(gradient(ops.reduce_scatter_tensor, "sum", n, name), np.concatenate(parts))
    back = np.concatenate([np.split(a, n)[rank] for a in of_all])
    same(gradient(ops.all_to_all_single, [], [], name), back)
    wanted = sum(of_all) if rank == 0 else 0 * of_all[0]
    same(gradient(ops.broadcast, 0, name), wanted)


@case
def leaves_may_be_written(device: str) -> None:
    x = gt.ones(3, device=device, requires_grad=True)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    assert x.is_leaf and x.requires_grad
    assert x.tolist() == [dist.get_world_size()] * 3


@case
def gradients_become_their_mean(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    shapes = [(3,), (4, 5), (), (7, 2), (2, 3), (6,)]
    for bucket_bytes in (1, 64, 1 << 20):
        for is_hooked in (False, True):
            xs = [gt.ones(s, device=device, requires_grad=True) for s in shapes]
            xs.append(gt.ones(3, dtype=gt.float64, device=device, requires_grad=True))
            unused = gt.ones(2, device=device, requires_grad=True)  # by nobody
            seldom = gt.ones(2, device=device, requires_grad=True)  # by the last rank only
            known = [*xs[:3], unused, seldom, *xs[3:], gt.ones(1, device=device)]
            averager = dist.GradientAverager(known, bucket_bytes) if is_hooked else None
            for step in range(2):
                for x in known:
                    x.grad = None
                loss = sum(
                    ((x * (k + rank + step)).sum() for k, x in enumerate(xs)),
                    gt.zeros(()).to(device),
                )
                if rank == n - 1:
                    loss = loss + (seldom * n).sum()
                loss.backward()
                if averager is None:
                    dist.average_gradients(known, bucket_bytes)
                else:
                    averager.wait()
                for k, x in enumerate(xs):
                    same(x.grad, np.full(x.shape, k + step + (n - 1) / 2, x.dtype.np))
                assert unused.grad is None
                same(seldom.grad, np.full(2, 1, np.float32))
            if averager is not None:
                averager.remove()
                xs[0].sum().backward()


@case
def backward_twice_is_refused(device: str) -> None:
    x = gt.ones(2, device=device, requires_grad=True)
    averager = dist.GradientAverager([x])
    x.sum().backward()
    try:
        x.sum().backward()
    except gt.GpuTensorError as error:
        assert "between two calls of backward" in str(error)
    else:
        raise AssertionError("nothing was raised")
    averager.remove()
    dist.barrier()


@case
def redistributed_arrays(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    arrays = [
        ((8, 12), gt.float32), ((5, 7), gt.float64), ((4, 3, 8), gt.bfloat16), ((1, 2), gt.int64),
        ((4, 0, 4), gt.float32), ((3, 9, 5), gt.bool),
    ]  # fmt: skip
    for shape, dtype in arrays:
        whole = data(shape, dtype, 3, 0)
        for source in range(len(shape)):
            for to in range(len(shape)):
                if source == to:
                    continue
                x = laid(np.array_split(whole, n, source)[rank], device, LAYOUTS[source])
                made = dist.redistribute(x, source, to - len(shape))
                same(made, np.array_split(whole, n, to)[rank])
                back = dist.redistribute(made, to, source)
                same(back, np.array_split(whole, n, source)[rank])
    a = data((5, 6), gt.float32, 4, 0)
    x = laid(np.array_split(a, n, 0)[rank], device, "dense").requires_grad_()
    weight = np.array_split(data((5, 6), gt.float32, 5, 0), n, 1)[rank]
    (dist.redistribute(x, 0, 1) * laid(weight, device, "dense")).sum().backward()
    same(x.grad, np.array_split(data((5, 6), gt.float32, 5, 0), n, 0)[rank])


@case
def short_cuts_tell_what_the_long_way_tells(device: str) -> None:
    """Ranks take different paths in one collective: some request a Work or pass strided memory."""
    n, rank = dist.get_world_size(), dist.get_rank()
    group = dist.new_group()
    for turn in range(6):
        for dtype, op in ((gt.float32, "sum"), (gt.bool, "max"), (gt.float64, "min")):
            given = [data((5,), dtype, turn, r) for r in range(n)]
            is_late = (turn + rank) % 3 == 0
            x = laid(given[rank], device, LAYOUTS[(turn + rank) % 3])
            before = x._version
            work = dist.all_reduce(x, op, group, is_late)
            assert (work is not None and work.wait()) is is_late and x._version == before + 1
            same(x, reduced(given, op))
            x = laid(given[rank], device, LAYOUTS[(turn + rank) % 3])
            work = dist.broadcast(x, turn % n, group, is_late)
            assert (work is not None and work.wait()) is is_late
            same(x, given[turn % n])
            out = gt.zeros(n * 5, dtype=dtype, device=device)
            dist.all_gather_into_tensor(out, laid(given[rank], device, "dense"), group)
            same(out, np.concatenate(given))
    table = gt.ops._c10d_functional.all_reduce_.default.table
    if device == "cpu" and gt.dispatch.shortcuts.is_on:
        assert any(key[2] is group for key in table.short)
    x = gt.ones(5, device=device)
    with gt.library.Library("_c10d_functional", "IMPL") as lib:
        seen = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lib.impl("all_reduce_", lambda x, *rest: seen.append(rest) or x, "CPU")
        if device == "cpu":
            gt.ops._c10d_functional.all_reduce_(x, "sum", group.name)
            assert len(seen) == 1 and x.tolist() == [1.0] * 5
    dist.all_reduce(x, group=group)
    same(x, np.full(5, n, np.float32))
    dist.barrier()
    dist.destroy_process_group(group)
    for call in (dist.all_reduce, lambda x, group: dist.broadcast(x, 0, group)):
        try:
            call(x, group=group)
        except dist.DistributedError as error:
            assert "must be one of" in str(error)
        else:
            raise AssertionError("the group was destroyed")
    same(x, np.full(5, n, np.float32))
