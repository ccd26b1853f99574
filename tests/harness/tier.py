"""The tiers of a test run: `--tier quick`, the default, or `--tier full`.

The quick tier tests every value of every axis once, the full tier every combination, and tests with
the mark `full`. Both use the same rows and lists. An axis is what one `parametrize` lists, or the
parameters of one fixture: `covering` chooses the combinations, so that a test only names its axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

TIERS = ("quick", "full")

chosen = "quick"


def is_full() -> bool:
    return chosen == "full"


def pick(quick: T, full: T) -> T:
    return full if is_full() else quick


def some(rows: Sequence[T], family: Callable[[T], str], most: int) -> list[T]:
    """Return all rows; in the quick tier at most `most` of a family, evenly spread.

    Operators of a family share the tested loops.
    """
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


def covering(items: Iterable[Any]) -> set[str]:
    """Return the ids of tests that have, for each function, each value of each axis once.

    The combinations are those of `spread`. A value that has none of them, because combinations are
    missing, gets the first test that has it.
    """
    of: dict[str, dict[tuple[str, ...], str]] = {}
    for item in items:
        call = getattr(item, "callspec", None)
        ids = tuple(call._idlist) if call else ("",)
        of.setdefault(item.nodeid.partition("[")[0], {})[ids] = item.nodeid
    chosen = set()
    for tests in of.values():
        values = set()
        for ids in [*spread(*(list(dict.fromkeys(axis)) for axis in zip(*tests))), *tests]:
            if ids in tests and not values.issuperset(enumerate(ids)):
                values |= {*enumerate(ids)}
                chosen.add(tests[ids])
    return chosen


def spread(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return combinations with each value of each axis at least once, equal in every run.

    Axes of equal length are shifted, so that equal values are not always combined.
    """
    return [
        tuple(axis[(k + shift) % len(axis)] for shift, axis in enumerate(axes))
        for k in range(max(map(len, axes)))
    ]
