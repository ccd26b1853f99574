"""`torch.distributed` in programs that request the backend "gloo": one process, and several under
mpiexec."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import gputensor as gt
from gputensor import distributed
from gputensor.as_torch import groups
from gputensor.core import errors
from gputensor.core.errors import absent

from ..distributed import launch

pytest.importorskip("mpi4py", reason="mpi4py is an extra")

PROGRAM = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

assert dist.is_available() and dist.is_gloo_available() and not dist.is_ucc_available()
dist.init_process_group(backend="gloo", init_method="env://")
rank, size = dist.get_rank(), dist.get_world_size()
assert size == 3 and dist.get_backend() == "gloo"
x = torch.full((2,), float(rank + 1))
dist.all_reduce(x)
assert x.tolist() == [6, 6]
found = [None] * size
dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
assert found == [{"rank": n, "text": "x" * n} for n in range(size)]
objects = ["from", rank] if rank == 1 else [None, None]
dist.broadcast_object_list(objects, src=1)
assert objects == ["from", 1]
gathered = [None] * size if rank == 2 else None
dist.gather_object(rank * 2, gathered, dst=2)
assert gathered == ([0, 2, 4] if rank == 2 else None)
given = [None]
dist.scatter_object_list(given, ["a", "b", "c"] if rank == 0 else None, src=0)
assert given == [["a", "b", "c"][rank]]
part = dist.new_group([0, 2], backend="gloo")
if rank != 1:
    objects = [rank]
    dist.broadcast_object_list(objects, group=part, group_src=1)
    assert objects == [2]
    dist.scatter_object_list(given, ["p", "q"] if rank == 2 else None, group=part, group_src=1)
    assert given == ["p" if rank == 0 else "q"]
    dist.gather_object(rank, found if rank == 2 else None, group=part, group_dst=1)
    dist.all_gather_object(found, rank, group=part)
    assert found == [0, 2] and dist.get_backend(part) == "gloo"
net = DistributedDataParallel(torch.nn.Linear(2, 1))
net(torch.full((1, 2), float(rank))).sum().backward()
assert net.module.weight.grad.tolist() == [[1, 1]]
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as default
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.join import Join
assert default.fp16_compress_hook is fp16_compress_hook
net.zero_grad()
net.register_comm_hook(None, fp16_compress_hook)
with Join([net]):
    for _ in range(rank + 1):
        net.zero_grad()
        net(torch.full((1, 2), float(rank))).sum().backward()
assert (net.module.weight.grad - [1, 1, 2 / 3][rank]).abs().max() < 1e-3  # of the own last step
future = torch.futures.Future()
future.set_result(dist.all_reduce(x, async_op=True).get_future().wait()[0])
assert future.then(lambda done: done.value().sum().item()).wait() == 36.0
dist.barrier()
dist.destroy_process_group()
print(f"rank {rank} is done\\n", end="")  # in one piece, between those of other ranks
"""


@pytest.mark.full
def test_a_program_of_several_processes(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = launch.run(3, "-m", "gputensor", "run-as-torch", str(script))
    assert done.returncode == 0, done.stdout
    assert all(f"rank {n} is done" in done.stdout for n in range(3))


@pytest.mark.parametrize("backend", ["gloo", "cpu:gloo,cuda:nccl", None, "mpi"])
def test_one_process(backend: str | None) -> None:
    groups.init_process_group(backend, "tcp://127.0.0.1:29500", world_size=1, rank=0)
    try:
        assert groups.get_backend() == (backend or "gloo")
        x = gt.ones(2)
        distributed.all_reduce(x)
        found: list[object] = []
        groups.all_gather_object(found, (1, "two"))
        assert x.tolist() == [1, 1] and found == [(1, "two")]
    finally:
        distributed.destroy_process_group()


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.GpuTensorError, match="'backend' must be gloo, mpi or nccl"):
        groups.init_process_group("ucc")
    with pytest.raises(errors.DistributedError, match="start the program with mpiexec -n 4"):
        groups.init_process_group("gloo", world_size=4, rank=0)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(errors.DistributedError, match="start the program with mpiexec -n 2"):
        groups.init_process_group("gloo")
    assert not distributed.is_initialized() and "mpi4py" in sys.modules
    hooks = "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook"
    assert "give register_comm_hook a function" in absent.why(hooks, "PowerSGDState")
    assert groups.is_backend_available("gloo") and not groups.is_backend_available("ucc")
