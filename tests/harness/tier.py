"""The tiers of a test run: `--tier quick`, the default, or `--tier full`.

The quick tier tests every value of every axis once, of a long axis only `MOST` values. The full
tier tests every combination, and tests with the mark `full`. Both use the same rows and lists. An
axis is what one `parametrize` lists, or the parameters of one fixture: `covering` chooses the
combinations, so that a test only names its axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

TIERS = ("quick", "full")

chosen = "quick"

# How many values of an axis the quick tier tests. More values share what they show with others.
MOST = 16


def is_full() -> bool:
    return chosen == "full"


def pick(quick: T, full: T) -> T:
    return full if is_full() else quick


def examples(most: int) -> Any:
    """Return Hypothesis's settings for `most` random examples; in the quick tier, an eighth."""
    from hypothesis import settings

    return settings(max_examples=pick(max(most // 8, 10), most), deadline=None)


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
        kept |= {id(row) for row in _evenly(listed, most)}
    return [row for row in rows if id(row) in kept]


def _evenly(listed: Sequence[T], most: int) -> list[T]:
    """Return at most `most` values, evenly spread over the list."""
    step = max(1.0, len(listed) / most)
    return [listed[int(n * step)] for n in range(min(most, len(listed)))]


def covering(items: Iterable[Any]) -> set[str]:
    """Return the ids of tests that have, for each function, each value of each axis once; of a long
    axis, some values (`MOST`).

    The combinations are those of `spread`. A value that has none of them, because combinations are
    missing, gets the first test that has it.
    """
    of: dict[str, dict[tuple[str, ...], Any]] = {}
    for item in items:
        call = getattr(item, "callspec", None)
        ids = tuple(call._idlist) if call else ("",)
        of.setdefault(item.nodeid.partition("[")[0], {})[ids] = item
    chosen = set()
    for tests in of.values():
        axes = [list(dict.fromkeys(axis)) for axis in zip(*tests)]
        if not next(iter(tests.values())).get_closest_marker("whole"):
            axes = [_evenly(axis, MOST) for axis in axes]
        wanted = {(at, value) for at, axis in enumerate(axes) for value in axis}
        for ids in [*spread(*axes), *tests]:
            if ids in tests and not wanted.isdisjoint(enumerate(ids)):
                wanted -= {*enumerate(ids)}
                chosen.add(tests[ids].nodeid)
    return chosen


def spread(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return combinations with each value of each axis at least once, equal in every run.

    Axes of equal length are shifted, so that equal values are not always combined.
    """
    return [
        tuple(axis[(k + shift) % len(axis)] for shift, axis in enumerate(axes))
        for k in range(max(map(len, axes)))
    ]
