"""`compare OLD NEW`: list the cases that became faster or slower between two records.

Times are divided by memcpy's times of the same rounds, if a record has them, so that a slower
machine does not look like a slower program. The verdict on a case follows from the 99 % confidence
interval of its median (from order statistics, without an assumption on the distribution):

SAME       the interval excludes a difference greater than the tolerance
FAST SLOW  the interval proves such a difference
AMBIGUOUS  neither: measure longer, or on a quieter machine
"""

from __future__ import annotations

import math
from typing import Any

from ..measurement.timing import median_interval

SAME, FAST, SLOW, AMBIGUOUS = "SAME", "FAST", "SLOW", "AMBIGUOUS"
APART = (FAST, SLOW)
TOLERANCE = 0.03
# Fields that must be equal for a comparison.
_CONDITIONS = ("benchmark", "device", "threads")
_MACHINE = ("cpu", "cpus", "system")


def not_comparable(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the reasons why two records cannot be compared."""
    found = [
        f"{name} differs ({old.get(name)!r}, {new.get(name)!r})"
        for name in _CONDITIONS if old.get(name) != new.get(name)
    ]  # fmt: skip
    before, after = old["environment"], new["environment"]
    found += [
        f"{name} differs ({before.get(name)!r}, {after.get(name)!r})"
        for name in _MACHINE if before.get(name) != after.get(name)
    ]  # fmt: skip
    gpus = [e.get("gpu", {}).get("name") for e in (before, after)]
    if gpus[0] != gpus[1]:
        found.append(f"the GPU differs ({gpus[0]!r}, {gpus[1]!r})")
    if not _shared(old, new):
        found.append("no case is in both")
    return found


def compare(
    old: dict[str, Any], new: dict[str, Any], tolerance: float = TOLERANCE
) -> list[dict[str, Any]]:
    """Return one row for each common case: name, ratio (new time / old time), low, high,
    verdict."""
    return [_row(a, b, tolerance) for a, b in _shared(old, new)]


def _shared(
    old: dict[str, Any], new: dict[str, Any]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    before = {c["name"]: c for c in old["cases"]}
    return [
        (before[c["name"]], c) for c in new["cases"]
        if c["name"] in before and before[c["name"]].get("sizes") == c.get("sizes")
    ]  # fmt: skip


def _row(old: dict[str, Any], new: dict[str, Any], tolerance: float) -> dict[str, Any]:
    (a_low, a, a_high), (b_low, b, b_high) = _interval(old), _interval(new)
    low, high = b_low / a_high, b_high / a_low if a_low else math.inf
    return {
        "name": new["name"], "ratio": b / a, "low": low, "high": high,
        "verdict": verdict(low, high, tolerance),
    }  # fmt: skip


def _interval(case: dict[str, Any]) -> tuple[float, float, float]:
    """Return (low, median, high) of gputensor's time. If the record has times of memcpy, each of
    our times is divided by memcpy's time in the same round."""
    samples = case.get("samples_ns")
    if samples is None:  # the record has only quartiles
        low, high = case["quartiles_ns"]["gputensor"]
        return low, case["ns"]["gputensor"], high
    ours, plain = samples["gputensor"], samples.get("memcpy")
    return median_interval(ours if plain is None else [x / m for x, m in zip(ours, plain)])


def verdict(low: float, high: float, tolerance: float) -> str:
    """Return the verdict for an interval of time ratios."""
    if low > 1 + tolerance:
        return SLOW
    if high < 1 / (1 + tolerance):
        return FAST
    within = low >= 1 / (1 + tolerance) and high <= 1 + tolerance
    return SAME if within or low <= 1 <= high and high <= low * (1 + tolerance) ** 4 else AMBIGUOUS


def most_told_apart(cases: int) -> int:
    """Return the number of cases that may differ when a build is compared with itself: 1 %, rounded
    up.

    This follows from the 99 % confidence of each interval.
    """
    return math.ceil(cases / 100)


def self_comparison(data: dict[str, Any], tolerance: float = TOLERANCE) -> list[dict[str, Any]]:
    """Compare gputensor with itself within a record (A/A), round by round.

    A verdict other than SAME means that the measurement is wrong.
    """
    rows = []
    for case in data["cases"]:
        samples = case.get("samples_ns", {})
        if "again" not in samples:
            continue
        ratios = [b / a for a, b in zip(samples["gputensor"], samples["again"])]
        low, middle, high = median_interval(ratios)
        rows.append({
            "name": case["name"], "ratio": middle, "low": low, "high": high,
            "verdict": verdict(low, high, tolerance),
        })  # fmt: skip
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| case | new / old | 99 % interval | |", "|---|---:|---:|---|"]
    for row in rows:
        interval = f"{row['low']:.2f} to {row['high']:.2f}"
        lines.append(f"| {row['name']} | {row['ratio']:.3f} | {interval} | {row['verdict']} |")
    counts = {v: sum(r["verdict"] == v for r in rows) for v in (FAST, SLOW, SAME, AMBIGUOUS)}
    lines += ["", ", ".join(f"{count} {name}" for name, count in counts.items())]
    return "\n".join(lines)
