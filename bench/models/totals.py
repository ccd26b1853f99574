"""Summary of the models' measurements: means, budgets, table and plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..measurement import timing
from ..records import plots, record, tables

# Budgets: our time / PyTorch's (geometric mean, worst model), our memory / PyTorch's (worst model).
MEAN, WORST, MEMORY = 1.1, 1.5, 0.5
# Budgets by kind of layer: PyTorch's time / ours (geometric mean, worst layer).
LAYERS = {"convolutions": (0.9, 0.6), "attention": (1.0, 0.6), "recurrent layers": (1.0, 0.6)}

Case = dict[str, Any]


def _models(data: dict[str, Any]) -> list[Case]:
    return [case for case in data["cases"] if "peak_bytes" in case]


def _of_kind(data: dict[str, Any], kind: str) -> list[Case]:
    return [case for case in data["cases"] if case["kind"] == kind]


def _mean(cases: list[Case], peer: str) -> float | None:
    ratios = [case["ratio"][peer] for case in cases if peer in case["ratio"]]
    return timing.geomean(ratios) if ratios else None


def summary(data: dict[str, Any]) -> dict[str, float]:
    """Return geometric means of the peers' times divided by ours, for models and for each kind of
    layer, and the largest ratio of our memory to PyTorch's."""
    found = {f"geomean_vs_{peer}": _mean(_models(data), peer) for peer in data["peers"]}
    found |= {f"{kind}_vs_torch": _mean(_of_kind(data, kind), "torch") for kind in LAYERS}
    found["memory_worst"] = max(map(memory, _models(data)), default=None)
    return {name: value for name, value in found.items() if value is not None}


def memory(case: Case) -> float:
    """Return our resident memory divided by PyTorch's."""
    return float(case["peak_bytes"]["gputensor"] / case["peak_bytes"]["torch"])


def failures(data: dict[str, Any]) -> list[str]:
    """Return a sentence for each budget that the record misses."""
    found: list[str] = []
    mean = _mean(_models(data), "torch")
    if mean is not None and 1 / mean > MEAN:
        found.append(f"the models take {1 / mean:.2f} of PyTorch's time in the mean, not {MEAN}")
    for case in _models(data):
        if 1 / case["ratio"].get("torch", 1.0) > WORST:
            taken = 1 / case["ratio"]["torch"]
            found.append(f"{case['name']} takes {taken:.2f} of PyTorch's time, not {WORST}")
        if memory(case) > MEMORY:
            found.append(f"{case['name']} has {memory(case):.2f} of its memory, not {MEMORY}")
    for kind, (least_mean, least) in LAYERS.items():
        cases = _of_kind(data, kind)
        mean = _mean(cases, "torch")
        if mean is not None and mean < least_mean:
            found.append(f"{kind} have {mean:.2f} of PyTorch's speed in the mean, not {least_mean}")
        for case in cases:
            ratio = case["ratio"].get("torch", least)
            if ratio < least:
                found.append(f"{case['name']} has {ratio:.2f} of PyTorch's speed, not {least}")
    return found


def report(data: dict[str, Any]) -> str:
    """Return tables of models and layers: milliseconds, the peers' times divided by ours, and
    memory."""
    parts = [brief(data)]
    if any(_of_kind(data, kind) for kind in LAYERS):
        head = ["layer", "ms", "PyTorch ms", "× PyTorch"]
        rows = []
        for kind in LAYERS:
            cases = _of_kind(data, kind)
            rows += [
                [case["name"], _ms(case, "gputensor"), _ms(case, "torch"), _ratio(case, "torch")]
                for case in cases
            ]
            rows += _mean_row(kind, ["", ""], [_mean(cases, "torch")])
        parts.append(tables.table(head, rows, left=1))
    lines = [
        f"No figures of {tables.NAMES[peer]} for {case['name']} ({why})."
        for case in data["cases"]
        for peer, why in case["skipped"].items()
    ]
    parts.append("\n".join(f"- {line}" for line in lines))
    return "\n\n".join(part for part in parts if part)


def brief(data: dict[str, Any]) -> str:
    """Return the table of the models."""
    peers = data["peers"]
    head = [
        "model", "ms", *(f"{tables.NAMES[peer]} ms" for peer in peers),
        *(f"× {tables.NAMES[peer]}" for peer in peers), "MiB", "PyTorch MiB",
    ]  # fmt: skip
    rows = [
        [
            case["name"], *(_ms(case, lib) for lib in ("gputensor", *peers)),
            *(_ratio(case, peer) for peer in peers),
            *(f"{case['peak_bytes'][lib] / (1 << 20):.0f}" for lib in ("gputensor", "torch")),
        ]
        for case in _models(data)
    ]  # fmt: skip
    means = [_mean(_models(data), peer) for peer in peers]
    rows += _mean_row("geometric mean", [""] * (1 + len(peers)), means, ["", ""])
    lines = [
        f"{data['threads']} threads for each library; × is how many times as long the peer takes. "
        "MiB: the largest resident memory of a fresh process that uses the library."
    ]
    if data["scale"] > 1:
        lines.append("The models are small ones, to try things out (--scale).")
    lines += [f"Skipped: {tables.NAMES[peer]} ({why})." for peer, why in data["skipped"].items()]
    return "\n\n".join([tables.table(head, rows, left=1), "\n".join(f"- {x}" for x in lines)])


def _mean_row(
    name: str, before: list[str], means: Sequence[float | None], behind: Sequence[str] = ()
) -> list[list[str]]:
    cells = [tables.NO_FIGURE if mean is None else f"**{mean:.2f}**" for mean in means]
    return [[f"**{name}**", *before, *cells, *behind]] if any(means) else []


def _ms(case: dict[str, Any], library: str) -> str:
    ns = case["ns"].get(library)
    return tables.NO_FIGURE if ns is None else f"{ns / 1e6:.3g}" if ns < 1e9 else f"{ns / 1e6:.0f}"


def _ratio(case: dict[str, Any], peer: str) -> str:
    return f"{case['ratio'][peer]:.2f}" if peer in case["ratio"] else tables.NO_FIGURE


# Heights in inches: of a case, above the axes, below the axes. Then the plot's width in inches, and
# the share of the width that is left of the axes.
_ROW, _ABOVE, _BELOW, _WIDTH, _LEFT = 0.24, 0.95, 0.55, 8.6, 0.31


def draw(data: dict[str, Any], folder: Path) -> list[Path]:
    """Write `models-cpu-ratio.png` and return its path. Raises: ImportError if matplotlib is
    missing."""
    cases = [case for case in _models(data) if case["ratio"]]
    if not cases:
        return []
    plt = plots.pyplot()
    height = _ROW * len(cases) + _ABOVE + _BELOW
    with plt.rc_context(plots.STYLE):
        figure = plt.figure(figsize=(_WIDTH, height), facecolor="white")
        box = (_LEFT, _BELOW / height, 0.965 - _LEFT, _ROW * len(cases) / height)
        axes = figure.add_axes(box)
        _paint(axes, cases, data["peers"])
        figure.legend(loc="upper right", ncols=2, fontsize=8, frameon=False)
        for text, inches, style in (
            ("Eight models: how many times as long each library takes", 0.26,
             {"fontsize": 11.5, "fontweight": "bold"}),
            (plots.machine(data), 0.54, {"fontsize": 8, "color": plots.MUTED}),
        ):  # fmt: skip
            figure.text(0.02, 1 - inches / height, text, va="center", **style)
        path = folder / f"{record.stem(data)}-ratio.png"
        plots.save(figure, path)
        plt.close(figure)
    return [path]


def _paint(axes: Any, cases: list[dict[str, Any]], peers: list[str]) -> None:
    found = [ratio for case in cases for ratio in case["ratio"].values()]
    for peer in peers:
        points = [(c["ratio"][peer], y) for y, c in enumerate(cases) if peer in c["ratio"]]
        if points:
            colour, marker = plots.PEERS[peer]
            axes.scatter(*zip(*points), s=26, color=colour, marker=marker,
                         label=tables.NAMES[peer], zorder=3)  # fmt: skip
    axes.set_yticks(range(len(cases)), [case["name"] for case in cases], fontsize=8)
    axes.set_ylim(len(cases) - 0.4, -0.6)
    plots.ratio_axis(axes, min(0.5, 0.85 * min(found)), max(2.2, 1.25 * max(found)))
    axes.axvline(1 / WORST, color=plots.LIMIT, linewidth=1, zorder=2)
    axes.set_xlabel("time of the peer by gputensor's: right of 1× gputensor is faster",
                    fontsize=8.5)  # fmt: skip
