"""Picture of the demonstration: the photograph before and after the conversion, the order of its
elements in memory, and the time of each library."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from gputensor.cli.output import BAD_INPUT, Refusal, brackets

INK, MUTED, LINE = "#22262b", "#6b7078", "#c9ced6"
CHANNELS = (("R", "#d64545"), ("G", "#3a9b4e"), ("B", "#3b6fd4"))
LIBRARIES = {"gputensor": "#1f6fd0", "PyTorch": "#e07a4f", "NumPy": "#7fa8b3", "CuPy": "#7db38a"}
# Maps the steps whose times are drawn to their labels.
TIMED = {
    "packed": "uint8 NHWC to normalised\nfloat32 NCHW",
    "nchw": "NHWC to NCHW, float32",
    "channels_last": "NCHW to channels_last",
    "cropped": "a crop of channels_last,\nmade contiguous",
}
# The number of pixels whose order in memory is drawn, and the size of the picture in inches.
_PIXELS, _SIZE = 8, (12.0, 9.4)


def require() -> None:
    """Raise an error if the picture cannot be drawn. This is called before the long computation."""
    if find_spec("matplotlib") is None:
        raise Refusal(
            "the picture is drawn with matplotlib; run: pip install 'gputensor[demo]'", BAD_INPUT
        )


def draw(report: dict[str, Any], image: np.ndarray, planes: np.ndarray) -> np.ndarray:
    """Draw the picture and return its pixels. image: (H, W, C) uint8. planes: (C, H, W) float32, a
    model's input."""
    matplotlib = import_module("matplotlib")
    matplotlib.use("Agg")
    plt = import_module("matplotlib.pyplot")
    with plt.rc_context({"font.family": "DejaVu Sans", "text.color": INK, "font.size": 9}):
        figure = plt.figure(figsize=_SIZE, dpi=130, facecolor="white")
        rows = {row["name"]: row for row in report["steps"]}
        _images(figure, rows, image, planes)
        _memory(figure, image, rows)
        _times(figure, report, rows)
        figure.canvas.draw()
        drawn = np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()
        plt.close(figure)
    return drawn


def _head(figure: Any, y: float, title: str, rest: str) -> None:
    text = figure.text(0.03, y, title, fontsize=12.5, fontweight="bold", va="center")
    figure.canvas.draw()
    end = text.get_window_extent().transformed(figure.transFigure.inverted()).x1
    figure.text(end + 0.012, y, rest, fontsize=9.5, color=MUTED, va="center")


def _layout(row: dict[str, Any]) -> str:
    sizes, strides = brackets(row["sizes"]), brackets(row["strides"])
    return f"{row['dtype']}  sizes {sizes}  strides {strides}"


# --- before and after -----------------------------------------------------------------------------


def _images(figure: Any, rows: dict[str, Any], image: np.ndarray, planes: np.ndarray) -> None:
    of = f"the first of {rows['raw']['sizes'][0]}; each plane is a channel"
    _head(figure, 0.965, "A photograph becomes a model's input", of)
    tall, gap, between = 0.31, 0.008, 0.085
    slim = _SIZE[1] / _SIZE[0] * image.shape[1] / image.shape[0]
    wide = min((0.94 - between - 2 * gap) / 4, tall * slim)
    axes = figure.add_axes((0.03, 0.585, wide, tall), anchor="NW")
    axes.imshow(image)
    _caption(figure, 0.03, "before: pixels of three numbers each", _layout(rows["raw"]))
    left = 0.03 + wide + between
    middle = 0.585 + tall - min(tall, wide / slim) / 2
    figure.text(left - between / 2, middle, "gt.layout.pack\n⟶\none pass", ha="center", va="center")
    for n, ((name, colour), plane) in enumerate(zip(CHANNELS, planes)):
        axes_of = figure.add_axes((left + n * (wide + gap), 0.585, wide, tall), anchor="NW")
        shades = import_module("matplotlib.colors").LinearSegmentedColormap.from_list(
            name, ["black", colour, "white"]
        )
        axes_of.imshow(plane, cmap=shades)
        axes_of.text(
            0.04, 0.96, name, transform=axes_of.transAxes, va="top", fontsize=13, color="white",
            fontweight="bold",
        )  # fmt: skip
        _bare(axes_of)
    _bare(axes)
    _caption(figure, left, "after: three planes of normalised numbers", _layout(rows["packed"]))


def _caption(figure: Any, x: float, title: str, layout: str) -> None:
    figure.text(x, 0.925, title, fontsize=10, fontweight="bold", va="center")
    figure.text(x, 0.904, layout, fontsize=8, color=MUTED, va="center", family="DejaVu Sans Mono")


def _bare(axes: Any) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color(LINE)


# --- the order in memory --------------------------------------------------------------------------


def _memory(figure: Any, image: np.ndarray, rows: dict[str, Any]) -> None:
    """Draw eight pixels of a row. For each channel, show the positions in memory before and after
    the conversion."""
    _head(
        figure, 0.535, "The order in memory",
        "the same pixels of a row: pixel after pixel before, channel after channel after",
    )  # fmt: skip
    axes = figure.add_axes((0.03, 0.335, 0.94, 0.175))
    count = min(_PIXELS, image.shape[1])
    row = image[image.shape[0] // 3]
    begin = max(0, (image.shape[1] - count) // 2)
    pixels = row[begin : begin + count]
    # each of the two gaps stands for the pixels of a plane that are not drawn
    width = 3 * count + 2.4
    before = [(n, c, 1.2 + 3 * n + c) for n in range(count) for c in range(3)]
    after = {(n, c): c * (count + 1.2) + n for n in range(count) for c in range(3)}
    for n, c, x in before:
        letter, colour = CHANNELS[c]
        to = after[n, c]
        axes.plot(
            [x + 0.5, x + 0.5, to + 0.5, to + 0.5], [2.0, 1.88, 1.12, 1.0], color=colour, lw=0.9,
            alpha=0.55, zorder=1,
        )  # fmt: skip
        for at, y in ((x, 2.0), (to, 0.2)):
            axes.add_patch(_cell(at, y, colour, 0.25 + 0.75 * int(pixels[n, c]) / 255))
            axes.text(
                at + 0.5, y + 0.4, f"{letter}{n}", ha="center", va="center", fontsize=8,
                color="white", fontweight="bold",
            )  # fmt: skip
    for c in (1, 2):
        axes.text(c * (count + 1.2) - 0.6, 0.6, "⋯", ha="center", va="center", color=MUTED)
    names = ("raw", "NHWC"), ("packed", "NCHW")
    for y, title, (name, order) in zip((2.4, 0.6), ("before", "after"), names):
        step = dict(zip(order, rows[name]["strides"]))
        axes.text(-0.4, y + 0.16, title, ha="right", va="center", fontsize=9.5, fontweight="bold")
        axes.text(
            -0.4, y - 0.22, f"W steps {step['W']}, C {step['C']}", ha="right", va="center",
            fontsize=7.5, color=MUTED,
        )  # fmt: skip
    axes.set_xlim(-3.6, width + 0.2)
    axes.set_ylim(0.05, 2.95)
    axes.set_axis_off()


def _cell(x: float, y: float, colour: str, depth: float) -> Any:
    """Return a filled rectangle for one element. depth: the factor by which the colour's brightness
    is multiplied, so that small elements are darker."""
    rgb = np.array(import_module("matplotlib.colors").to_rgb(colour)) * depth
    patches = import_module("matplotlib.patches")
    return patches.Rectangle((x + 0.04, y), 0.92, 0.8, facecolor=rgb, edgecolor="none", zorder=2)


# --- times ----------------------------------------------------------------------------------------


def _times(figure: Any, report: dict[str, Any], rows: dict[str, Any]) -> None:
    names = [x["name"] for x in report["libraries"]]
    batch = f"a batch of {report['batch'][0]}, {report['threads']} threads"
    if report["is_emulated"]:
        _head(figure, 0.285, "No times", "the device is emulated: it checks results, not speed")
        return
    _head(
        figure, 0.285, "How long", f"milliseconds on {report['device']}, {batch}; shorter is faster"
    )
    axes = figure.add_axes((0.19, 0.045, 0.78, 0.205))
    steps = [rows[name] for name in TIMED]
    high = 0.8 / len(names)
    most = max(s for row in steps for s in row["seconds"].values())
    for k, row in enumerate(steps):
        for n, name in enumerate(names):
            ms = 1e3 * row["seconds"][name]
            y = k - 0.4 + high * (n + 0.5)
            colour, label = LIBRARIES[name], name if k == 0 else None
            axes.barh(y, ms, height=0.9 * high, color=colour, label=label)
            ratio = row["seconds"][name] / row["seconds"]["gputensor"]
            said = f"{ms:.3g}" + ("" if name == "gputensor" else f"   {ratio:.1f}×")
            axes.text(ms + 0.006e3 * most, y, said, va="center", fontsize=7.5, color=INK)
    axes.set_yticks(range(len(steps)), list(TIMED.values()), fontsize=9)
    axes.set_ylim(len(steps) - 0.45, -0.55)
    axes.set_xlim(0, 1.12e3 * most)
    axes.tick_params(axis="y", length=0)
    axes.set_xticks([])
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(LINE)
    axes.legend(loc="lower right", frameon=False, fontsize=9)
