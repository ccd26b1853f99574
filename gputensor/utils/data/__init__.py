"""`gt.utils.data`: datasets, samplers and data loaders, as in `torch.utils.data`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core import lazy

if TYPE_CHECKING:
    from . import distributed as distributed
    from .collate import default_collate as default_collate, default_convert as default_convert
    from .datasets import (
        ChainDataset as ChainDataset, ConcatDataset as ConcatDataset, Dataset as Dataset,
        IterableDataset as IterableDataset, StackDataset as StackDataset, Subset as Subset,
        TensorDataset as TensorDataset, random_split as random_split,
    )  # fmt: skip
    from .distributed import DistributedSampler as DistributedSampler
    from .loader import DataLoader as DataLoader
    from .samplers import (
        BatchSampler as BatchSampler, RandomSampler as RandomSampler, Sampler as Sampler,
        SequentialSampler as SequentialSampler, SubsetRandomSampler as SubsetRandomSampler,
        WeightedRandomSampler as WeightedRandomSampler,
    )  # fmt: skip
    from .workers import WorkerInfo as WorkerInfo, get_worker_info as get_worker_info
else:
    __getattr__, __dir__ = lazy.attributes(globals())
