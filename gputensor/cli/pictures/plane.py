"""The part of a copy that fits on a page: memory cells of both operands, and the copy's steps.

Two dimensions are shown. x is dst's fastest dimension. y is src's fastest dimension, or dst's
second fastest if src's fastest is x. For a long dimension, only the beginning, one edge between
tiles and the end are shown. The module has no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

# The maximum numbers of characters in a line, cells in a line, and cells of a long dimension.
_CHARACTERS, _CELLS, _SHOWN = 45, 11, 8
# Maps a kernel to the name of the unit that it loads completely before it stores it. All other
# kernels copy element by element.
UNITS = {"TILE": "tile", "PACK": "box", "SKINNY": "thread"}

# The indices of an element along x and y, or the column and the row of a cell on a side.
Place = tuple[int, int]


@dataclass(slots=True, eq=False)
class Cell:
    """A square of the picture, which shows the elements at one byte offset.

    number: the number of its first element in dst's order. count: the number of elements that it
    shows. tint: the index of the first box or line that contains it; it selects the colour. steps:
    the steps that touch it.
    """

    number: int
    offset_bytes: int
    tint: int = -1
    count: int = 0
    steps: list[int] = field(default_factory=list)


class Side:
    """The memory of one operand.

    A line shows the elements along dimension `along`; the lines are stacked along dimension
    `across`. columns, rows: the shown indices in the order of their addresses.
    """

    name: str
    item_bytes: int
    along: int
    across: int
    columns: list[int]
    rows: list[int]

    def __init__(self, name: str, plane: Plane, along: int) -> None:
        walk = plane.found["walk"]
        self.name, self.item_bytes = name, int(walk[f"{name}_item_bytes"])
        strides = [*walk[f"{name}_stride_bytes"], 0, 0]
        self.strides: dict[int, int] = {d: int(strides[d]) for d in (plane.x, plane.y)}
        self.along, self.across = along, plane.y if along == plane.x else plane.x
        self.moves: tuple[bool, ...] = tuple(bool(stride) for stride in self.strides.values())
        self.cells: dict[Place, Cell] = {}
        for i, j in plane.places:
            offset_bytes = i * self.strides[plane.x] + j * self.strides[plane.y]
            cell = self.cells.setdefault(self.at((i, j)), Cell(plane.number((i, j)), offset_bytes))
            cell.count += 1
        self.columns, self.rows = (
            sorted({place[n] for place in self.cells}, key=lambda i: i * self.strides[d])
            for n, d in enumerate((self.along, self.across))
        )

    def at(self, place: Place) -> Place:
        """Return the column and the row of an element. Repeated elements (stride 0) share one
        cell."""
        i, j = (index * moves for index, moves in zip(place, self.moves))
        return (i, j) if self.along < self.across else (j, i)


class Plane:
    """The shown part of a copy. found: the result of `gt.layout.explain` for a non-empty copy."""

    x: int
    y: int
    dst: Side
    src: Side

    def __init__(self, found: dict[str, Any]) -> None:
        self.found = found
        self.sizes: list[int] = found["walk"]["sizes"]
        strides = found["walk"]["src_stride_bytes"]
        moving = [d for d, stride in enumerate(strides) if stride]
        fastest = min(moving, key=lambda d: abs(strides[d]), default=0)
        self.x, self.y = dims = 0, fastest or 1
        self.size: dict[int, int] = {d: [*self.sizes, 1, 1][d] for d in dims}
        self.box: dict[int, int] = {d: int([*found["box"], 1, 1][d]) for d in dims}
        last = self.number((self.size[self.x] - 1, self.size[self.y] - 1))
        self.digits: int = len(str(last)) + (0 in strides)  # a dot marks a repeated element
        columns = min(_CELLS, int(_CHARACTERS / (self.digits + 1.3)))
        shown = [_shown(self.size[d], self.box[d], columns) for d in dims]
        self.places: list[tuple[int, int]] = [(i, j) for j in shown[1] for i in shown[0]]
        self.dst, self.src = Side("dst", self, self.x), Side("src", self, fastest)
        self.steps: list[str] = []
        self._walk()

    def number(self, place: Place) -> int:
        """Return the number of an element in dst's order."""
        return place[0] + place[1] * prod(self.sizes[: self.y])

    def _walk(self) -> None:
        """Fill in the steps and the cells' tints, box by box in dst's order."""
        width, height = self.box[self.x], self.box[self.y]
        boxes: dict[Place, list[Place]] = {}
        for i, j in self.places:
            boxes.setdefault((j // height, i // width), []).append((i, j))
        unit, across = UNITS.get(self.found["kernel"]), -(-self.size[self.x] // width)
        lines = sorted({j for j, _ in boxes})
        for rank, ((j, i), places) in enumerate(sorted(boxes.items())):
            if unit is None:
                row = f"row {places[0][1]}" if width > 1 else f"element {self.number(places[0])}"
                self._touch(row, places, (self.src, self.dst), True, lines.index(j))
                continue
            for side in (self.src, self.dst):
                line_bytes = self.size[side.along] * side.item_bytes
                is_whole = self.box[side.along] == self.size[side.along]
                is_one = is_whole and side.strides[side.across] == line_bytes < 64
                cut: dict[int, list[Place]] = {}
                for place in places:
                    line = place[1] if side.along == self.x else place[0]
                    cut.setdefault(0 if is_one else line, []).append(place)
                for _, part in sorted(cut.items()):
                    self._touch(f"{unit} {i + across * j}", part, (side,), is_one, rank)

    def _touch(
        self, who: str, places: list[Place], sides: tuple[Side, ...], is_whole: bool, tint: int
    ) -> None:
        """Add a step in which the kernel reads or writes the cells of a box or of one line of a
        box."""
        words = []
        for side in sides:
            for cell in (side.cells[side.at(place)] for place in places):
                cell.tint = tint if cell.tint < 0 else cell.tint
                if len(self.steps) not in cell.steps:
                    cell.steps.append(len(self.steps))
            nbytes, at = side.item_bytes, side.cells[side.at(places[0])].offset_bytes
            for d in (self.x, self.y) if is_whole else (side.along,):
                index, stride = places[0][d != self.x], side.strides[d]
                begin = index // self.box[d] * self.box[d]
                count = min(self.box[d], self.size[d] - begin) if stride else 1
                nbytes *= count
                at += (begin - index) * stride + min(0, (count - 1) * stride)
            verbs = ("read", "write") if len(sides) == 2 else ("load", "store")
            words.append(f"{verbs[side is self.dst]} {nbytes} B of {side.name} at {at:+d} B")
        self.steps.append(f"{who}: {', '.join(words)}")


def _shown(size: int, box: int, columns: int) -> list[int]:
    """Return the indices to show: all if they fit, otherwise indices at the beginning, at the edge
    of the first box, and at the end."""
    if size <= columns:
        return list(range(size))
    room = min(columns, _SHOWN)
    if not 1 < box < size:
        return [*range(room - 1), size - 1]
    edge = {box - 1, box, min(2 * box, size) - 1, size - 1}
    return sorted({*range(min(room - len(edge), box)), *edge})
