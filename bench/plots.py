"""PNGs of a record: GB/s beside what memory allows, and the ratio to each peer. Needs matplotlib."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

OURS, LIMIT, PEERS = "#2a78d6", "#8a8a86", ("#d8602a", "#3a9d6e", "#8e5bb5", "#b08a1e")


def _pyplot() -> Any:
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    return importlib.import_module("matplotlib.pyplot")


def draw(data: dict[str, Any], folder: Path) -> list[Path]:
    """Write `<benchmark>-<device>-roofline.png` and `-ratio.png`; returns their paths.

    Raises: ImportError without matplotlib.
    """
    plt = _pyplot()
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{data['benchmark']}-{data['device'].partition(':')[0]}"
    paths = []
    for name, paint in (("roofline", _roofline), ("ratio", _ratio)):
        cases = data["cases"]
        figure, axes = plt.subplots(figsize=(8, 1.2 + 0.22 * len(cases)), layout="constrained")
        paint(axes, data)
        axes.set_yticks(range(len(cases)), [c["name"] for c in cases], fontsize=7)
        axes.invert_yaxis()
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)
        axes.grid(axis="x", color="#e4e4e0", linewidth=0.7)
        axes.set_axisbelow(True)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="lower right", fontsize=7, frameon=False)
        axes.set_title(_title(data), fontsize=8, loc="left")
        paths.append(folder / f"{stem}-{name}.png")
        figure.savefig(paths[-1], dpi=150)
        plt.close(figure)
    return paths


def _title(data: dict[str, Any]) -> str:
    environment = data.get("environment", {})
    machine = environment.get("gpu", {}).get("name") or environment.get("cpu", "")
    commit = (environment.get("commit") or {}).get("hash", "")[:10]
    return f"{data['benchmark']}, {data['device']}: {machine} {commit} {environment.get('time', '')}"


def _roofline(axes: Any, data: dict[str, Any]) -> None:
    """A bar of what was reached; a mark for memcpy of the same run, one for the sector limit."""
    cases = data["cases"]
    rows = range(len(cases))
    axes.barh(rows, [c["gb_per_s"]["gputensor"] for c in cases], height=0.6, color=OURS, label="gputensor")
    memcpy = [c["memcpy_gb_per_s"] for c in cases]
    axes.scatter(memcpy, rows, marker="|", s=90, color="#222220", label="memcpy, same run")
    bound = [m * c["bytes"] / c["sector_bytes"] for m, c in zip(memcpy, cases)]
    lower = [(b, r) for b, m, r in zip(bound, memcpy, rows) if b < 0.99 * m]
    if lower:
        axes.scatter(*zip(*lower), marker="|", s=90, color="#c23b3b", label="limit of memory sectors")
    axes.set_xlabel("GB/s, bytes read and written", fontsize=8)


def _ratio(axes: Any, data: dict[str, Any]) -> None:
    """A dot per peer, to the right of 1 where gputensor is faster."""
    for peer, colour in zip(data["peers"], PEERS):
        found = [(c["ratio"][peer], row) for row, c in enumerate(data["cases"]) if peer in c["ratio"]]
        if found:
            axes.scatter(*zip(*found), s=16, color=colour, label=peer)
    axes.set_xscale("log")
    axes.axvline(1, color=LIMIT, linewidth=1)
    axes.set_xlabel("how many times as long the peer takes", fontsize=8)
