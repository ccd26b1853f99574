"""Markdown tables of a record of copies: of every case (`report`), or by kind of copy (`brief`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..copies import sessions
from ..measurement import timing

KINDS = {
    "tile": "transposes", "ragged": "transposes of odd sizes", "small": "small transposes",
    "channels": "channels first or last", "rows": "rows moved whole",
    "many": "3 to 26 dimensions permuted", "broadcast": "broadcasts and a flip",
    "sectors": "every second element", "cast": "casts and a new order",
    "memcpy": "plain copies", "pointwise": "pointwise operators", "reduction": "reductions",
    "pack": "pixels to a model's input", "back": "a model's output to pixels",
}  # fmt: skip
NAMES = {
    "torch": "PyTorch", "torch.compile": "torch.compile", "cupy": "CuPy", "numpy": "NumPy",
    "opencv": "OpenCV", "cutensor": "cuTENSOR",
}  # fmt: skip
NO_FIGURE = "–"
_PLAIN = "share_of_memcpy"


def report(data: dict[str, Any]) -> str:
    """Return tables of all cases and of totals, and the skipped libraries with reasons."""
    shown = data["peers"]
    named = [[c["kernel"]["name"]] if "kernel" in c else [] for c in data["cases"]]
    head = [
        data["device"], *(["kernel"] if named[0] else []), "GB/s", "memcpy",
        *[title for title, _ in _columns(data, shown)],
    ]  # fmt: skip
    rows = [
        [label(c), *kernel, *_figures(c, _columns(data, shown))]
        for c, kernel in zip(data["cases"], named)
    ]
    left = 1 + len(named[0])
    rows += [
        [f"{name} of {count}", *[""] * (left + 1), *cells]
        for name, count, *cells in (_mean_row(data, shown), _worst_row(data, shown))
    ]
    parts = [table(head, rows, left), brief(data), _notes(data)]
    return "\n\n".join(parts)


def brief(data: dict[str, Any]) -> str:
    """Return a table with one line for each kind of copy, and the worst cases."""
    shown = [p for p in data["peers"] if f"geomean_vs_{p}" in data["summary"]]
    head = ["kind of copy", "cases", *[title for title, _ in _columns(data, shown)]]
    rows = [
        [heading(data, kind), str(len(cases)), *_means(data, cases, shown)]
        for kind, cases in sessions.groups(data).items()
    ]
    mean = _mean_row(data, shown)
    at = len(rows) - (sessions.LEFT_OUT in sessions.groups(data))
    mean[0] = f"all, {mean[0]}"
    rows[at:at] = [[f"**{cell}**" if cell != NO_FIGURE else cell for cell in mean]]
    rows.append(_worst_row(data, shown))
    return f"{table(head, rows, left=1)}\n\n{_worst_cases(data, shown)}"


def one(data: dict[str, Any], number: int) -> str:
    """Return a table of one case: each library's milliseconds, and its time divided by
    gputensor's."""
    case = next(c for c in data["cases"] if c["number"] == number)
    names = ["gputensor", *[p for p in data["peers"] if p in case["ratio"]]]
    memcpy = min(ns for name, ns in case["ns"].items() if name.startswith("memcpy"))
    times = [f"{ns / 1e6:.1f}" for ns in (*(case["ns"][n] for n in names), memcpy)]
    ratios = ["1", *(f"{case['ratio'][n]:.2f}" for n in names[1:]), f"{case[_PLAIN]:.2f}"]
    head = [label(case), *(NAMES.get(n, n) for n in names), "memcpy of as many bytes"]
    return table(head, [["milliseconds", *times], ["times as long", *ratios]], left=1)


def is_gpu(data: dict[str, Any]) -> bool:
    """Return True for a record of a GPU. Only records of GPUs have speeds relative to transfers of
    whole memory sectors."""
    return bool(data["device"] != "cpu")


def heading(data: dict[str, Any], kind: str) -> str:
    """Return the heading of a kind of copy."""
    if kind != sessions.LEFT_OUT:
        return KINDS.get(kind, kind)
    return f"{'bound by a launch' if is_gpu(data) else 'below 1 MiB'}, in no mean"


def label(case: dict[str, Any]) -> str:
    """Return a case's name, followed by the shape of its source."""
    shape = case.get("source", ())
    if len(shape) < 2:
        return str(case["name"])
    if len(shape) > 4 and len(set(shape)) == 1:
        return f"{case['name']} {shape[0]}^{len(shape)}"
    return f"{case['name']} {'×'.join(map(str, shape))}"


def table(head: list[str], rows: list[list[str]], left: int) -> str:
    """Return a Markdown table. The first `left` columns are text, the others numbers."""
    rules = ["---" if n < left else "---:" for n in range(len(head))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rules, *rows))


# (title, function that returns the value of a case in this column)
Column = tuple[str, Callable[[dict[str, Any]], float | None]]


def _columns(data: dict[str, Any], shown: list[str]) -> list[Column]:
    """Return the columns: shares of memcpy's speed, and ratios to the peers."""

    def of(peer: str) -> Column:
        return f"× {NAMES[peer]}", lambda case: case["ratio"].get(peer)

    found: list[Column] = [("share of memcpy", lambda case: case[_PLAIN])]
    if is_gpu(data):
        found.append(("of sectors", sessions.of_sectors))
    return [*found, *map(of, shown)]


def _figures(case: dict[str, Any], columns: list[Column]) -> list[str]:
    return [
        f"{case['gb_per_s']['gputensor']:.1f}", f"{case['memcpy_gb_per_s']:.1f}",
        *[_cell([x] if x is not None else []) for x in (figure(case) for _, figure in columns)],
    ]  # fmt: skip


def _cell(figures: list[float], total: Callable[[list[float]], float] = min) -> str:
    return f"{total(figures):.2f}" if figures else NO_FIGURE


def _cells(
    data: dict[str, Any], cases: list[Any], shown: list[str], total: Callable[[list[float]], float]
) -> list[str]:
    return [
        _cell([x for x in map(figure, cases) if x is not None], total)
        for _, figure in _columns(data, shown)
    ]


def _means(data: dict[str, Any], cases: list[Any], shown: list[str]) -> list[str]:
    return _cells(data, cases, shown, timing.geomean)


def _mean_row(data: dict[str, Any], shown: list[str]) -> list[str]:
    cases = sessions.counted(data)
    return ["geometric mean", str(len(cases)), *_means(data, cases, shown)]


def _worst_row(data: dict[str, Any], shown: list[str]) -> list[str]:
    cases = data["cases"]
    return ["the worst", str(len(cases)), *_cells(data, cases, shown, min)]


def _worst_cases(data: dict[str, Any], shown: list[str]) -> str:
    """Return the worst case of each column, and the libraries for which fewer cases were
    measured."""
    found: dict[str, list[str]] = {}
    worst = min(data["cases"], key=lambda c: c[_PLAIN])
    found.setdefault(label(worst), []).append(f"share of memcpy {worst[_PLAIN]:.2f}")
    fewer = []
    for peer in shown:
        beside = [c for c in data["cases"] if peer in c["ratio"]]
        if 0 < len(beside) < len(data["cases"]):
            fewer.append(f"{NAMES[peer]} {len(beside)}")
        if beside:
            worst = min(beside, key=lambda c: c["ratio"][peer])
            found.setdefault(label(worst), []).append(f"× {NAMES[peer]} {worst['ratio'][peer]:.2f}")
    named = "; ".join(f"`{name}`: {', '.join(what)}" for name, what in found.items())
    counts = f" Of the {len(data['cases'])} cases, by peer: {', '.join(fewer)}." if fewer else ""
    return f"The worst figures: {named}.{counts}"


def _notes(data: dict[str, Any]) -> str:
    total = data["summary"]
    lines = [
        f"GB/s of bytes read and written; `×` is how many times as long the peer takes. Against "
        f"itself "
        f"gputensor gives {total['again']:.3f}; the median spread of a case's rounds is "
        f"{100 * total['noise']:.0f} %.",
    ]  # fmt: skip
    if is_gpu(data):
        lines.append(
            "Of sectors: the share of what memory sectors of 32 bytes allow; where they do not "
            "bind, the share of memcpy."
        )
    slow = [c["name"] for c in data["cases"] if (c.get("state") or {}).get("is_slow")]
    if slow:
        lines.append(f"The GPU's clock was below 75 % of its default in: {', '.join(slow)}.")
    for case in data["cases"]:
        if case.get("bound_by"):
            lines.append(f"{case['name']} is in no mean: what it times is {case['bound_by']}.")
    lines += [f"No figures: {name} ({why})." for name, why in data.get("failed", {}).items()]
    if data["is_emulated"]:
        lines.append(
            "Emulated: the times are those of the emulator on this CPU and say nothing of a GPU."
        )
    lines += [f"Skipped: {NAMES.get(p, p)} ({why})." for p, why in data["skipped"].items()]
    for peer in data["peers"]:
        reasons: dict[str, int] = {}
        for case in data["cases"]:
            if peer in case["skipped"]:
                reasons[case["skipped"][peer]] = reasons.get(case["skipped"][peer], 0) + 1
        lines += [f"Skipped: {NAMES[peer]} in {n} cases ({why})." for why, n in reasons.items()]
    return "\n".join(f"- {line}" for line in lines)
