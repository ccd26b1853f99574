"""Every operator in vmap gives the results of separate calls for the entries of the batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from tests.harness import tier
from tests.harness.compare import to_numpy

from .samples import VALUES, Sample, all_of, packet

# These operators read elements, have results whose sizes depend on elements, or change a tensor's
# metadata.
REFUSED = (errors.DispatchError, errors.ArgumentError)
# Operators that must have a rule.
SERVED = 300


def masks(count: int) -> Iterator[tuple[bool, ...]]:
    """Return which operands have a batch: all operands, and in the full tier each one alone."""
    yield (True,) * count
    if count > 1 and tier.is_full():
        for n in range(count):
            yield tuple(n == m for m in range(count))


def draws(name: str) -> bool:
    overloads = [getattr(packet(name), n) for n in packet(name).overloads()]
    return any("nondeterministic_seeded" in x.tags for x in overloads) or "dropout" in name


def expected(sample: Sample, mask: tuple[bool, ...]) -> list[Any] | None:
    """Return the results of separate calls for each entry; None if these cannot be compared."""
    found = []
    for n in range(VALUES):
        given = [x.values[n if m else 0].clone() for x, m in zip(sample.tensors, mask)]
        try:
            found.append(sample.call(*given))
        except errors.GpuTensorError:
            return None
    sizes = [[y.shape for y in results] for results in found]
    return found if found[0] and sizes[0] == sizes[1] else None


def differs(found: Any, wanted: Any) -> bool:
    if found.shape != wanted.shape or found.dtype is not wanted.dtype:
        return True
    a, b = to_numpy(found), to_numpy(wanted)
    if a.dtype.kind not in "fc":
        return not bool((a == b).all())
    return not np.allclose(a, b, rtol=2e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("dtype", [gt.float32, gt.int64, gt.complex64], ids=str)
def test_a_batch_is_its_entries(dtype: gt.dtype) -> None:
    wrong, served = [], set()
    keep = lambda row: not draws(row.name)  # noqa: E731
    for sample in all_of(dtype, keep=keep, most=tier.pick(1, None)):
        for mask in masks(len(sample.tensors)):
            wanted = expected(sample, mask)
            if wanted is None:
                continue
            batches = [gt.stack(x.values) for x, m in zip(sample.tensors, mask) if m]

            def entry(*some: Any) -> Any:
                rest = iter(some)
                return sample.call(*[
                    next(rest) if m else x.values[0].clone() for x, m in zip(sample.tensors, mask)
                ])  # fmt: skip

            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = gt.vmap(entry)(*batches)
            except REFUSED:
                continue
            served.add(sample.name)
            for n in range(VALUES):
                if any(differs(x[n], y) for x, y in zip(found, wanted[n])):
                    wrong.append((sample.name, mask, n))
    assert not wrong
    assert dtype is not gt.float32 or len(served) > SERVED
