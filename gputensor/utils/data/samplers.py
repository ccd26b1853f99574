"""Samplers, which choose the order of indices. Source: torch/utils/data/sampler.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

from ..._generated import functions
from ...core import errors
from ...structured.generator import Generator
from ...tensor.tensor import Tensor
from ...exchange.construct import as_tensor

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """Base of samplers. A subclass defines `__iter__`, which yields indices or lists of indices."""

    def __init__(self, data_source: Sized | None = None) -> None:
        pass

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("a Sampler must define __iter__")


def _drawn_generator() -> Generator:
    """Return a generator for one pass, seeded by the global generator."""
    seed = int(functions.randint(0, 2**62, ()).item())
    return Generator().manual_seed(seed)


class SequentialSampler(Sampler[int]):
    """All indices in order."""

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Random indices.

    replacement: indices may repeat. num_samples: number of indices, by default the number of items.
    """

    data_source: Sized
    replacement: bool
    generator: Any

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
        generator: Any = None,
    ) -> None:  # fmt: skip
        self.data_source, self.replacement = data_source, replacement
        self._num_samples, self.generator = num_samples, generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            rule = "be a positive int"
            raise errors.wrong_value("RandomSampler", "num_samples", rule, self.num_samples)

    @property
    def num_samples(self) -> int:
        """Number of indices in a pass."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator = _drawn_generator() if self.generator is None else self.generator
        total, left = len(self.data_source), self.num_samples
        while left > 0:
            if self.replacement:
                count = min(left, 32)
                drawn = functions.randint(0, total, (count,), generator=generator)
            else:
                count = min(left, total)
                drawn = functions.randperm(total, generator=generator)[:count]
            yield from drawn.tolist()
            left -= count

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices, in random order."""

    indices: Sequence[int]
    generator: Any

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for n in functions.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[n]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Random indices, drawn with probabilities proportional to `weights`."""

    weights: Tensor
    num_samples: int
    replacement: bool
    generator: Any

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True,
        generator: Any = None,
    ) -> None:  # fmt: skip
        if not isinstance(num_samples, int) or num_samples <= 0:
            rule = "be a positive int"
            raise errors.wrong_value("WeightedRandomSampler", "num_samples", rule, num_samples)
        self.weights = as_tensor(weights).double()
        if self.weights.ndim != 1:
            rule = "have one dimension"
            raise errors.wrong_shape("WeightedRandomSampler", "weights", rule, self.weights)
        self.num_samples, self.replacement = num_samples, replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = functions.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of indices of another sampler. drop_last: omit the last list if it is shorter."""

    sampler: Iterable[int]
    batch_size: int
    drop_last: bool

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if type(batch_size) is not int or batch_size <= 0:
            raise errors.wrong_value("BatchSampler", "batch_size", "be a positive int", batch_size)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        rest = iter(self.sampler)
        while batch := list(islice(rest, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
