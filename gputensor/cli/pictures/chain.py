"""Picture of chains of `gt.fuse`: the memory traffic of separate operators and of one fused
kernel."""

from __future__ import annotations

import html
from typing import Any

from .svg import MARGIN, WIDTH, Picture, width

_LEFT, _RIGHT = MARGIN, WIDTH / 2 + 16  # x of the separate operators, and x of the chain
_NAME, _BAR, _ROW, _PAD = 180.0, 150.0, 22.0, 12.0
_INSIDE = WIDTH - MARGIN - _RIGHT - 2 * _PAD


def draw(title: str, found: dict[str, Any]) -> str:
    """Return the picture of a result of `gt.fuse.explain` as SVG."""
    picture = Picture(title, "Bytes read and written by each operator alone, and by the chains.")
    total = f"{_plural(found['operators'], 'kernel')}, {_bytes(found['bytes_apart'])}"
    fused = f"{_plural(len(found['chains']), 'kernel')}, {_bytes(found['bytes_moved'])}"
    y = picture.head([f"one by one: {total}", f"fused: {fused}"]) + 14
    x = _legend(picture, MARGIN, y, "first", "read from memory")
    _legend(picture, x, y, "second", "written to memory")
    rows = [row for chain in found["chains"] for row in (*chain["operators"], *_ends(chain))]
    most = max([row["bytes_read"] + row["bytes_written"] for row in rows], default=1) or 1
    for number, chain in enumerate(found["chains"]):
        y = _chain(picture, y + 34, number, chain, _BAR / most)
    return picture.svg(y + 20)


def steps(found: dict[str, Any]) -> list[str]:
    """Return HTML for each chain."""
    return [
        f"chain {number}: {_plural(len(chain['operators']), 'operator')}, "
        f"{_bytes(chain['bytes_moved'])} in place of {_bytes(chain['bytes_apart'])}; "
        f"it ran as {html.escape(chain['why'])}"
        for number, chain in enumerate(found["chains"])
    ]  # fmt: skip


def _chain(picture: Picture, y: float, number: int, chain: dict[str, Any], scale: float) -> float:
    """Draw one chain in two columns, from y on. Return the y of the lower end."""
    sizes = " × ".join(map(str, chain["sizes"])) or "one element"
    words = f"chain {number}: {sizes} on {chain['device']}; it ran as {chain['why']}"
    picture.text(MARGIN, y, words, "ink bold", 13, WIDTH - 2 * MARGIN)
    y += 14
    below = y
    for step in chain["operators"]:
        name = f"v{step['value']} = {_short(step['operator'])}"
        _row(picture, _LEFT, below, name, step, scale, number)
        below += _ROW
    ends = _ends(chain)
    inputs, stores = ends[: len(chain["inputs"])], ends[len(chain["inputs"]) :]
    at = y
    for row in inputs:
        _row(picture, _RIGHT, at, row["name"], row, scale, number)
        at += _ROW
    at = _box(picture, at + 4, [_short(step["operator"]) for step in chain["operators"]], number)
    for row in stores:
        _row(picture, _RIGHT, at, row["name"], row, scale, number)
        at += _ROW
    return max(below, at)


def _ends(chain: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the values that a chain's kernel reads and the values that it stores."""
    return [
        {"name": f"v{x['value']}", "bytes_read": x["bytes"], "bytes_written": 0}
        for x in chain["inputs"]
    ] + [
        {"name": f"v{x['value']}", "bytes_read": 0, "bytes_written": x["bytes"]}
        for x in chain["stores"]
    ]  # fmt: skip


def _row(
    picture: Picture, x: float, y: float, name: str, row: dict[str, Any], scale: float, step: int
) -> None:
    picture.text(x, y + 15, name, "ink mono", 12, _NAME - 8, steps=[step])
    x += _NAME
    for kind, count in (("first", row["bytes_read"]), ("second", row["bytes_written"])):
        if count:
            wide = max(1.0, count * scale)
            picture.rect(x, y + 4, wide, _ROW - 8, f"{kind} line", 2, [step])
            x += wide
    total = _bytes(row["bytes_read"] + row["bytes_written"])
    picture.text(x + 6, y + 15, total, "dim", 10, steps=[step])


def _box(picture: Picture, y: float, names: list[str], step: int) -> float:
    """Draw one kernel with its operators. Return the y of the lower end."""
    at, top = len(picture.parts), y
    x, y = _RIGHT + _PAD, y + 20
    for n, name in enumerate(names):
        word = name + (" →" if n < len(names) - 1 else "")
        if x > _RIGHT + _PAD and x + width(word, 12, "mono") > _RIGHT + _PAD + _INSIDE:
            x, y = _RIGHT + _PAD, y + 18
        x = picture.text(x, y, word, "blue mono", 12, _INSIDE, steps=[step]) + 6
    picture.rect(_RIGHT, top, WIDTH - MARGIN - _RIGHT, y + 10 - top, "box line", 4, [step], at)
    return y + 16


def _legend(picture: Picture, x: float, y: float, kind: str, words: str) -> float:
    picture.rect(x, y - 10, 12, 12, f"{kind} line", 2)
    return picture.text(x + 18, y, words, "dim") + 14


def _short(operator: str) -> str:
    return operator.partition("::")[2]


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _bytes(count: int) -> str:
    """Return a number of bytes as text, such as 12000 B or 84.0 MB."""
    if count < 100_000:
        return f"{count} B"
    for unit, size in (("kB", 10**3), ("MB", 10**6)):
        if count < 1000 * size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 10**9:.1f} GB"
