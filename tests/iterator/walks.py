"""Brute force over a walk: every element's byte offset in every operand."""

from __future__ import annotations

import itertools
from collections import Counter

Sizes = tuple[int, ...]


def offsets(shape: Sizes, strides: list[Sizes]) -> list[tuple[int, ...]]:
    """Return the offsets of each element, first dimension fastest."""
    found = []
    for index in itertools.product(*[range(n) for n in reversed(shape)]):
        place = index[::-1]
        found.append(tuple(sum(i * s for i, s in zip(place, own)) for own in strides))
    return found


def row_major(shape: Sizes, strides: list[Sizes]) -> list[tuple[int, ...]]:
    """Return the offsets of each element of uncoalesced sizes, last dimension fastest."""
    return offsets(shape[::-1], [s[::-1] for s in strides])


def over(geometry, sizes: Sizes) -> Sizes:
    """Return the stride bytes of a geometry over broadcast sizes, by definition."""
    missing = len(sizes) - geometry.ndim
    own = zip(geometry.sizes, geometry.stride_bytes, sizes[missing:])
    return (0,) * missing + tuple(s if n == size else 0 for n, s, size in own)


def of_plan(plan) -> Counter:
    """Count how often each tuple of operand offsets occurs in the plan's walk."""
    return Counter(offsets(plan.shape, [s for s in plan.stride_bytes if s is not None]))


def of_geometries(sizes: Sizes, geometries) -> Counter:
    return Counter(row_major(sizes, [over(g, sizes) for g in geometries]))
