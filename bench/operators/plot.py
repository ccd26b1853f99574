"""Plot of the benchmark `operators`: one line per family, with a dot for each call and a bar for
the mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..measurement import timing
from ..records import plots, record
from .totals import LEAST, families

_ROW, _ABOVE, _BELOW, _WIDTH, _LEFT = 0.3, 0.85, 0.55, 8.6, 0.29


def draw(data: dict[str, Any], folder: Path) -> list[Path]:
    """Write `operators-cpu-ratio.png` and return its path. Raises: ImportError if matplotlib is
    missing."""
    ratios = {
        family: [case["ratio"]["torch"] for case in of if "torch" in case["ratio"]]
        for family, of in families(data).items()
    }
    ratios = {family: of for family, of in ratios.items() if of}
    if not ratios:
        return []
    plt = plots.pyplot()
    height = _ROW * len(ratios) + _ABOVE + _BELOW
    with plt.rc_context(plots.STYLE):
        figure = plt.figure(figsize=(_WIDTH, height), facecolor="white")
        box = (_LEFT, _BELOW / height, 0.965 - _LEFT, _ROW * len(ratios) / height)
        _paint(figure.add_axes(box), ratios)
        count = sum(map(len, ratios.values()))
        title = f"{count} calls by family: how many times as long PyTorch takes"
        for text, inches, style in (
            (title, 0.26, {"fontsize": 11.5, "fontweight": "bold"}),
            (plots.machine(data), 0.54, {"fontsize": 8, "color": plots.MUTED}),
        ):
            figure.text(0.02, 1 - inches / height, text, va="center", **style)
        path = folder / f"{record.stem(data)}-ratio.png"
        plots.save(figure, path)
        plt.close(figure)
    return [path]


def _paint(axes: Any, ratios: dict[str, list[float]]) -> None:
    for y, of in enumerate(ratios.values()):
        mean = timing.geomean(of)
        axes.barh(y, mean - 1, left=1, height=0.62, color=plots.ROOF, zorder=1)
        axes.scatter(of, [y] * len(of), s=14, color=plots.OURS, alpha=0.6, linewidths=0, zorder=3)
        axes.vlines(mean, y - 0.31, y + 0.31, color=plots.INK, linewidth=2, zorder=4)
    found = [ratio for of in ratios.values() for ratio in of]
    low, high = min(0.4, 0.85 * min(found)), max(2.2, 1.2 * max(found))
    axes.set_yticks(range(len(ratios)), [f"{name} ({len(of)})" for name, of in ratios.items()],
                    fontsize=8)  # fmt: skip
    axes.set_ylim(len(ratios) - 0.4, -0.6)
    plots.ratio_axis(axes, low, high)
    axes.axvline(LEAST, color=plots.LIMIT, linewidth=1, zorder=2)
    axes.set_xlabel("time of PyTorch by gputensor's: right of 1× gputensor is faster", fontsize=8.5)
