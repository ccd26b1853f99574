"""Picture of a view: the coalesced dimensions, and below them the requested sizes."""

from __future__ import annotations

from typing import Any

from .svg import MARGIN, WIDTH, Picture

_HEIGHT, _GAP = 40, 8


def draw(picture: Picture, y: float, found: dict[str, Any]) -> float:
    """Draw the coalesced dimensions. If the view is possible, draw its sizes below them. Return the
    y of the lower end."""
    total = len(found["in"]["sizes"])
    room = WIDTH - 2 * MARGIN - _GAP * (len(found["runs"]) - 1)
    cuts = _cuts(found)
    x, picture_y = float(MARGIN), y + 8
    for run, cut in zip(found["runs"], cuts):
        wide = room * len(run["dims"]) / total
        sizes = " × ".join(str(found["in"]["sizes"][d]) for d in run["dims"])
        picture.rect(x, picture_y, wide, _HEIGHT, "first line")
        apart = f"{run['numel']} elements, {run['stride']} apart"
        _words(picture, x, picture_y, wide, sizes, apart)
        part = wide / max(1, len(cut))
        for number, (size, stride) in enumerate(cut):
            at = x + part * number
            picture.rect(at, picture_y + _HEIGHT, part, _HEIGHT, "cell line")
            _words(picture, at, picture_y + _HEIGHT, part, str(size), f"{stride} apart")
        x += wide + _GAP
    return picture_y + _HEIGHT * (2 if found["out"] else 1)


def _words(picture: Picture, x: float, y: float, wide: float, above: str, below: str) -> None:
    picture.text(x + wide / 2, y + 17, above, "ink mono bold", 12, wide - 8, "middle")
    picture.text(x + wide / 2, y + 33, below, "dim", 11, wide - 8, "middle")


def _cuts(found: dict[str, Any]) -> list[list[tuple[int, int]]]:
    """Return the view's (size, stride) pairs, grouped by the coalesced dimension that they
    split."""
    if found["out"] is None:
        return [[] for _ in found["runs"]]
    dims = list(zip(found["out"]["sizes"], found["out"]["strides"]))
    cuts = []
    for run in found["runs"]:
        cut: list[tuple[int, int]] = []
        left, is_last = run["numel"], run is found["runs"][-1]
        while dims and (left > 1 or is_last):
            cut.append(dims.pop(0))
            left //= max(1, cut[-1][0])
        cuts.append(cut)
    return cuts
