"""Picture of a copy: the memory of both operands as cells, the kernel and the reason for it, the
bytes, and the lower bound of the time."""

from __future__ import annotations

from typing import Any

from .plane import UNITS, Plane, Side
from .svg import MARGIN, WIDTH, Picture, width

_PANEL = (WIDTH - 3 * MARGIN) / 2
_CELL, _LINE, _GAP, _HOLE = 24.0, 24.0, 18.0, 5.0
_LABELS = 78  # the width of the address to the left of a line of cells
_TINTS = ("first", "second")
_ROOM = WIDTH - 2 * MARGIN


def draw(picture: Picture, y: float, found: dict[str, Any]) -> tuple[float, list[str]]:
    """Draw a result of `gt.layout.explain`, from y on. Return the y of the lower end, and the texts
    of the steps."""
    if "walk" not in found:
        picture.text(MARGIN, y + 18, f"nothing to copy: {found['why']}", "ink", 13)
        return y + 30, []
    shown = Plane(found)
    y += 22
    ends = [
        _memory(picture, shown, side, left, y)
        for side, left in ((shown.src, MARGIN), (shown.dst, WIDTH / 2 + MARGIN / 2))
    ]
    y = _legend(picture, shown, max(ends) + 22)
    return _choice(picture, found, y + 14), shown.steps


# --- memory ---------------------------------------------------------------------------------------


def _memory(picture: Picture, shown: Plane, side: Side, left: float, top: float) -> float:
    """Draw the memory cells of one operand. Return the y of their lower end."""
    name = {"src": "source", "dst": "destination"}[side.name]
    end = picture.text(left, top, name, "ink bold", 13)
    apart = side.strides[side.along]
    words = f"a line is d{side.along}: {shown.size[side.along]} × {side.item_bytes} B"
    words += "" if apart == side.item_bytes else f", {apart} B apart"
    if not apart:
        words = f"one element of {side.item_bytes} B for all of d{side.along}"
    picture.text(end + 8, top, words, "dim", 12, left + _PANEL - end - 8)
    pitch = max(_CELL, width("0" * shown.digits, 10, "mono") + 8)
    wide = pitch - (0 if abs(apart) == side.item_bytes else _HOLE)
    xs, x_gaps = _places(side.columns, left + _LABELS, pitch)
    ys, y_gaps = _places(side.rows, top + 22, _LINE)
    first_ones: list[tuple[int, float, float]] = []
    for row, y in ys.items():
        label = f"{side.cells[side.columns[0], row].offset_bytes:+d} B"
        picture.text(left + _LABELS - 14, y + 16, label, "dim mono", 10, _LABELS, "end")
        for column, x in xs.items():
            cell = side.cells[column, row]
            kind = _TINTS[cell.tint] if cell.tint < len(_TINTS) else "cell"
            picture.rect(x, y, wide, _LINE, f"{kind} line", 0, cell.steps)
            label = str(cell.number) + "…" * (cell.count > 1)
            picture.text(x + wide / 2, y + 15.5, label, "ink mono", 10, wide, "middle")
            if cell.tint == 0:
                first_ones.append((cell.number, x, y))
        for x in x_gaps:
            picture.text(x, y + 15.5, "…", "dim mono", 10, anchor="middle")
    for y in y_gaps:
        for x in xs.values():
            picture.text(x + wide / 2, y + 4, "⋮", "dim", 11, anchor="middle")
    (_, x, y), (_, to_x, to_y) = min(first_ones), max(first_ones)
    # draw the arrow beside the numbers of the cells, so that it covers none of them
    if side.along == shown.x or shown.found["kernel"] in UNITS:
        x, to_x = (x + 3, to_x + wide - 3) if x <= to_x else (x + wide - 3, to_x + 3)
        picture.path(f"M{x:g} {y - 7:g}H{to_x:g}", "way")
    elif y != to_y:
        y, to_y = (y + 3, to_y + _LINE - 3) if y <= to_y else (y + _LINE - 3, to_y + 3)
        picture.path(f"M{x - 7:g} {y:g}V{to_y:g}", "way")
    return max(ys.values()) + _LINE


def _places(indices: list[int], start: float, pitch: float) -> tuple[dict[int, float], list[float]]:
    """Return the position of each shown index, and the middle of each gap in the indices."""
    places: dict[int, float] = {}
    gaps = []
    for before, index in zip([indices[0], *indices], indices):
        if abs(index - before) > 1:
            gaps.append(start + _GAP / 2)
            start += _GAP
        places[index] = start
        start += pitch
    return places, gaps


def _legend(picture: Picture, shown: Plane, y: float) -> float:
    unit = UNITS.get(shown.found["kernel"], "run of dst")
    x = float(MARGIN)
    tints = {cell.tint for cell in shown.dst.cells.values()}
    for tint, words in enumerate((f"the first {unit}", "the next")):
        if tint not in tints:
            continue
        picture.rect(x, y - 10, 12, 12, f"{_TINTS[tint]} line", 2)
        x = picture.text(x + 18, y, words, "dim") + 14
    picture.text(
        x, y, "equal numbers are one element; they count in the order of dst", "dim",
        room=WIDTH - MARGIN - x,
    )  # fmt: skip
    if len(shown.sizes) > 2:
        y += 18
        words = f"shown are d{shown.x} and d{shown.y}; along the others it is the same again"
        picture.text(MARGIN, y, words, "dim")
    return y


# --- the kernel -----------------------------------------------------------------------------------


def _choice(picture: Picture, found: dict[str, Any], y: float) -> float:
    """Draw a box with the chosen kernel, why it was chosen, the coalesced dimensions, and the
    useful share of the moved bytes. Return the y at which the next part begins."""
    walk = found["walk"]
    top, at = y, len(picture.parts)
    y += 26
    end = picture.text(MARGIN + 14, y, found["kernel"], "blue mono bold", 15)
    picture.text(WIDTH - MARGIN - 14, y, "on a GPU", "dim", anchor="end")
    picture.text(end + 12, y, found["why"], "ink", 13, WIDTH - MARGIN - end - 96)
    y += 18
    for words in (found["how"], found["launch"]):
        picture.text(MARGIN + 14, y + 2, words, "dim", room=_ROOM - 28)
        y += 17
    y += 16
    rows = [("", "size", "dst step", "src step", "")]
    sides = zip(walk["sizes"], walk["dst_stride_bytes"], walk["src_stride_bytes"], found["marks"])
    rows += [(f"d{d}", str(n), f"{to} B", f"{of} B", m) for d, (n, to, of, m) in enumerate(sides)]
    for number, (name, *numbers, mark) in enumerate(rows):
        picture.text(MARGIN + 14, y, name, "ink mono")
        for column, word in enumerate(numbers):
            x, kind = MARGIN + 100 + 110 * column, "ink mono" if number else "dim mono"
            picture.text(x, y, word, kind, 12, 100, "end")
        picture.text(MARGIN + 344, y, mark, "dim", room=_ROOM - 360)
        y += 18
    useful, moved = (sum(found[name].values()) for name in ("bytes", "sector_bytes"))
    long = _ROOM - 28.0
    picture.rect(MARGIN + 14, y + 8, long, 10, "second line", 3)
    picture.rect(MARGIN + 14, y + 8, long * min(1.0, useful / moved), 10, "first line", 3)
    picture.text(MARGIN + 14, y + 36, found["memory"], "dim", room=long)
    y += 48
    picture.rect(MARGIN, top, _ROOM, y - top, "box line", 8, at=at)
    return y + 14
