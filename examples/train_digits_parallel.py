"""Trains the model of train_digits.py in several processes, each with its part of every batch.

    mpiexec -n 4 python examples/train_digits_parallel.py
    mpiexec -n 4 python examples/train_digits_parallel.py --checkpoint FILE --resume FILE

The gradients are averaged over all ranks during backward. So all ranks have bitwise equal
parameters, which equal the parameters of a single process up to rounding. Rank 0 writes
`--checkpoint FILE` after each epoch. `--resume FILE` continues from that file, or starts anew if
the file does not exist. So after a failure the second command can be repeated until it succeeds.
Needs scikit-learn and `pip install 'gputensor[mpi]'`.
"""

from __future__ import annotations

import argparse
import os
import time

from train_digits import (
    HELD_OUT,
    Run,
    arguments,
)  # import this before NumPy: it sets a variable that BLAS reads during NumPy's import

import gputensor as gt
import gputensor.distributed as dist
from gputensor.nn import functional as F


class ParallelRun(Run):
    """A training run in which each rank computes its part of every step."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        for p in self.model.parameters:
            dist.broadcast(p, 0)
        self.averager = dist.GradientAverager(self.model.parameters, args.bucket_bytes)

    def eager(self, x: gt.Tensor, y: gt.Tensor, lr: float | gt.Tensor) -> gt.Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad()
        mine = [part.tensor_split(self.ranks)[self.rank] for part in (x, y)]
        # the mean of `loss` over all ranks is the mean over the batch, even if the ranks have
        # unequal parts of the batch
        loss = F.nll_loss(self.model(mine[0]), mine[1], reduction="sum") * (self.ranks / len(y))
        loss.backward()
        self.averager.wait()
        self.optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        return mean

    def is_same_everywhere(self) -> bool:
        """Return True if all ranks have bitwise the same parameters as rank 0."""
        same = True
        for p in self.model.parameters:
            first = p.detach().clone()
            dist.broadcast(first, 0)
            same &= gt.equal(first, p)
        found = gt.tensor([same])
        dist.all_reduce(found, dist.ReduceOp.MIN)
        return bool(found.item())


def main(given: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--bucket-bytes", type=int, default=1 << 16)
    own, rest = parser.parse_known_args(given)
    args = arguments(rest)
    args.bucket_bytes = own.bucket_bytes
    dist.init_process_group(timeout=60)
    is_first = dist.get_rank() == 0
    args.quiet = args.quiet or not is_first
    run = ParallelRun(args)
    if args.resume and os.path.exists(args.resume):
        run.load(args.resume)
    began, steps = time.perf_counter(), args.steps or args.epochs * run.per_epoch
    while run.step < steps:
        run.train(min(steps, (run.step // run.per_epoch + 1) * run.per_epoch))
        if args.checkpoint and is_first:
            run.save(args.checkpoint)
    passed = time.perf_counter() - began
    accuracy = run.model.accuracy(*run.digits.held_out)
    same = "the same" if run.is_same_everywhere() else "NOT the same"
    if is_first:
        print(
            f"{run.step} steps on {run.ranks} ranks in {passed:.1f} s: {accuracy:.2%} of {HELD_OUT}"
            f" held-out digits; parameters are {same} on all ranks"
        )
    dist.destroy_process_group()
    return accuracy


if __name__ == "__main__":
    main()
