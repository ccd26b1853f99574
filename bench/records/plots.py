"""PNG plots of a record of copies: GB/s beside memcpy's, and the ratio to each peer.

Needs matplotlib. A benchmark with measurements of another kind draws its own plots, by the function
`draw` of its module, or none.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from gputensor.runtime import files

from .. import benchmarks
from ..copies import sessions
from . import record, tables

INK, MUTED, GRID, ROOF = "#22262b", "#6b7078", "#e6e8eb", "#dfe5ec"
OURS, LIMIT = "#1f6fd0", "#c2410c"
STYLE = {"font.family": "DejaVu Sans", "text.color": INK, "axes.labelcolor": INK}
LIMIT_LABEL = "limit of 32-byte sectors"
# Maps a peer to (colour, marker). Peers have different markers for readers who cannot distinguish
# the colours.
PEERS = {
    "torch": ("#d9480f", "o"), "torch.compile": ("#9c36b5", "D"), "cupy": ("#2b8a3e", "s"),
    "numpy": ("#0b7285", "^"), "opencv": ("#a07908", "v"),
}  # fmt: skip
# Inches: the height of a case, the heights above and below the axes, the width.
_ROW, _ABOVE, _BELOW, _WIDTH = 0.21, 1.05, 0.55, 8.6
# Fractions of the width: the minimum width of the labels, the width of a letter.
_LABELS, _LETTER = 0.235, 0.0079


def draw(data: dict[str, Any], folder: Path) -> list[Path]:
    """Write `layout-cpu-memcpy.png` and `layout-cpu-ratio.png`, or similar names for other records.
    Return their paths.

    Raises: ImportError if matplotlib is missing.
    """
    module = benchmarks.module(data["benchmark"])
    if hasattr(module, "draw"):
        paths: list[Path] = module.draw(data, folder)
        return paths
    if not data["cases"] or "memcpy_gb_per_s" not in data["cases"][0]:
        return []
    plt = pyplot()
    stem = record.stem(data)
    rows, heads = _rows(data)
    paths = []
    for name, paint in (("memcpy", _memcpy), ("ratio", _ratio)):
        if name == "ratio" and not any(c["ratio"] for c in data["cases"]):
            continue
        count = len(rows) + len(heads)
        height = _ROW * count + _ABOVE + _BELOW
        with plt.rc_context(STYLE):
            figure = plt.figure(figsize=(_WIDTH, height), facecolor="white")
            left = max(_LABELS, 0.03 + _LETTER * max(len(label) for _, label in rows.values()))
            box = (left, _BELOW / height, 0.965 - left, _ROW * count / height)
            axes = figure.add_axes(box)
            _frame(axes, rows, heads, count)
            title = paint(axes, data, [(rows[c["name"]], c) for c in data["cases"]])
            _words(figure, axes, data, title, height)
            paths.append(folder / f"{stem}-{name}.png")
            save(figure, paths[-1])
            plt.close(figure)
    return paths


def pyplot() -> Any:
    """Return matplotlib.pyplot, set up for drawing to files. Raises: ImportError if it is
    missing."""
    importlib.import_module("matplotlib").use("Agg")
    return importlib.import_module("matplotlib.pyplot")


def save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.whole(path) as file:
        figure.savefig(file, format="png", dpi=160)


def _rows(
    data: dict[str, Any],
) -> tuple[dict[str, tuple[float, str]], list[tuple[float, str]]]:
    """Return a dict from a case to the (y, label) of its row, and a list of (y, text) for the
    headings of the kinds of copies."""
    rows, heads, line = {}, [], 0.0
    for kind, cases in sessions.groups(data).items():
        heads.append((line, tables.heading(data, kind)))
        for case in cases:
            line += 1
            rows[case["name"]] = (line, tables.label(case))
        line += 1
    return rows, heads


def _frame(
    axes: Any, rows: dict[str, tuple[float, str]], heads: list[tuple[float, str]], count: int
) -> None:
    axes.set_ylim(count - 0.4, -0.6)
    axes.set_yticks(
        [y for y, _ in rows.values()], [label for _, label in rows.values()], fontsize=7.5
    )
    for y, text in heads:
        axes.annotate(
            text, (0.02, y), xycoords=("figure fraction", "data"), fontsize=7.5, fontweight="bold",
            va="center", color=MUTED, annotation_clip=False,
        )  # fmt: skip
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.tick_params(axis="y", length=0, pad=5)
    axes.tick_params(axis="x", labelsize=8, color=MUTED)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def _words(figure: Any, axes: Any, data: dict[str, Any], title: str, height: float) -> None:
    """Draw three lines above the axes: the title, the machine and the legend."""
    figure.text(0.02, 1 - 0.26 / height, title, fontsize=11.5, fontweight="bold", va="center")
    figure.text(0.02, 1 - 0.50 / height, machine(data), fontsize=8, color=MUTED, va="center")
    marks = dict(zip(*reversed(axes.get_legend_handles_labels())))
    order = sorted(marks, key=lambda label: (label == LIMIT_LABEL, label != "gputensor"))
    figure.legend(
        [marks[label] for label in order], order, loc="center left", bbox_to_anchor=(0.015,
        1 - 0.78 / height),
        ncols=6, fontsize=8, frameon=False, handletextpad=0.5, columnspacing=1.6, borderpad=0,
    )  # fmt: skip


def machine(data: dict[str, Any]) -> str:
    e = data.get("environment", {})
    parts = [e.get("gpu", {}).get("name") or f"{e.get('cpu', '')}, {e.get('cpus', '')} CPUs"]
    if data.get("threads"):
        parts.append(f"{data['threads']} threads each")
    parts += [(e.get("commit") or {}).get("hash", "")[:10], e.get("time", "")[:10]]
    if data.get("is_emulated"):
        parts.insert(0, "EMULATED, no figures of a GPU")
    return "  ·  ".join(p for p in parts if p)


def _memcpy(axes: Any, data: dict[str, Any], cases: list[Any]) -> str:
    """Draw a bar for each case, in front of a paler bar for memcpy's speed in the same rounds."""
    lines = [y for (y, _), _ in cases]
    memcpy = [c["memcpy_gb_per_s"] for _, c in cases]
    ours = [c["gb_per_s"]["gputensor"] for _, c in cases]
    # the axis ends before copies that fit into a cache, which are far faster than all others
    usual = sorted(memcpy)[int(0.9 * (len(memcpy) - 1))]
    end = 1.16 * max([usual, *ours])
    axes.barh(
        lines, [min(m, end) for m in memcpy], height=0.72, color=ROOF, label="memcpy, same rounds"
    )
    axes.barh(lines, ours, height=0.72, color=OURS, label="gputensor")
    limits = [
        (m * c["bytes"] / c["sector_bytes"], y)
        for m, ((y, _), c) in zip(memcpy, cases)
        if c["bytes"] < 0.99 * c["sector_bytes"]
    ]
    if limits and tables.is_gpu(data):
        axes.vlines(
            [x for x, _ in limits], [y - 0.45 for _, y in limits], [y + 0.45 for _, y in limits],
            color=LIMIT, linewidth=1.8, label=LIMIT_LABEL,
        )  # fmt: skip
    for (y, _), case in cases:
        reached, roof = case["gb_per_s"]["gputensor"], case["memcpy_gb_per_s"]
        share = f"{100 * case['share_of_memcpy']:.0f} %"
        if roof > end:
            share += f" of {roof:.0f} GB/s →"
        axes.annotate(
            share,
            (reached, y),
            xytext=(3, -0.4),
            textcoords="offset points",
            fontsize=6.5,
            va="center",
            color=INK,
        )
    axes.set_xlim(0, end)
    axes.set_xlabel("GB/s of bytes read and written", fontsize=8.5)
    return f"{len(cases)} copies beside a memcpy of as many bytes"


def ratio_axis(axes: Any, low: float, high: float) -> None:
    """Draw a logarithmic axis with a line at 1, shaded to the left of the line."""
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.axvspan(low, 1, color="#fdf0ea", zorder=0, linewidth=0)
    axes.axvline(1, color=INK, linewidth=1.1, zorder=2)
    steps = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
    ticks = [t for t in steps if low <= t <= high]
    axes.set_xticks(ticks, [f"{t:g}×" for t in ticks])
    axes.minorticks_off()


def _ratio(axes: Any, data: dict[str, Any], cases: list[Any]) -> str:
    """Draw a mark for each peer. The mark is to the right of 1 if gputensor is faster than the
    peer."""
    found = [r for _, c in cases for r in c["ratio"].values()]
    low, high = min(0.8, 0.85 * min(found)), max(2.2, 1.25 * max(found))
    for (y, _), case in cases:
        ends = [1, *case["ratio"].values()]
        axes.hlines(y, min(ends), max(ends), color=GRID, linewidth=2.5, zorder=1)
    for peer in data["peers"]:
        points = [(c["ratio"][peer], y) for (y, _), c in cases if peer in c["ratio"]]
        if points:
            colour, marker = PEERS[peer]
            axes.scatter(
                *zip(*points), s=26, color=colour, marker=marker, label=tables.NAMES[peer],
                zorder=3,
                edgecolors="white", linewidths=0.5,
            )  # fmt: skip
    ratio_axis(axes, low, high)
    axes.set_xlabel(
        "time of the peer by gputensor's: right of 1× gputensor is faster", fontsize=8.5
    )
    return f"{len(cases)} copies: how many times as long each library takes"
