"""Fourier transform of a matrix whose rows are divided among processes: two FFTs and a
redistribution.

    mpiexec -n 4 python examples/fft_parallel.py --size 2048

A 2-d transform consists of a transform along the rows and a transform along the columns. At first
each process has whole rows; after `redistribute(x, 0, 1)` it has whole columns. For this, layout
kernels pack the data, one all-to-all transfers it, and layout kernels unpack it. Each rank gets its
columns of the spectrum. The inverse takes the same steps in reverse order. The program prints the
times of the steps and of the transform in one process, and compares the results. Needs `pip install
'gputensor[mpi]'`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

# one thread in each process, because the processes share the CPUs
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import gputensor as gt
import gputensor.distributed as dist

ROUNDS = 7


def rows(numbers: gt.Tensor, size: int) -> gt.Tensor:
    """Return the rows of the matrix with the indices `numbers`. The elements do not depend on the
    number of processes."""
    y, x = numbers.unsqueeze(1), gt.arange(size)
    waves = gt.sin(x * 0.37 + y * 0.11) + gt.cos(x * 0.05 - y * 0.23)
    return (waves + ((x * 7919 + y * 104729) % 1013) / 1013).float()


def transform(mine: gt.Tensor) -> gt.Tensor:
    """Return this rank's columns of the spectrum, from its rows of the matrix."""
    return gt.fft.fft(dist.redistribute(gt.fft.fft(mine, dim=1), 0, 1), dim=0)


def inverse(mine: gt.Tensor) -> gt.Tensor:
    """Return this rank's rows of the matrix, from its columns of the spectrum."""
    return gt.fft.ifft(dist.redistribute(gt.fft.ifft(mine, dim=0), 1, 0), dim=1)


def milliseconds(call: Callable[[], object]) -> float:
    """Return the milliseconds of the fastest round. All ranks start a round together."""
    best = float("inf")
    for _ in range(ROUNDS):
        dist.barrier()
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best * 1e3


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=1024, help="rows and columns of the matrix")
    size = parser.parse_args(argv).size
    dist.init_process_group()
    gt.set_num_threads(1)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = rows(gt.arange(size).tensor_split(ranks)[rank], size)

    spectrum = transform(mine)
    difference = (inverse(spectrum).real - mine).abs().max()
    dist.all_reduce(difference, dist.ReduceOp.MAX)
    parts = milliseconds(lambda: transform(mine))
    along_rows = gt.fft.fft(mine, dim=1)
    moving = milliseconds(lambda: dist.redistribute(along_rows, 0, 1))
    whole = rows(gt.arange(size), size)
    alone = milliseconds(lambda: gt.fft.fft2(whole) if rank == 0 else None)
    spectra = gt.fft.fft(whole, dim=1)
    turning = milliseconds(lambda: spectra.t().contiguous() if rank == 0 else None)
    wanted = gt.fft.fft2(whole).tensor_split(ranks, 1)[rank]
    error = (spectrum - wanted).abs().max() / wanted.abs().max()
    dist.all_reduce(error, dist.ReduceOp.MAX)
    if rank == 0:
        print(f"{ranks} ranks, {size} x {size} f32: each has {tuple(mine.shape)}")
        print(f"the spectrum differs from one process's by {error.item():.1e} of its largest value")
        print(f"the way back differs from the matrix by {difference.item():.1e}")
        print(f"one process alone   {alone:8.2f} ms")
        print(f"{ranks} ranks             {parts:8.2f} ms, {alone / parts:.2f} times as fast")
        print(f"of it redistribute  {moving:8.2f} ms, {moving / parts:.0%}")
        print(f"a local transpose   {turning:8.2f} ms, {turning / moving:.2f} of redistribute's")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
