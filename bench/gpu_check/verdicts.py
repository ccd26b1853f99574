"""The final tables: for each budget and for each step, the measured figure and the verdict.

Numbers are taken only from records of a real GPU. A dash stands for results of the emulator and of
steps that did not run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.copies import layout, sessions
from bench.host.overhead import NEW_SHAPE_US
from bench.measurement import timing
from bench.records import record, tables

from . import fuzz, lines
from .steps import PARTS, SKIPPED, Step

HOLDS, MISSED, OPEN, FAILED = "holds", "**missed**", "not measured", "**failed**"
NONE = "–"
Row = tuple[str, str, str, str]
# the budgets
SHARE, WORST_SHARE = sessions.CUDA_SHARE, sessions.CUDA_WORST_SHARE
HOST_CASES = ("empty((4,))", "a + b", "x.permute(0, 2, 3, 1).contiguous()", "a.add_(b)", "q.sum()")
HOST_TORCH, HOST_CUPY = 1.0, 0.5


def table(
    mode: str, steps: list[Step], results: list[dict[str, Any]], work: Path, is_emulated: bool
) -> str:
    """Return a Markdown table of the steps and, for `measure`, of the budgets."""
    by_name = {result["name"]: result for result in results}
    rows = [_step(step, by_name.get(step.name), work) for step in steps]
    parts = [f"# gpu_check {mode}"]
    if is_emulated:
        parts.append(
            "On the emulator, a dry run: it says that the steps work, and nothing of a GPU."
        )
    if mode == "measure":
        found = [*_layout(work, is_emulated), *_host(work, is_emulated)]
        parts.append(_markdown(("budget", "asked for", "measured", "verdict"), found))
    parts.append(_markdown(("step", "of", "found", "verdict"), rows))
    return "\n\n".join(parts) + "\n"


def _markdown(head: tuple[str, ...], rows: Iterable[Row]) -> str:
    return tables.table(list(head), [[c.replace("|", "\\|") for c in row] for row in rows], left=4)


# --- steps ----------------------------------------------------------------------------------------


def _step(step: Step, result: dict[str, Any] | None, work: Path) -> Row:
    if result is None:
        return step.name, "exit 0", NONE, "not begun"
    kind = step.kind.partition(" ")[0]
    asked, found = {"tests": _tests, "copies": _copies, "record": _cases}.get(kind, _exit)(
        step, work
    )
    status, why = result["exit"], result.get("why")
    if (
        status == SKIPPED
        or status == 0
        and kind == "tests"
        and " skipped" in found
        and "passed" not in found
    ):
        verdict = "skipped"
    elif status == 0:
        verdict = HOLDS
    elif why:
        verdict = f"**{why}**"
    else:
        verdict = "running" if status is None else f"{FAILED} (exit {status})"
    return step.name, asked, found, verdict


def _exit(step: Step, work: Path) -> tuple[str, str]:
    if step.kind == "log":
        return "exit 0", NONE
    return "exit 0", fuzz.last_line(work / "logs" / f"{step.name}.log")[:100] or NONE


def _tests(step: Step, work: Path) -> tuple[str, str]:
    ended = lines.read(work / f"{step.name}.jsonl").values()
    counted = Counter(line["outcome"] for line in ended)
    shown = [
        f"{counted[name]} {name}"
        for name in ("passed", "failed", "died", "skipped")
        if counted[name]
    ]
    return "0 failed", ", ".join(shown) or NONE


def _copies(step: Step, work: Path) -> tuple[str, str]:
    logs = sorted((work / "copies").glob("*.log"))
    last = [fuzz.last_line(path) for path in logs]
    equal = sum(fuzz.EQUAL in line for line in last)
    return (
        f"{len(logs)} seeds equal NumPy",
        f"{equal} do, {sum(fuzz.SO_FAR in x for x in last)} were cut off",
    )


def _cases(step: Step, work: Path) -> tuple[str, str]:
    benchmark = step.kind.partition(" ")[2]
    found = _read(work / _folder(step.name) / f"{benchmark}-cuda.json")
    if found is None:
        return "a record", NONE
    failed = found.get("failed", {})
    return "a record", f"{len(found['cases'])} cases" + (
        f", {len(failed)} failed" if failed else ""
    )


def _folder(step: str) -> str:
    return "layout" if step == "merge" else step


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return record.read(path)
    except record.NotARecord:
        return None


# --- budgets --------------------------------------------------------------------------------------


def _layout(work: Path, is_emulated: bool) -> Iterator[Row]:
    found = [_read(work / f"layout-{name}" / "layout-cuda.json") for name in (*PARTS, "rest")]
    parts = [part for part in found if part is not None]
    total: dict[str, Any] = {}
    count = 0
    if parts:
        data, _ = record.merged(parts, layout)
        count, total = len(data["cases"]), data["summary"]
    what = f"layout copies, {count} of {layout.COUNT} cases"
    for name, of, least in (
        ("geomean_share_of_sectors", "share of memcpy by sectors, geometric mean", SHARE),
        ("worst_share_of_sectors", "share of memcpy by sectors, worst", WORST_SHARE),
        ("geomean_vs_torch", "× PyTorch, geometric mean", sessions.CUDA_TORCH),
        ("worst_vs_torch", "× PyTorch, worst", sessions.CUDA_WORST_PEER),
        ("geomean_vs_cupy", "× CuPy, geometric mean", sessions.CUDA_CUPY),
        ("worst_vs_cupy", "× CuPy, worst", sessions.CUDA_WORST_PEER),
        ("geomean_vs_torch.compile", "× torch.compile, geometric mean", 0.0),
    ):
        yield _row(
            f"{what}: {of}",
            "≥",
            least,
            total.get(name),
            is_emulated,
            is_whole=count == layout.COUNT,
        )


def _host(work: Path, is_emulated: bool) -> Iterator[Row]:
    data = _read(work / "overhead" / "overhead-cuda.json") or {"cases": [], "peers": []}
    cases = {case["name"]: case["ns"] for case in data["cases"]}
    for peer, most in (("torch", HOST_TORCH), ("cupy", HOST_CUPY)):
        ratios = [
            cases[name]["gputensor"] / cases[name][peer]
            for name in HOST_CASES if peer in cases.get(name, {})
        ]  # fmt: skip
        mean = timing.geomean(ratios) if len(ratios) == len(HOST_CASES) else None
        what = f"host cost of {len(HOST_CASES)} calls, × {tables.NAMES[peer]}'s, geometric mean"
        yield _row(what, "≤", most, mean, is_emulated)
    churn = data.get("churn", {}).get("us_per_operator")
    yield _row("a shape never seen before, µs an operator", "≤", NEW_SHAPE_US, churn, is_emulated)


def _row(
    what: str,
    sign: str,
    bound: float,
    found: float | None,
    is_emulated: bool,
    is_whole: bool = True,
) -> Row:
    asked = f"{sign} {bound:g}" if bound else "no budget"
    if found is None or is_emulated or math.isnan(found):
        return what, asked, NONE, OPEN
    holds = found >= bound if sign == "≥" else found <= bound
    verdict = (HOLDS if holds else MISSED) if bound else NONE
    return what, asked, f"{found:.2f}", verdict if is_whole else f"{verdict}, of these"
