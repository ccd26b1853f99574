"""Collectives and messages: calls of every rank, with NumPy's results on all ranks' data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
import gputensor.distributed as dist
from gputensor.distributed import ReduceOp

from .. import reference
from ..reference import LAYOUTS, DTYPES, case, data, everything, laid, ops_of, reduced, same


@case
def all_reduce_of_everything(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    for seed, dtype, shape, layout in everything():
        for op in ops_of(dtype):
            given = [data(shape, dtype, seed, r) for r in range(n)]
            x = laid(given[rank], device, layout)
            before = x._version
            assert dist.all_reduce(x, op) is None
            same(x, reduced(given, op))
            assert x._version > before


@case
def f16_is_rounded_once(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    for dtype in (gt.float16, gt.bfloat16):
        x = gt.full((3,), 1.0 if rank == 0 else 1e-3, dtype=dtype, device=device)
        parts = [gt.full((3,), 1.0 if r == 0 else 1e-3, dtype=dtype) for r in range(n)]
        wanted = sum(p.to(gt.float32).numpy() for p in parts).astype(dtype.np)
        dist.all_reduce(x)
        same(x, wanted)


@case
def nan_wins_on_all_ranks(device: str) -> None:
    for op in (ReduceOp.MAX, ReduceOp.MIN):
        for of in range(dist.get_world_size()):
            x = gt.full((2,), float("nan") if dist.get_rank() == of else 1.0, device=device)
            dist.all_reduce(x, op)
            assert x.isnan().all().item()


@case
def moves_of_everything(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    for seed, dtype, shape, layout in everything():
        given = [data(shape, dtype, seed, r) for r in range(n)]
        root = seed % n
        x = laid(given[rank], device, layout)
        dist.broadcast(x, root)
        same(x, given[root])

        x = laid(given[rank], device, layout)
        outs = [laid(np.zeros_like(given[0]), device, layout) for _ in range(n)]
        dist.all_gather(outs, x)
        for out, wanted in zip(outs, given):
            same(out, wanted)
        for sizes in ((n * (shape or (1,))[0], *shape[1:]), (n, *shape)):
            out = gt.zeros(sizes, dtype=dtype, device=device)
            dist.all_gather_into_tensor(out, x)
            same(out, np.stack(given).reshape(sizes))

        outs = [laid(np.zeros_like(given[0]), device, layout) for _ in range(n)]
        dist.gather(x, outs if rank == root else None, root)
        for out, wanted in zip(outs, given):
            same(out, wanted if rank == root else np.zeros_like(wanted))

        out = laid(np.zeros_like(given[0]), device, layout)
        parts = [data(shape, dtype, seed + 1000, r) for r in range(n)]
        listed = [laid(p, device, layout) for p in parts] if rank == root else None
        dist.scatter(out, listed, root)
        same(out, parts[rank])


@case
def reductions_to_one_and_in_parts(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    for seed, dtype, shape, layout in everything():
        for op in ops_of(dtype):
            root = seed % n
            given = [data(shape, dtype, seed, r) for r in range(n)]
            x = laid(given[rank], device, layout)
            dist.reduce(x, root, op)
            same(x, reduced(given, op) if rank == root else given[rank])
            lists = [[data(shape, dtype, seed + 50 * k, r) for k in range(n)] for r in range(n)]
            out = laid(np.zeros_like(given[0]), device, layout)
            dist.reduce_scatter(out, [laid(a, device, layout) for a in lists[rank]], op)
            same(out, reduced([lists[r][rank] for r in range(n)], op))
            if shape and shape[0]:
                whole = [np.concatenate(arrays) for arrays in lists]
                out = laid(np.zeros_like(given[0]), device, layout)
                dist.reduce_scatter_tensor(out, laid(whole[rank], device, layout), op)
                same(out, reduced([lists[r][rank] for r in range(n)], op))


@case
def all_to_all_with_even_and_uneven_parts(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    random = np.random.default_rng(5)
    for seed in range(12):
        dtype = [*DTYPES.values()][seed % len(DTYPES)]
        counts = random.integers(0, 4, (n, n)) if seed % 2 else np.full((n, n), 2)
        rest = [(), (3,), (2, 2)][seed % 3]
        given = [data((int(counts[r].sum()), *rest), dtype, seed, r) for r in range(n)]
        pieces = [np.split(given[r], np.cumsum(counts[r])[:-1]) for r in range(n)]
        wanted = np.concatenate([pieces[r][rank] for r in range(n)])
        out = laid(np.zeros_like(wanted), device, LAYOUTS[seed % 3])
        splits = [counts[:, rank].tolist(), counts[rank].tolist()] if seed % 2 else [None, None]
        dist.all_to_all_single(out, laid(given[rank], device, LAYOUTS[(seed + 1) % 3]), *splits)
        same(out, wanted)


@case
def messages(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    if n == 1:
        return
    to, source = (rank + 1) % n, (rank - 1) % n
    for seed, dtype, shape, layout in everything():
        x = laid(data(shape, dtype, seed, rank), device, layout)
        out = laid(np.zeros(shape, dtype.np), device, layout)
        if reference.has_nccl:  # it works in the order of the calls
            if rank % 2:
                assert dist.recv(out, source) == source
            dist.send(x, to)
            if not rank % 2:
                assert dist.recv(out, source) == source
            same(out, data(shape, dtype, seed, source))
            continue
        work = dist.isend(x, to, tag=seed)
        assert dist.recv(out, source if seed % 2 else None, tag=seed) == source
        assert work.wait() and work.is_completed()
        same(out, data(shape, dtype, seed, source))


@case
def messages_in_a_batch(device: str) -> None:
    """All ranks receive before they send, which would be a deadlock with single calls."""
    n, rank = dist.get_world_size(), dist.get_rank()
    if n == 1:
        return
    to, source = (rank + 1) % n, (rank - 1) % n
    for seed, dtype, shape, layout in everything():
        given = [laid(data(shape, dtype, seed + k, rank), device, layout) for k in (0, 50)]
        outs = [laid(np.zeros(shape, dtype.np), device, layout) for _ in given]
        batch = [dist.P2POp(dist.irecv, outs[0], source)]
        batch += [dist.P2POp(dist.isend, x, group_peer=to) for x in given]
        batch += [dist.P2POp(dist.irecv, outs[1], source)]
        for work in dist.batch_isend_irecv(batch):
            assert work.wait()
        for k, out in zip((0, 50), outs):
            same(out, data(shape, dtype, seed + k, source))


@case
def batches_that_are_none_are_refused(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    x = gt.ones(3, device=device)
    for wrong in ([], [x], x, None):
        with pytest.raises(gt.GpuTensorError, match="batch_isend_irecv: 'p2p_op_list' must "):
            dist.batch_isend_irecv(wrong)
    for op, given in ((dist.send, (1,)), (dist.isend, ()), (dist.isend, (rank,))):
        with pytest.raises(gt.GpuTensorError, match="P2POp: '(op|peer)' must "):
            dist.P2POp(op, x, *given)
    other = dist.new_group()
    if n > 1:
        to = (rank + 1) % n
        batch = [dist.P2POp(dist.isend, x, to), dist.P2POp(dist.isend, x, to, other)]
        assert "P2POp(isend to rank" in repr(batch[0])
        with pytest.raises(gt.GpuTensorError, match="must be of one group"):
            dist.batch_isend_irecv(batch)
    dist.destroy_process_group(other)


@case
def works_end_in_any_order(device: str) -> None:
    n = dist.get_world_size()
    xs = [gt.full((100 * k,), float(k), device=device) for k in range(8)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    for work, x, k in [*zip(works, xs, range(8))][::-1]:
        assert work is not None and work.wait(30) and work.is_completed() and work.wait()
        same(x, np.full(100 * k, k * n, np.float32))
    ys = [gt.full((1000,), 1.0, device=device) for _ in range(20)]
    for y in ys:
        dist.all_reduce(y, async_op=True)  # no rank waits, and the memory is dropped
    del ys, y
    dist.barrier()
    outs = [gt.zeros(3, device=device) for _ in range(n)]
    work = dist.all_gather(outs, gt.full((3,), float(dist.get_rank()), device=device), None, True)
    assert work is not None
    while not work.is_completed():
        pass
    same(outs[n - 1], np.full(3, n - 1, np.float32))


@case
def groups(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    members = [*range(n)][::-2]  # not in the world's order
    group = dist.new_group(members, sort_ranks=False)
    in_order = dist.new_group(members)
    if rank not in members:
        assert group is dist.GroupMember.NON_GROUP_MEMBER
        assert dist.get_rank(group) == dist.get_world_size(group) == -1
        return
    assert dist.get_world_size(group) == len(members)
    assert dist.get_rank(group) == members.index(rank)
    assert dist.get_process_group_ranks(group) == members
    assert dist.get_process_group_ranks(in_order) == sorted(members)
    dist.barrier(in_order, device_ids=[0])
    if len(members) > 1:
        own, x = members.index(rank), gt.full((3,), float(rank), device=device)
        if own == 0:
            dist.send(x, group=group, group_dst=1)
        elif own == 1:
            assert dist.recv(x, group=group, group_src=0) == members[0]
            same(x, np.full(3, members[0], np.float32))
    dist.destroy_process_group(in_order)
    assert dist.get_global_rank(group, 0) == members[0]
    assert dist.get_group_rank(group, members[-1]) == len(members) - 1
    x = gt.full((3,), float(rank), device=device)
    dist.all_reduce(x, group=group)
    same(x, np.full(3, sum(members), np.float32))
    x = gt.full((3,), float(rank), device=device)
    dist.broadcast(x, members[-1], group)
    same(x, np.full(3, members[-1], np.float32))
    x = gt.full((3,), float(rank), device=device)
    dist.broadcast(x, group=group, group_src=0)
    same(x, np.full(3, members[0], np.float32))
    dist.destroy_process_group(group)
    try:
        dist.all_reduce(x, group=group)
    except dist.DistributedError as error:
        assert "'group_name' must be one of" in str(error)
    else:
        raise AssertionError("the group was destroyed")


@case
def refusals(device: str) -> None:
    n = dist.get_world_size()
    x = gt.ones(3, device=device)
    tries: list[tuple[Callable[[], Any], str]] = [
        (lambda: dist.all_reduce(x, "mean"), "'op' must be one of ReduceOp's"),
        (lambda: dist.all_reduce(x > 0, "avg"), "must be of floats"),
        (lambda: dist.all_reduce(x, "band"), "must be of integers"),
        (lambda: dist.all_reduce(x.to(gt.complex64), "max"), "must be of numbers that have"),
        (lambda: dist.all_reduce([1.0]), "must be a Tensor"),  # type: ignore[arg-type]
        (lambda: dist.all_reduce(x.expand(2, 3)), "more than once"),
        (lambda: dist.all_reduce(x, group=3), "must be a process group"),
        (lambda: dist.all_gather([x], x) if n > 1 else dist.all_gather([], x), "a tensor for each"),
        (lambda: dist.broadcast(x, n), "one of the group's ranks"),
        (lambda: dist.all_gather_into_tensor(gt.ones(n, device=device), x), f"have {3 * n} elem"),
        (lambda: dist.new_group([0, 0]), "be different ranks"),
        (lambda: dist.init_process_group(), "there must be no process group yet"),
        (lambda: dist.send(x, dist.get_rank()), "be another rank than this one"),
        (lambda: dist.send(x, group_dst=dist.get_rank()), "be another rank than this one"),
        (lambda: dist.send(x, 0, group_dst=0), "not be given together with group_dst"),
        (lambda: dist.send(x), "be a rank"),
    ]
    for call, says in tries:
        try:
            call()
        except gt.GpuTensorError as error:
            assert says in str(error), (says, str(error))
        else:
            raise AssertionError(f"nothing was raised: {says}")
    same(x, np.ones(3, np.float32))


@case
def a_rank_may_give_its_part_of_the_result(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    for dtype in (gt.float32, gt.bool, gt.float16):
        whole = gt.zeros(n, 4, dtype=dtype, device=device)
        whole[rank] = rank % 2
        for _ in range(2):  # also by the short cut
            dist.all_gather_into_tensor(whole, whole[rank])
            same(whole, np.repeat(np.arange(n) % 2, 4).reshape(n, 4).astype(dtype.np))
        whole = gt.ones(n, 4, dtype=dtype, device=device)
        dist.reduce_scatter_tensor(whole[rank], whole)
        same(whole[rank], np.full(4, n).astype(dtype.np))
        whole = gt.full((n, 4), rank, dtype=dtype, device=device)
        dist.all_gather_into_tensor(whole, whole[n - 1])  # the last element, on all ranks
        same(whole, np.repeat(np.arange(n), 4).reshape(n, 4).astype(dtype.np))
        whole = gt.full((n,), rank, dtype=dtype, device=device)
        dist.all_to_all_single(whole, whole)
        same(whole, np.arange(n).astype(dtype.np))


@case
def nothing_is_moved_to_where_elements_overlap(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    x, small = gt.ones(3, device=device), gt.zeros(1, device=device)
    wrong = small.expand(3)
    to = (rank + 1) % n
    calls = [
        lambda: dist.all_gather([wrong] * n, x), lambda: dist.gather(x, [wrong] * n, rank),
        lambda: dist.reduce(wrong, rank), lambda: dist.scatter(wrong, [x] * n, rank),
        lambda: dist.all_to_all_single(wrong, x, [3] + [0] * (n - 1), [3] + [0] * (n - 1)),
    ]  # fmt: skip
    for call in calls + [lambda: dist.recv(wrong, to)] * (n > 1):
        with pytest.raises(gt.GpuTensorError, match="more than once"):
            call()
    same(small, np.zeros(1, np.float32))


@case
def random_programs(device: str) -> None:
    """Sequences of collectives, some with late waits, are compared with NumPy."""
    n, rank = dist.get_world_size(), dist.get_rank()
    for seed in range(25):
        random = np.random.default_rng([99, seed])
        shape = tuple(int(k) for k in random.integers(1, 5, random.integers(1, 4)))
        arrays = [data(shape, gt.float32, seed, r).astype(np.float32) for r in range(n)]
        x = laid(arrays[rank], device, LAYOUTS[seed % 3])
        for _ in range(8):
            kind, late = random.integers(0, 6), bool(random.integers(0, 2))
            root, op = int(random.integers(0, n)), str(random.choice(["sum", "max", "min"]))
            work = None
            if kind == 0:
                work = dist.all_reduce(x, op, async_op=late)
                arrays = [reduced(arrays, op)] * n
            elif kind == 1:
                work = dist.broadcast(x, root, async_op=late)
                arrays = [arrays[root]] * n
            elif kind == 2:
                work = dist.reduce(x, root, op, async_op=late)
                arrays = [reduced(arrays, op) if r == root else arrays[r] for r in range(n)]
            elif kind == 3:
                outs = [gt.empty_like(x) for _ in range(n)]
                work = dist.all_gather(outs, x, async_op=late)
                if work is not None:
                    work.wait()
                x, arrays = outs[(rank + 1) % n], arrays[1:] + arrays[:1]
            elif kind == 4:
                wide = gt.cat([x + k for k in range(n)])
                out = gt.empty_like(x)
                work = dist.reduce_scatter_tensor(out, wide, op, async_op=late)
                if work is not None:
                    work.wait()
                x = out
                arrays = [reduced([a + np.float32(r) for a in arrays], op) for r in range(n)]
            else:
                x = x * 2 + rank
                arrays = [a * 2 + np.float32(r) for r, a in enumerate(arrays)]
            if work is not None:
                work.wait()
            x.remainder_(7)
            arrays = [np.remainder(a, np.float32(7)) for a in arrays]
        same(x, arrays[rank])


@case
def lazy_views(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    given = [data((3,), gt.complex64, 8, r) for r in range(n)]
    conj = [a.conj() for a in given]
    x = laid(given[rank], device, "dense").conj()
    same(gt.ops._c10d_functional.wait_tensor(
        gt.ops._c10d_functional.all_reduce(x, "sum", dist.groups.GroupMember.WORLD.name)
    ), reduced(conj, "sum"))  # fmt: skip
    outs = [gt.zeros_like(x) for _ in range(n)]
    dist.gather(x, outs if rank == 0 else None)
    dist.all_gather(outs, x)
    for out, wanted in zip(outs, conj):
        same(out, wanted)
    dist.reduce(x, 0)
    same(x.resolve_conj(), reduced(conj, "sum") if rank == 0 else conj[rank])
    for call in (dist.all_reduce, dist.broadcast):
        try:
            call(x)
        except gt.GpuTensorError as error:
            assert "must not be a lazy view" in str(error)
        else:
            raise AssertionError("a lazy view was written to")


@case
def meta_tensors_and_fused_ones(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    x = gt.ones(2, device="meta")
    assert dist.all_reduce(x) is None
    work = dist.all_reduce(x, async_op=True)
    assert work is not None and work.is_completed() and work.wait()
    with gt.fuse():
        y = gt.ones(3, device=device) * 2 + rank
        dist.all_reduce(y)
        y = y * 2
    same(y, np.full(3, 4 * n + n * (n - 1), np.float32))
