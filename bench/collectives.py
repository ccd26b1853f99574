"""`mpiexec -n 2 python -m bench.collectives`: times our collectives and mpi4py's.

Both run alternately in the same processes, with the same MPI and memory. The program prints
mpi4py's time divided by ours, from the best of many rounds on rank 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import gputensor as gt
import gputensor.distributed as dist

ROUNDS = 40
SIZES = [("4 B", 1, 300), ("64 KiB", 1 << 14, 20), ("1 MiB", 1 << 18, 4), ("16 MiB", 1 << 22, 1)]


def best(mpi: Any, sides: list[Callable[[], Any]], calls: int) -> list[float]:
    """Return the seconds of one call of each callable in `sides`, in the fastest round."""
    found = [float("inf")] * len(sides)
    for _ in range(ROUNDS):
        for n, side in enumerate(sides):
            mpi.Barrier()
            began = time.perf_counter()
            for _ in range(calls):
                side()
            found[n] = min(found[n], (time.perf_counter() - began) / calls)
    return found


def main() -> None:
    dist.init_process_group()
    module: Any = import_module("mpi4py.MPI")
    mpi, ranks = module.COMM_WORLD, dist.get_world_size()
    for name, n, calls in SIZES:
        x, out = gt.ones(n), gt.ones(n * ranks)
        array, wide = x.numpy(), out.numpy()
        cases: dict[str, list[Callable[[], Any]]] = {
            "all_reduce": [
                lambda array=array: mpi.Allreduce(module.IN_PLACE, array),  # type: ignore[misc]
                lambda x=x: dist.all_reduce(x),  # type: ignore[misc]
            ],
            "all_gather_into_tensor": [
                lambda array=array, wide=wide: mpi.Allgather(array, wide),  # type: ignore[misc]
                lambda x=x, out=out: dist.all_gather_into_tensor(out, x),  # type: ignore[misc]
            ],
            "broadcast": [
                lambda array=array: mpi.Bcast(array),  # type: ignore[misc]
                lambda x=x: dist.broadcast(x, 0),  # type: ignore[misc]
            ],
        }
        for operator, sides in cases.items():
            theirs, ours = best(mpi, sides, calls)
            if dist.get_rank() == 0:
                print(
                    f"{operator:24} {name:>7}  {theirs / ours:5.2f}   "
                    f"{theirs * 1e6:9.1f} us and {ours * 1e6:9.1f} us"
                )


if __name__ == "__main__":
    main()
