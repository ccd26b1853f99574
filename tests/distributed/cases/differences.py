"""Ranks that make different calls: all of them raise, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
import gputensor.distributed as dist
from gputensor.distributed import records

from ..reference import case, same

# More bytes than fit in a record, and fewer.
SIZES = (2, 1000)


def _differing(device: str) -> list[tuple[str, Callable[[bool, int], Any]]]:
    """Yield (the difference, call), given True for the rank that differs, and a size."""
    n = dist.get_world_size()

    def x(size: int, dtype: Any = gt.float32) -> gt.Tensor:
        return gt.ones(size, dtype=dtype, device=device)

    def out(size: int) -> gt.Tensor:
        return gt.zeros(n * size, device=device)

    def listed(size: int) -> list[gt.Tensor]:
        return [x(size) for _ in range(n)]

    return [
        ("elements", lambda odd, k: dist.all_reduce(x(k + odd))),
        ("shape", lambda odd, k: dist.all_reduce(x(k).view((1, k) if odd else (k, 1)))),
        ("dtype", lambda odd, k: dist.all_reduce(x(k, gt.int32 if odd else gt.float32))),
        ("bytes", lambda odd, k: dist.all_reduce(x(k) if odd else x(k // 2, gt.float64))),
        ("reduction", lambda odd, k: dist.all_reduce(x(k), "max" if odd else "sum")),
        ("kind", lambda odd, k: dist.broadcast(x(k), 0) if odd else dist.all_reduce(x(k))),
        ("barrier", lambda odd, k: dist.barrier() if odd else dist.all_reduce(x(k))),
        ("source", lambda odd, k: dist.broadcast(x(k), 1 if odd else 0)),
        ("broadcast", lambda odd, k: dist.broadcast(x(k + odd), 0)),
        ("small and large", lambda odd, k: dist.all_reduce(x(5000 if odd else k))),
        ("gathered", lambda odd, k: dist.all_gather_into_tensor(out(k + odd), x(k + odd))),
        ("list", lambda odd, k: dist.all_gather(listed(k + odd), x(k + odd))),
        ("scattered", lambda odd, k: dist.reduce_scatter_tensor(x(k + odd), out(k + odd))),
        ("reduced", lambda odd, k: dist.reduce(x(k + odd), 0)),
        ("root", lambda odd, k: dist.reduce(x(k), 1 if odd else 0)),
        ("dtype that is exchanged", lambda odd, k: dist.all_to_all_single(
            out(k).double() if odd else out(k), out(k).double() if odd else out(k))),
        ("sizes that are exchanged", lambda odd, k: dist.all_to_all_single(
            out(k), out(k), [k] * n, [k + 1, k - 1] + [k] * (n - 2) if odd else [k] * n)),
    ]  # fmt: skip


@case
def ranks_that_differ_all_raise(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    if n == 1:
        return
    for what, call in _differing(device):
        for size in SIZES:
            for odd in (n - 1, 0):
                try:
                    call(rank == odd, size)
                except dist.DistributedError as error:
                    assert "all ranks must make the same call" in str(error), (
                        what,
                        size,
                        str(error),
                    )
                else:
                    raise AssertionError(f"nothing was raised: {what}, {size}")
    x = gt.ones(3, device=device)  # the group still works
    dist.all_reduce(x)
    same(x, np.full(3, n, np.float32))


@case
def nothing_is_written_where_ranks_differ(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    if n == 1:
        return
    for size in (3, 5000):
        for time in range(3):  # later calls use the short cut if there is one
            good = gt.full((size,), float(rank), device=device)
            dist.all_reduce(good)
            same(good, np.full(size, n * (n - 1) / 2, np.float32))
            x = gt.full((size + (rank == 1),), float(time), device=device)
            with pytest.raises(dist.DistributedError) as caught:
                dist.all_reduce(x)
            assert f"got rank 1: all_reduce f32[{size + 1}]" in str(caught.value)
            same(x, np.full(x.shape, time, np.float32))


@case
def works_of_ranks_that_differ_raise(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    if n == 1:
        return
    xs = [gt.full((k,), 1.0, device=device) for k in (3, 4000, 5, 6000, 7)]
    odd = gt.ones(100 + rank, device=device)
    try:
        works = [dist.all_reduce(x, async_op=True) for x in xs[:2]]
        works.append(dist.all_reduce(odd, async_op=True))
        works += [dist.all_reduce(x, async_op=True) for x in xs[2:]]
    except dist.DistributedError:  # between GPUs, hosts compare their calls before the launch
        dist.barrier()
        return
    for place, work in [*enumerate(works)][::-1]:
        assert work is not None
        if place == 2:
            for _ in range(2):
                with pytest.raises(dist.DistributedError, match="must make the same call"):
                    work.wait()
        else:
            work.wait()
    for x in xs:
        same(x, np.full(x.shape, n, np.float32))


@case
def a_rank_that_waits_for_another_lets_its_collectives_go_on(device: str) -> None:
    """The first rank waits for a message, which the other ranks send after the collective."""
    n, rank = dist.get_world_size(), dist.get_rank()
    if n == 1:
        return
    x, y = gt.ones(5000, device=device), gt.zeros(1, device=device)
    work = dist.all_reduce(x, async_op=True)
    assert work is not None
    if rank == 0:
        for source in range(1, n):
            dist.recv(y, source)
    else:
        work.wait()
        dist.send(y, 0)
    work.wait()
    same(x, np.full(5000, n, np.float32))
    work = dist.all_reduce(x, async_op=True)
    assert work is not None
    if rank == 0:
        group = dist.new_group()
        work.wait()
    else:
        work.wait()
        group = dist.new_group()
    dist.destroy_process_group(group)
    same(x, np.full(5000, n * n, np.float32))


@case
def splits_of_many_ranks_have_a_message_of_their_own(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records.Agreement, "_splits_ride", lambda self: False)
        for k in range(3):
            given = [k + (rank + r) % 2 for r in range(n)]
            x = gt.full((sum(given),), float(rank), device=device)
            out = gt.zeros(sum(given), device=device)
            dist.all_to_all_single(out, x, given, given)
            same(out, np.repeat(np.arange(n), given).astype(np.float32))
            if n > 1:
                works = [dist.all_reduce(gt.ones(1000, device=device), async_op=True)]
                wrong = [given[0] + 1, given[1] - 1, *given[2:]] if given[1] else [0] * n
                wrong = wrong if sum(wrong) == len(x) else given[::-1]
                try:
                    dist.all_to_all_single(out, x, given, wrong if rank == 0 else given)
                except dist.DistributedError as error:
                    assert "wants" in str(error)
                else:
                    assert wrong == given
                for work in works:
                    assert work is not None and work.wait()
