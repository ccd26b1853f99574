"""Picture of a call's path: each operator is a box that contains the visited keys in order."""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple

from gputensor.dispatch.precedence import MEANS

from .page import html_table
from .svg import MARGIN, WIDTH, Picture, width

_ROW, _GAP, _INDENT, _PILL = 44, 8, 24, 22


class Node(NamedTuple):
    """A hop of the dispatcher, and the hops that it caused."""

    number: int
    hop: dict[str, Any]
    below: list[Node]


def forest(hops: list[dict[str, Any]]) -> list[Node]:
    """Build trees of hops from their depths. Hops without a traced parent are roots."""
    roots: list[Node] = []
    open_: list[Node] = []
    for number, hop in enumerate(hops):
        node = Node(number, hop, [])
        while open_ and open_[-1].hop["depth"] >= hop["depth"]:
            open_.pop()
        (open_[-1].below if open_ else roots).append(node)
        open_.append(node)
    return roots


def reached(hop: dict[str, Any]) -> dict[str, str]:
    """Return the slot (a dispatch key and its kernel) at which the dispatcher stopped."""
    found = [slot for slot in hop["slots"] if slot["key"] == hop["key"]]
    return found[0] if found else {"kernel": "", "label": "no key has a kernel"}


def passed(hop: dict[str, Any]) -> list[str]:
    """Return the keys before the reached slot. They have no kernel, so the call fell through."""
    keys = [slot["key"] for slot in hop["slots"]]
    return keys[: keys.index(hop["key"])] if hop["key"] in keys else []


def draw(title: str, lines: list[str], hops: list[dict[str, Any]]) -> str:
    """Return a call's picture as SVG. lines: text below the title."""
    about = (f"{hop['kind']} {hop['op']} at {hop['key']}" for hop in hops)
    picture = Picture(title, "; ".join(about))
    y = picture.head(lines) + 14
    for root in forest(hops):
        y = _box(picture, root, MARGIN, y, WIDTH - MARGIN) + _GAP
    return picture.svg(y + 12)


def steps(hops: list[dict[str, Any]]) -> list[str]:
    """Return HTML for each hop: the arguments, the visited keys, and the kernel of each key."""
    return [_step(hop) for hop in hops]


def _step(hop: dict[str, Any]) -> str:
    below = False
    rows = []
    for slot in hop["slots"]:
        is_here = slot["key"] == hop["key"]
        does = "waits below" if below else "is reached" if is_here else slot["does"]
        below = below or is_here
        why = f"{slot['label']}: {MEANS[slot['label']]}"
        kernel = f"{slot['kernel']}\nregistered at {slot['site']}".strip() if slot["site"] else ""
        rows.append((slot["key"], does, why, kernel))
    facts = [*hop["arguments"].items(), ("set", hop["set"])]
    facts += [("thread includes", hop["include"]), ("thread excludes", hop["exclude"])]
    facts = [fact for fact in facts if fact[1]]
    return (
        f"<h2>{escape(hop['kind'])} <code>{escape(hop['op'])}</code> at "
        f"<code>{escape(hop['key'])}</code></h2>"
        + html_table(("key", "does", "why", "kernel"), rows)
        + (html_table(("", "keys"), facts) if facts else "")
    )


def _box(picture: Picture, node: Node, left: float, top: float, right: float) -> float:
    """Draw an operator's box with the hops inside it. Return the y of its lower end."""
    at, hop = len(picture.parts), node.hop
    end = picture.text(left + 12, top + 21, hop["kind"], "dim mono", 12)
    picture.text(end + 6, top + 21, hop["op"], "ink mono bold", 13, right - end - 18)
    y = _row(picture, node, left + 12, top + 32, right)
    picture.rect(left, top, right - left, y - top, "box line", 8, at=at)
    return y


def _row(picture: Picture, node: Node, left: float, top: float, right: float) -> float:
    """Draw a key and its kernel, and below them the calls that the kernel makes."""
    hop, slot, steps = node.hop, reached(node.hop), (node.number,)
    pill = width(hop["key"], 12, "mono") + 18
    is_last = not node.below
    picture.rect(left, top, pill, _PILL, "first way" if is_last else "cell way", 11, steps)
    picture.text(left + 9, top + 15, hop["key"], "ink mono", 12, steps=steps)
    x = left + pill + 12
    picture.text(x, top + 15, slot["kernel"], "ink mono", 12, right - x - 12)
    why = slot["label"]
    if over := passed(hop):
        why += f" · {', '.join(over)} {'falls' if len(over) == 1 else 'fall'} through"
    picture.text(x, top + 32, why, "dim", 12, right - x - 12)
    y = top + _ROW
    for below in node.below:
        stem, is_same = left + 11, below.hop["op"] == hop["op"]
        middle = y + _PILL / 2
        picture.path(
            f"M{stem:g} {top + _PILL:g}V{middle:g}H{left + _INDENT - 2:g}",
            "way" if is_same else "line thin",
        )
        draw_below = _row if is_same and below.hop["kind"] == "redispatch" else _box
        y = draw_below(picture, below, left + _INDENT, y, right - (draw_below is _box) * 12)
        y += _GAP if draw_below is _box else 0
    return y
