"""A program in which one rank fails in some way: `… failing KIND` under mpiexec -n 3."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import gputensor as gt
import gputensor.distributed as dist

from . import stand_in


def _stop_the_launcher(seconds: float) -> None:
    """Delay the process that reads this rank's output."""
    reader = os.getppid()
    null = subprocess.DEVNULL
    command = ["sh", "-c", f"sleep {seconds}; kill -CONT {reader}"]
    subprocess.Popen(command, start_new_session=True, stdin=null, stdout=null, stderr=null)
    os.kill(reader, signal.SIGSTOP)


def main(kind: str) -> None:
    device, _, kind = kind.rpartition(": ")
    if device == "nccl":
        stand_in.install()
        gt.set_default_device("cuda")
    dist.init_process_group(timeout=60)
    rank = dist.get_rank()
    group = dist.new_group(timeout=3 if kind == "sleeps" else 60)
    x = gt.ones(3)
    for _ in range(3):  # the next one takes a short cut
        dist.all_reduce(gt.ones(3), group=group)
    dist.barrier()
    if kind == "shape":
        x = gt.ones(4 if rank == 2 else 3)
    if kind == "dtype":
        x = gt.ones(3, dtype=gt.float64 if rank == 2 else gt.float32)
    if rank == 1:
        if kind == "is read late":
            _stop_the_launcher(0.5)
        if kind in ("raises", "is read late"):
            raise ValueError("bad data")
        if kind == "exits":
            sys.exit(3)
        if kind == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "sleeps":
            time.sleep(20)
        if kind == "calls another":
            dist.broadcast(x, 0, group)
        if kind == "caught":
            try:
                dist.all_reduce(x > 0, "avg")  # raises on this rank only
            except gt.GpuTensorError:
                pass
    if kind == "splits":
        given = [[1, 1, 1], [1, 2, 0], [1, 1, 1]][rank]
        dist.all_to_all_single(gt.ones(3), x, None, given, group)
    dist.all_reduce(x, group=group)
    print(f"rank {rank} has {x.tolist()}")


if __name__ == "__main__":
    main(sys.argv[1])
