"""How much a run of the tests crosses: `--tier quick`, the default, or `--tier full`.

The quick tier meets every value of every axis once, the full tier every combination; tests that
carry the mark `full` run there alone. Both come from the same rows and lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, TypeVar

T = TypeVar("T")

TIERS = ("quick", "full")

chosen = "quick"


def is_full() -> bool:
    return chosen == "full"


def pick(quick: T, full: T) -> T:
    return full if is_full() else quick


def some(rows: Sequence[T], family: Callable[[T], str], most: int) -> list[T]:
    """All rows; in the quick tier at most so many of a family, evenly spread: operators of one
    family share the loops whose shapes such a test crosses."""
    if is_full():
        return list(rows)
    of: dict[str, list[T]] = {}
    for row in rows:
        of.setdefault(family(row), []).append(row)
    kept = set()
    for listed in of.values():
        step = max(1.0, len(listed) / most)
        kept |= {id(listed[int(n * step)]) for n in range(min(most, len(listed)))}
    return [row for row in rows if id(row) in kept]


def crossed(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Every combination of the axes' values; in the quick tier as many as the longest axis has
    values, of which each occurs."""
    return list(product(*axes)) if is_full() else spread(*axes)


def spread(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Each value of each axis at least once, the same ones in every run; axes of one length are
    shifted, so that no value meets itself alone."""
    return [
        tuple(axis[(k + shift) % len(axis)] for shift, axis in enumerate(axes))
        for k in range(max(map(len, axes)))
    ]
