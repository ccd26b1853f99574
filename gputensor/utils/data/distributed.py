"""`DistributedSampler`: a sampler that divides the indices of a dataset among ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..._generated import functions
from ...core import errors, lazy
from ...dispatch.refusal import declares
from ...structured.generator import Generator
from .samplers import Sampler, T_co

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[T_co]):
    """The indices for one of `num_replicas` ranks. Together the ranks have all indices.

    shuffle: use a new order after each `set_epoch`. drop_last: make the parts equal by omitting
    indices instead of repeating the first ones.
    """

    dataset: Any
    num_replicas: int
    rank: int
    epoch: int
    drop_last: bool
    shuffle: bool
    seed: int

    @declares(num_replicas="int?", rank="int?", shuffle="bool", seed="int", drop_last="bool",
              first=True)  # fmt: skip
    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None,
        shuffle: bool = True, seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        if num_replicas is None or rank is None:
            from ... import distributed as ranks

            num_replicas = ranks.get_world_size() if num_replicas is None else num_replicas
            rank = ranks.get_rank() if rank is None else rank
        if not hasattr(dataset, "__len__"):
            raise errors.wrong_type("DistributedSampler", "dataset", "have a length", dataset)
        if num_replicas < 1:
            rule = "be positive"
            raise errors.wrong_value("DistributedSampler", "num_replicas", rule, num_replicas)
        if not 0 <= rank < num_replicas:
            raise errors.wrong_value("DistributedSampler", "rank", f"be below {num_replicas}", rank)
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch, self.drop_last, self.shuffle, self.seed = 0, drop_last, shuffle, seed

    @property
    def num_samples(self) -> int:
        """The number of indices for each rank."""
        count = len(self.dataset)
        if self.drop_last:
            return count // self.num_replicas
        return math.ceil(count / self.num_replicas)

    @property
    def total_size(self) -> int:
        """The number of indices for all ranks together."""
        return self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[Any]:
        count = len(self.dataset)
        order = list(range(count))
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            order = functions.randperm(count, generator=generator).tolist()
        if count:
            order = (order * math.ceil(self.total_size / count))[: self.total_size]
        return iter(order[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    @declares(epoch="int", first=True)
    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which is part of the seed for the order of the next passes."""
        self.epoch = epoch


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
