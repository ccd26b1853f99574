"""Markdown of a record of copies: every case (`report`), and by kind of copy (`brief`)."""

from __future__ import annotations

from typing import Any

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


def report(data: dict[str, Any]) -> str:
    """Every case, what they add up to, the worst five, and who was skipped and why."""
    shown = data["peers"]
    named = [[c["kernel"]["name"]] if "kernel" in c else [] for c in data["cases"]]
    head = [
        *(["kernel"] if named[0] else []),
        "GB/s",
        "memcpy",
        "share",
        "of sectors",
        *[f"× {p}" for p in shown],
    ]
    rows = [[c["name"], *kernel, *_figures(c, shown)] for c, kernel in zip(data["cases"], named)]
    total, none = data["summary"], [""] * len(named[0])
    rows += [
        [f"geometric mean of {total['cases']}", *none, "", "", _bold(total,
        "geomean_share_of_memcpy"), "",
         *[_bold(total, f"geomean_vs_{p}") for p in shown]],
        ["worst", *none, "", "", _cell(total, "worst_share_of_memcpy"), "",
         *[_cell(total, f"worst_vs_{p}") for p in shown]],
    ]  # fmt: skip
    parts = [table([data["device"], *head], rows, left=1 + len(none)), brief(data), _notes(data)]
    return "\n\n".join(parts)


def brief(data: dict[str, Any]) -> str:
    """A line for each kind of copy."""
    shown = [p for p in data["peers"] if f"geomean_vs_{p}" in data["summary"]]
    head = ["kind of copy", "cases", "share of memcpy", *[f"× {NAMES[p]}" for p in shown]]
    rows = [
        [KINDS.get(kind, kind), str(of["cases"]), _cell(of, "geomean_share_of_memcpy"),
         *[_cell(of, f"geomean_vs_{p}") for p in shown]]
        for kind, of in data["summary"]["by_kind"].items()
    ]  # fmt: skip
    total = data["summary"]
    rows.append(
        ["**all, geometric mean**", f"**{total['cases']}**", _bold(total,
        "geomean_share_of_memcpy"),
         *[_bold(total, f"geomean_vs_{p}") for p in shown]]
    )  # fmt: skip
    rows.append(
        ["the worst case", "1", _cell(total, "worst_share_of_memcpy"),
         *[_cell(total, f"worst_vs_{p}") for p in shown]]
    )  # fmt: skip
    return table(head, rows, left=1)


def table(head: list[str], rows: list[list[str]], left: int) -> str:
    """Markdown; the first `left` columns are text."""
    rules = ["---" if n < left else "---:" for n in range(len(head))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rules, *rows))


def _figures(case: dict[str, Any], shown: list[str]) -> list[str]:
    return [
        f"{case['gb_per_s']['gputensor']:.1f}", f"{case['memcpy_gb_per_s']:.1f}",
        f"{case['share_of_memcpy']:.2f}", f"{case['share_of_sectors']:.2f}",
        *[f"{case['ratio'][p]:.2f}" if p in case["ratio"] else NO_FIGURE for p in shown],
    ]  # fmt: skip


def _cell(of: dict[str, Any], name: str) -> str:
    return f"{of[name]:.2f}" if name in of else NO_FIGURE


def _bold(of: dict[str, Any], name: str) -> str:
    return f"**{of[name]:.2f}**" if name in of else NO_FIGURE


def _notes(data: dict[str, Any]) -> str:
    total = data["summary"]
    worst = sorted(data["cases"], key=lambda c: c["share_of_memcpy"])[:5]
    lines = [
        f"GB/s of bytes read and written; `×` is how many times as long the peer takes. Against "
        f"itself "
        f"gputensor gives {total['again']:.3f}; the median spread of a case's rounds is "
        f"{100 * total['noise']:.0f} %.",
        "Furthest from memcpy: " + ", ".join(f"{c['name']} {c['share_of_memcpy']:.2f}" for c in worst) + ".",
    ]  # fmt: skip
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
