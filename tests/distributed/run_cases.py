"""`python -m tests.distributed.run_cases FOLDER DEVICE [CASE …]` under mpiexec: run cases and write
failures by rank. tests/distributed/test_collectives.py starts it for each number of ranks."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

import gputensor.distributed as dist
from gputensor import cuda

from . import reference, stand_in
from .cases import collectives, differences, nccl, training, uses
from .reference import CASES

assert collectives and uses and nccl and differences and training


def main(folder: Path, device: str, only: list[str]) -> None:
    from mpi4py import MPI

    if device == "nccl":  # its replacement on emulated devices
        stand_in.install()
        reference.has_nccl, device = True, "cuda"
    dist.init_process_group("mpi" if device == "cpu" else "nccl", timeout=30)
    rank, found = dist.get_rank(), {}
    for name, function in CASES.items():
        if only and name not in only:
            continue
        try:
            function(device)
            if device == "cuda":
                cuda.synchronize()
            found[name] = ""
        # Catch everything: pytest.fail does not raise an Exception, and a rank that ended here
        # would not reach the barrier below or write the file that test_collectives.py reads.
        except BaseException:
            found[name] = traceback.format_exc()
        if MPI.COMM_WORLD.allreduce(bool(found[name]), MPI.LOR):
            break  # later failures would be consequences
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
