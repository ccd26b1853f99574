"""`DistributedDataParallel.join`: ranks with different numbers of batches.

A rank without further batches takes part in the collectives of the other ranks with zero gradients,
until no rank has batches. Source: torch/distributed/algorithms/join.py.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ..core import errors
from ..distributed.collectives import ReduceOp, all_reduce
from ..distributed.groups import ProcessGroup
from ..exchange.construct import tensor


class Uneven:
    """The ranks that still have batches, in one use of `join`.

    divides_by_all: True for means over all ranks of the group, False for means over the ranks that
    still have batches. stops: raise on all ranks as soon as one rank has no more batches.
    """

    def __init__(self, group: ProcessGroup, device: Any, divides_by_all: bool, stops: bool) -> None:
        self._group, self._device = group, device
        self._divides_by_all, self._stops = divides_by_all, stops
        self._steps: int = 0  # the number of this rank's calls of forward
        # the ranks that still had batches when the ranks were last counted
        self.active: list[int] = []

    def _count(self, is_active: bool, reduces: bool, syncs: bool) -> tuple[bool, bool]:
        """Find out which ranks still have batches. Return (reduces, syncs) of the step that these
        ranks are about to run."""
        size, rank = self._group.size(), self._group.rank()
        flags = [int(is_active and n == rank) for n in range(size)]
        counts = tensor([*flags, int(reduces), int(syncs)], device=self._device)
        all_reduce(counts, group=self._group)
        *found, reducing, syncing = counts.tolist()
        self.active = [n for n, one in enumerate(found) if one]
        if self._stops and 0 < len(self.active) < size:
            rule = "be called with as many batches on all ranks, with throw_on_early_termination"
            ended = sorted({*range(size)} - {*self.active})
            got = errors.Got(f"none left on rank {', '.join(map(str, ended))}")
            raise errors.must("join", "batches", rule, got, kind=errors.DistributedError)
        return bool(reducing), bool(syncing)

    def begin(self, reduces: bool, syncs: bool) -> None:
        """Announce a forward of this rank. reduces: True if the backward of this forward reduces
        gradients. syncs: True if the forward copies buffers."""
        self._count(True, reduces, syncs)
        self._steps += 1

    def next(self) -> tuple[bool, bool] | None:
        """Return (reduces, syncs) of the other ranks' next step, or None if no rank has batches."""
        found = self._count(False, False, False)
        return found if self.active else None

    @property
    def scale(self) -> float:
        """The factor that converts means over all ranks to means over the ranks that still have
        batches."""
        return 1.0 if self._divides_by_all else self._group.size() / len(self.active)

    def last(self) -> int:
        """Return a rank that had the most batches. The result is the same on all ranks."""
        size = self._group.size()
        found = tensor([self._steps * size + self._group.rank()], device=self._device)
        all_reduce(found, ReduceOp.MAX, self._group)
        return int(found.item()) % size


def Join(
    joinables: Any, enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
) -> AbstractContextManager[None]:
    """Return the context manager `joinables[0].join(...)`, for a list of one
    DistributedDataParallel. The name is PyTorch's.

    kwargs: divide_by_initial_world_size.
    """
    found = [*joinables] if isinstance(joinables, (list, tuple)) else [joinables]
    if len(found) != 1 or not hasattr(found[0], "join"):
        rule = "be a list of one DistributedDataParallel"
        raise errors.must("Join", "joinables", rule, joinables, kind=errors.AbsentError)
    options = {"enable": enable, "throw_on_early_termination": throw_on_early_termination}
    context: AbstractContextManager[None] = found[0].join(**options, **kwargs)
    return context
