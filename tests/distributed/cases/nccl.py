"""Features of NCCL: streams, errors, one launch for several collectives."""

from __future__ import annotations

import numpy as np

import gputensor as gt
import gputensor.distributed as dist

from .. import reference, stand_in
from ..reference import case, same


@case
def the_stream_waits_and_not_the_host(device: str) -> None:
    if not reference.has_nccl:
        return
    n, rank = dist.get_world_size(), dist.get_rank()
    x = gt.zeros(1000, device=device)
    side = gt.cuda.Stream()
    side.wait_stream(gt.cuda.current_stream())
    with gt.cuda.stream(side):  # earlier queued writes are reduced, later ones are not
        x.add_(rank + 1)
        work = dist.all_reduce(x, async_op=True)
    assert work is not None
    y = gt.ones(1000, device=device)
    assert work.wait()  # now the current stream waits
    y = y + x
    x.mul_(0)
    same(y, np.full(1000, 1 + n * (n + 1) / 2, np.float32))
    same(x, np.zeros(1000, np.float32))
    work = dist.all_reduce(y, async_op=True)
    assert work is not None and work.wait(timeout=20) and work.is_completed()


@case
def memory_is_held_until_nccl_has_done(device: str) -> None:
    if not reference.has_nccl:
        return
    n = dist.get_world_size()
    made = []
    for k in range(20):
        x = gt.full((5000,), float(k), device=device)
        made.append(gt.ops._c10d_functional.all_reduce(x, "sum", dist.GroupMember.WORLD.name))
        del x
        gt.full((5000,), -1.0, device=device)  # this tensor would get its memory
    for k, y in enumerate(made):
        same(dist.wait_tensor(y), np.full(5000, k * n, np.float32))


@case
def several_are_one_launch(device: str) -> None:
    if not reference.has_nccl:
        return
    n, name = dist.get_world_size(), dist.GroupMember.WORLD.name
    ops = gt.ops._c10d_functional
    gt.cuda.synchronize()
    launches = []
    queue = stand_in._queue
    stand_in._queue = lambda calls: launches.append(len(calls)) or queue(calls)
    try:
        made = ops.all_reduce_coalesced([gt.ones(k + 1, device=device) for k in range(3)], "sum",
                                        name)  # fmt: skip
        parts = ops.all_gather_into_tensor_coalesced([gt.ones(2, device=device).t()] * 2, n, name)
    finally:
        stand_in._queue = queue
    assert launches == [3, 2]
    for k, y in enumerate(made):
        same(dist.wait_tensor(y), np.full(k + 1, n, np.float32))
    for y in parts:
        same(dist.wait_tensor(y), np.ones(2 * n, np.float32))


@case
def what_nccl_lacks_is_refused(device: str) -> None:
    if not reference.has_nccl:
        return
    n, rank = dist.get_world_size(), dist.get_rank()
    x = gt.ones(3, device=device)
    tries = [
        (lambda: dist.all_reduce(x.to(gt.int32), "bxor"), "a dtype that NCCL can reduce this way"),
        (
            lambda: dist.all_reduce(x.to(gt.complex64), "product"),
            "a dtype that NCCL can reduce this way",
        ),
        (lambda: dist.all_reduce(x.cpu()), "on a CUDA device with backend nccl"),
    ]
    if n > 1:
        tries += [
            (lambda: dist.recv(x), "'src' must be given between GPUs"),
            (lambda: dist.send(x, (rank + 1) % n, tag=3), "'tag' must be 0 between GPUs"),
        ]
    if gt.cuda.device_count() > 1:
        there = gt.ones(3, device="cuda:1")
        tries.append((lambda: dist.all_reduce(there), "must be on cuda:0, as its first one was"))
    dist.all_reduce(x)
    for call, says in tries:
        try:
            call()
        except gt.GpuTensorError as error:
            assert says in str(error), (says, str(error))
        else:
            raise AssertionError(f"nothing was raised: {says}")
    same(x, np.full(3, n, np.float32))
    graph = gt.cuda.CUDAGraph()
    try:
        with gt.cuda.graph(graph):
            dist.all_reduce(x)
    except gt.GpuTensorError as error:
        assert "all ranks would have to capture it" in str(error), error
    else:
        raise AssertionError("it was captured")
