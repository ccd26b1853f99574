"""Short cut functions for views, on any device; see forms.py."""

from __future__ import annotations

from ..text import indent, wrap
from .parts import LONG_WAY, RECORDED, SIZES, each, form, ints, unless


def made(geometry: str, offset: str) -> list[str]:
    return [
        "storage = self._storage",
        "if storage is None:",
        "    storage = self._get_storage()",
        "tensor = blank()",
        f"tensor._geometry = {geometry}",
        "tensor._keys = keys",
        "tensor._device = self._device",
        "tensor._storage = storage",
        f"tensor._offset = self._offset{offset}",
        "tensor._array = None",
    ]


# Lines that find the base of a view of a tensor without history. Callers append the block of the
# `elif`, which records the view of a tensor with a history.
BASE = [
    "base = self._autograd",
    "if base is None:",
    "    base = self",
    "elif type(base) is not Tensor or base._autograd is not None:",
]


def seen_of(geometry: str, offset: str, is_tracked: str = "unrecorded") -> list[str]:
    """Return lines that make the view and track its base, as ADInplaceOrView does."""
    return [
        *made(geometry, offset),
        f"if {is_tracked}:",
        "    tensor._autograd = None",
        "    return _track(self, tensor)",
        "tensor._autograd = base",
        "return tensor",
    ]


def view(name: str = "view", n: int | None = None) -> list[str]:
    """Return the form of a view. n: the number of sizes or dimensions to check; None if there is no
    such argument."""
    doc = "(self, size), with these keys -> a view that keeps the offset."
    closed, setup = ["geometry", "keys", "known"], list[str]()
    if n:
        closed.append("sizes")
        setup = [f"{', '.join(each('{}0', SIZES[:n]))}{',' * (n == 1)} = sizes"]
    checks = [] if n is None else ints(n or None)
    given = ["self", "size=()" if n is None else "size"]
    return form(name, closed, doc, setup, given, [
        *checks,
        "now = _now()",
        *unless("self._keys is not keys"),
        "if now is PLAIN or now is FUSING and _in_block[0](self):",
        *indent([*BASE, "    return known(self)"]),
        "elif now is BELOW:  # below autograd, which does not see this view",
        "    base = None",
        "else:",
        LONG_WAY,
        *seen_of("geometry", "", "unrecorded and base is not None"),
    ])  # fmt: skip


def recorded() -> list[str]:
    doc = "self with a history and checked keys -> a view with its history."
    closed, setup = ["geometry", "keys", "around", "by"], ["begin, finish = around"]
    return form("recorded", closed, doc, setup, ["self"], [
        "node = begin(self)",
        *unless("node is LONG"),
        *made("geometry", " + by"),
        "tensor._autograd = None",
        "tensor = _track(self, tensor)",
        RECORDED,
    ])  # fmt: skip


def views() -> list[str]:
    """Return the source text of VIEWS, a tuple with one view form for each number of sizes."""
    names = each("view_{}", range(1, len(SIZES) + 1))
    return wrap("VIEWS = (", names, ")")


def part() -> list[str]:
    doc = (
        "(self, index) -> the part at an index of a dimension; negative indices count from the end."
    )
    closed = ["geometry", "last", "size", "stride", "keys", "known"]
    return form("part", closed, doc, (), ["self", "index"], [
        *unless("type(index) is not int"),
        "at = index + size if index < 0 else index",
        *unless("not 0 <= at <= last", "self._keys is not keys", "_now() is not PLAIN"),
        *BASE,
        "    return known(self, geometry, at * stride, index)",
        *seen_of("geometry", " + at * stride"),
    ])  # fmt: skip


def stretch() -> list[str]:
    doc = "(self, start, end) -> a slice of a dimension. A new length uses the full dispatch."
    setup = ["size, stride, known = shape.sizes[dim], shape.strides[dim], shape.views"]
    closed = ["shape", "dim", "step", "keys", "record"]
    return form("stretch", closed, doc, setup, ["self", "start", "end"], [
        *unless("self._keys is not keys", "_now() is not PLAIN"),
        "given = start, end",
        "if start is None:",
        "    start = 0",
        "elif type(start) is not int:",
        LONG_WAY,
        "elif start < 0:",
        "    start = start + size if start > -size else 0",
        "elif start > size:",
        "    start = size",
        "if end is None:",
        "    end = size",
        "elif type(end) is not int:",
        LONG_WAY,
        "else:",
        "    if end < 0:",
        "        end += size",
        "    elif end > size:",
        "        end = size",
        "    if end < start:",
        "        end = start",
        'seen = known.get(("slice", dim, (end - start + step - 1) // step, step))',
        *unless("seen is None"),
        *BASE,
        "    return record(self, seen.value, start * stride, *given)",
        *seen_of("seen.value", " + start * stride"),
    ])  # fmt: skip
