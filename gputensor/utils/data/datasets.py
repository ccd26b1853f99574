"""Datasets. Source: torch/utils/data/dataset.py."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from ..._generated.functions import randperm
from ...core import errors
from ...tensor.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Base of datasets whose items are read by key. A subclass defines `__getitem__`, usually
    `__len__`, and optionally `__getitems__`, which takes a list of keys."""

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("a Dataset must define __getitem__")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Base of datasets that can only be iterated over. A subclass defines `__iter__`. Each worker
    has a copy of the dataset and can identify itself by `get_worker_info`."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("an IterableDataset must define __iter__")

    def __add__(self, other: Any) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors with equal first dimensions. An item is a tuple with one slice of each tensor."""

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        sizes = {len(x) for x in tensors}
        if len(sizes) != 1:
            rule = "have one size in their first dimension"
            raise errors.wrong_shape("TensorDataset", "tensors", rule, errors.Got(str(sizes)))
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([x[index] for x in self.tensors])

    def __len__(self) -> int:
        return len(self.tensors[0])


def items(dataset: Any, indices: Sequence[int]) -> list[Any]:
    """Return the items at several indices, by one call if the dataset has `__getitems__`."""
    if callable(getattr(dataset, "__getitems__", None)):
        found: list[Any] = dataset.__getitems__(indices)
        return found
    return [dataset[n] for n in indices]


class StackDataset(Dataset[T_co]):
    """Several datasets of equal length. An item is a tuple, or a dict if the datasets have
    names."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            rule = "be given by position or by name"
            raise errors.wrong_value("StackDataset", "datasets", rule, errors.Got(f"{len(args)}"))
        self.datasets: Any = args or kwargs
        listed = list(kwargs.values()) if kwargs else list(args)
        if len({len(x) for x in listed}) != 1:
            got = errors.Got(str([len(x) for x in listed]))
            raise errors.wrong_value("StackDataset", "datasets", "have one length", got)
        self._length = len(listed[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: x[index] for name, x in self.datasets.items()}
        return tuple([x[index] for x in self.datasets])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return the items at several indices. Each dataset that has `__getitems__` is called
        once."""
        if isinstance(self.datasets, dict):
            parts = [items(x, indices) for x in self.datasets.values()]
            return [dict(zip(self.datasets, item)) for item in zip(*parts)]
        return list(zip(*[items(x, indices) for x in self.datasets]))

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """The concatenation of datasets. cumulative_sizes: the position at which each dataset ends."""

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets or any(isinstance(x, IterableDataset) for x in self.datasets):
            rule = "be at least one Dataset, and no IterableDataset"
            raise errors.wrong_value("ConcatDataset", "datasets", rule, self.datasets)
        self.cumulative_sizes = list(accumulate(len(x) for x in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if not -len(self) <= index < len(self):
            raise errors.wrong_index("ConcatDataset", "index", f"be below {len(self)}", index)
        index %= len(self)
        n = bisect_right(self.cumulative_sizes, index)
        found: T_co = self.datasets[n][index - (self.cumulative_sizes[n - 1] if n else 0)]
        return found


class ChainDataset(IterableDataset[T_co]):
    """The concatenation of IterableDatasets."""

    datasets: list[Any]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        for x in self.datasets:
            yield from x

    def __len__(self) -> int:
        return sum(len(x) for x in self.datasets)


class Subset(Dataset[T_co]):
    """The items of a dataset at the given indices."""

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[n] for n in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return items(self.dataset, [self.indices[n] for n in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Any = None
) -> list[Subset[Any]]:
    """Divide a dataset into random subsets without common items.

    lengths: numbers of items, or fractions that add up to 1. With fractions, items that are left
    after rounding go to the first subsets.
    """
    total = len(dataset)
    counts: list[Any] = list(lengths)
    if abs(sum(counts) - 1) < 1e-6 and sum(counts) <= 1 + 1e-6 and max(counts) <= 1:
        counts = [int(total * part) for part in lengths]
        for n in range(total - sum(counts)):
            counts[n % len(counts)] += 1
    if sum(counts) != total:
        rule = f"add up to the dataset's length, {total}"
        raise errors.wrong_value("random_split", "lengths", rule, errors.Got(str(sum(counts))))
    order = randperm(total, generator=generator).tolist()
    ends = list(accumulate(int(n) for n in counts))
    return [Subset(dataset, order[end - int(count) : end]) for count, end in zip(counts, ends)]
