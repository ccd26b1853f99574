"""A copy's walk cut to what a page can show: cells of both memories, and the steps over them.

Shown are two dimensions: x, along which dst runs, and y, along which src does (the next one where
both run along x). Of a long one the beginning, an edge of a tile and the end are shown. Pure data.
"""

from __future__ import annotations

from math import prod
from typing import Any

_CHARACTERS, _CELLS, _SHOWN = 45, 11, 8  # of a line; of a dimension that is too long
# What loads all before it stores; the others write at once what they read.
UNITS = {"TILE": "tile", "PACK": "box", "SKINNY": "thread"}

Place = tuple[int, int]  # indices along x and y


class Cell:
    """number: of the element in dst's order. tint: 0 moves first, 1 next. steps: that touch it."""

    def __init__(self, number: int, offset_bytes: int) -> None:
        self.number, self.offset_bytes = number, offset_bytes
        self.tint, self.count = -1, 0
        self.steps: list[int] = []


class Side:
    """One operand's memory: lines of `along`, one below the other along `across`.

    columns, rows: the indices that are shown, by rising address.
    """

    def __init__(self, name: str, plane: Plane, along: int) -> None:
        walk = plane.found["walk"]
        self.name, self.strides = name, walk[f"{name}_stride_bytes"]
        self.item_bytes = walk[f"{name}_item_bytes"]
        self.along, self.across = along, plane.y if along == plane.x else plane.x
        self.columns, self.rows = (self._shown(plane, d) for d in (self.along, self.across))
        self.cells: dict[Place, Cell] = {}
        for column in self.columns:
            for row in self.rows:
                at = plane.place(self, column, row)
                offset_bytes = sum(i * self.stride(d) for i, d in zip(at, (plane.x, plane.y)))
                self.cells[at] = Cell(plane.number(at), offset_bytes)

    def stride(self, dim: int) -> int:
        return int(self.strides[dim]) if dim < len(self.strides) else 0

    def is_dense_across(self, plane: Plane) -> bool:
        """True if a box's lines of this side follow on each other."""
        line_bytes = plane.size(self.along) * self.item_bytes
        whole = plane.box(self.along) == plane.size(self.along)
        return whole and self.stride(self.across) == line_bytes and line_bytes < 64

    def _shown(self, plane: Plane, dim: int) -> list[int]:
        stride = self.stride(dim)
        return sorted(plane.shown[dim], key=lambda i: i * stride) if stride else [0]

    def cell(self, plane: Plane, place: Place) -> Cell:
        """Of an element; one that is repeated lies in one cell."""
        x, y = (i if self.stride(d) else 0 for i, d in zip(place, (plane.x, plane.y)))
        return self.cells[x, y]


class Plane:
    """found: what `gt.layout.explain` says, of a copy that has elements."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.found = found
        sizes, src = found["walk"]["sizes"], found["walk"]["src_stride_bytes"]
        self.sizes = sizes
        moving = [d for d in range(len(sizes)) if src[d]]
        fastest = min(moving, key=lambda d: abs(src[d]), default=0)
        self.x, self.y = 0, fastest or 1
        last = self.number((self.size(self.x) - 1, self.size(self.y) - 1))
        self.digits = len(str(last)) + (0 in src)  # dots stand for what is repeated
        columns = min(_CELLS, int(_CHARACTERS / (self.digits + 1.3)))
        self.shown = {d: _shown(self.size(d), self.box(d), columns) for d in (self.x, self.y)}
        self.dst = Side("dst", self, self.x)
        self.src = Side("src", self, fastest)
        self.steps: list[str] = []
        self._walk()

    def size(self, dim: int) -> int:
        return int(self.sizes[dim]) if dim < len(self.sizes) else 1

    def box(self, dim: int) -> int:
        return int(self.found["box"][dim]) if dim < len(self.sizes) else 1

    def number(self, place: Place) -> int:
        """Of an element, counted in dst's order."""
        return place[0] + place[1] * int(prod(self.sizes[: self.y]))

    def place(self, side: Side, column: int, row: int) -> Place:
        return (column, row) if side.along == self.x else (row, column)

    def _walk(self) -> None:
        """The steps, and with them the tints: box after box, in dst's order."""
        width, height = self.box(self.x), self.box(self.y)
        boxes: dict[Place, list[Place]] = {}
        for j in self.shown[self.y]:
            for i in self.shown[self.x]:
                boxes.setdefault((j // height, i // width), []).append((i, j))
        unit, across = UNITS.get(self.found["kernel"]), -(-self.size(self.x) // width)
        lines = sorted({j for j, _ in boxes})
        for rank, ((j, i), places) in enumerate(sorted(boxes.items())):
            if unit is None:
                row = f"row {places[0][1]}" if width > 1 else f"element {self.number(places[0])}"
                both = (self.x, self.y)
                self._touch(row, places, {self.src: both, self.dst: both}, lines.index(j))
                continue
            for side in (self.src, self.dst):
                name = f"{unit} {i + across * j}"
                if side.is_dense_across(self):
                    self._touch(name, places, {side: (self.x, self.y)}, rank)
                    continue
                fixed = 1 if side.along == self.x else 0
                for line in sorted({place[fixed] for place in places}):
                    on_it = [place for place in places if place[fixed] == line]
                    self._touch(name, on_it, {side: (side.along,)}, rank)

    def _touch(
        self, who: str, places: list[Place], sides: dict[Side, tuple[int, ...]], tint: int
    ) -> None:
        """A step: elements of sides, each with the dimensions over which it goes in the box."""
        words = []
        for side, dims in sides.items():
            for cell in (side.cell(self, place) for place in places):
                cell.tint = tint if cell.tint < 0 else cell.tint
                cell.count += 1
                if len(self.steps) not in cell.steps:
                    cell.steps.append(len(self.steps))
            nbytes, at = side.item_bytes, side.cell(self, places[0]).offset_bytes
            for d in dims:
                index, stride = places[0][d != self.x], side.stride(d)
                begin = index // self.box(d) * self.box(d)
                count = min(self.box(d), self.size(d) - begin) if stride else 1
                nbytes *= count
                at += (begin - index) * stride + min(0, (count - 1) * stride)
            verbs = ("read", "write") if len(sides) == 2 else ("load", "store")
            words.append(f"{verbs[side is self.dst]} {nbytes} B of {side.name} at {at:+d} B")
        self.steps.append(f"{who}: {', '.join(words)}")


def _shown(size: int, box: int, columns: int) -> list[int]:
    """The indices to show: all that fit, else the beginning, the edge of the first box, the end."""
    if size <= columns:
        return list(range(size))
    room = min(columns, _SHOWN)
    if not 1 < box < size:
        return [*range(room - 1), size - 1]
    edge = {box - 1, box, min(2 * box, size) - 1, size - 1}
    return sorted({*range(min(room - len(edge), box)), *edge})
