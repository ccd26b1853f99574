"""Pages of `--html` and pictures of `--svg`, opened in a browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputensor.__main__ import main
from gputensor.cli.pictures import svg

from . import browser
from .test_pictures import ALL, CALLS, COPIES

pytestmark = pytest.mark.full

# The state of a page: the step's number, the number of visible steps, the active marks.
_STATE = """
const on = [...document.querySelectorAll('.on')];
return [Number(document.body.dataset.step),
        [...document.querySelectorAll('#steps > li')].filter(e => e.offsetParent).length,
        on.map(e => e.dataset.steps), document.querySelectorAll('.later').length];
"""
# Boxes of texts, and of the surrounding cell or pill.
_BOXES = """
const rects = [...document.querySelectorAll('rect.cell, rect.first, rect.second')].map(
  e => e.getBBox());
return [...document.querySelectorAll('svg text')].map(e => {
  const b = e.getBBox(), x = b.x + b.width / 2, y = b.y + b.height / 2;
  const around = rects.filter(r => r.x < x && x < r.x + r.width && r.y < y && y < r.y + r.height);
  return [e.textContent, b.x, b.y, b.width, b.height, e.getAttribute('class'),
          parseFloat(getComputedStyle(e).fontSize),
          around.map(r => [r.x, r.width])];
});
"""


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    why = browser.missing()
    if why is not None:
        (pytest.fail if os.environ.get("GPUTENSOR_REQUIRE_BROWSER") == "1" else pytest.skip)(why)
    with browser.Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


def opened(window: browser.Browser, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    path = tmp_path / "a.html"
    assert main([*arguments, "--html", str(path)]) in (0, 1)
    window.prefer("light")
    window.open(path)


@pytest.mark.parametrize("arguments", ALL, ids=" ".join)
def test_texts_fit_and_do_not_overlap(
    arguments: tuple[str, ...], window: browser.Browser, tmp_path: Path
) -> None:
    opened(window, tmp_path, arguments)
    assert window.complaints() == []
    boxes = window.run(_BOXES)
    assert boxes
    for text, x, y, wide, high, kind, size, around in boxes:
        shown = text.rpartition("\n")[2]
        assert x >= 0 and x + wide <= svg.WIDTH and y >= 0
        assert "…" in text or wide <= svg.width(shown, size, kind) + 0.5, "the table is too narrow"
        for left, room in around:
            assert left <= x and x + wide <= left + room, f"{text!r} leaves its box"
        for other, x2, y2, wide2, high2, *_ in boxes:
            apart = (
                x + wide <= x2 + 1 or x2 + wide2 <= x + 1
                or y + high <= y2 + 5 or y2 + high2 <= y + 5
            )  # fmt: skip
            assert apart or (x, y) == (x2, y2), f"{text!r} lies on {other!r}"


@pytest.mark.parametrize("arguments", [CALLS[0], COPIES[0], COPIES[1]], ids=" ".join)
def test_steps_move(arguments: tuple[str, ...], window: browser.Browser, tmp_path: Path) -> None:
    opened(window, tmp_path, arguments)
    count = window.run("return document.querySelectorAll('#steps > li').length")

    def is_at(step: int) -> Any:
        at, visible, on, later = window.run(_STATE)
        assert (at, visible) == (step, 1) and on
        assert all(str(step) in steps.split() for steps in on)
        assert window.run("return document.getElementById('said').textContent") == (
            f"{step + 1} of {count}"
        )
        return later

    first = is_at(0)
    window.click("#next")
    assert is_at(1) < first
    window.press("ArrowRight")
    is_at(2)
    window.press("ArrowLeft")
    is_at(1)
    window.press("End")
    assert is_at(count - 1) == 0
    window.click("#next")
    is_at(count - 1)
    window.press("Home")
    assert is_at(0) == first
    window.click("#back")
    is_at(0)
    window.run("const s = document.getElementById('slider'); s.value = 3; s.oninput()")
    is_at(3)
    window.click('rect[data-steps="1"]')
    is_at(1)
    window.click("#play")
    assert window.run("return document.getElementById('play').textContent") == "stop"
    window.click("#play")
    assert window.run("return document.getElementById('play').textContent") == "play"
    assert window.complaints() == []


_COLOURS = """
const of = s => getComputedStyle(document.querySelector(s)).fill;
return [of('rect.ground'), of('text.ink'), of('text.dim'), of('rect.first')];
"""


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour[4:-1].split(",")]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_it_is_read_in_the_light_and_in_the_dark(
    scheme: str, suffix: str, window: browser.Browser, tmp_path: Path
) -> None:
    path = tmp_path / f"a.{suffix}"
    assert main([*COPIES[0], f"--{suffix}", str(path)]) == 0
    window.open(path)
    window.prefer(scheme)
    ground, ink, dim, first = window.run(_COLOURS)
    assert (luminance(ground) > 0.5) == (scheme == "light")
    # WCAG requires a contrast of 4.5 between a text and its background.
    assert min(contrast(ink, ground), contrast(ink, first)) > 7 and contrast(dim, ground) > 4.5
    assert window.complaints() == []


def test_a_narrow_window_needs_no_scrolling_to_the_side(
    window: browser.Browser, tmp_path: Path
) -> None:
    window.resize(500)
    opened(window, tmp_path, CALLS[0])
    try:
        wide = "return [document.documentElement.scrollWidth, window.innerWidth]"
        needed, there = window.run(wide)
        assert needed <= there
    finally:
        window.resize(1000)
