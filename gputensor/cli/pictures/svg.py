"""SVG as text: shapes, texts of measured width, and colours for light and dark mode.

The module is independent of operators. A picture draws its own background, so it is readable on any
page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax import saxutils

WIDTH, MARGIN = 900, 24

# class -> (property, value in light mode, value in dark mode)
_COLOURS = {
    "ground": ("fill", "#ffffff", "#0d1117"), "ink": ("fill", "#1f2328", "#e6edf3"),
    "dim": ("fill", "#59636e", "#9198a1"), "blue": ("fill", "#0969da", "#58a6ff"),
    "box": ("fill", "#f6f8fa", "#151b23"), "cell": ("fill", "#ffffff", "#0d1117"),
    "first": ("fill", "#d3e8ff", "#143d6b"), "second": ("fill", "#ffe7c7", "#5a3a0c"),
    "line": ("stroke", "#c9d1d9", "#3d444d"), "way": ("stroke", "#0969da", "#58a6ff"),
}  # fmt: skip
_DARK = "".join(f".{name}{{{p}:{dark}}}" for name, (p, _, dark) in _COLOURS.items())
STYLE = (
    ".way,.thin{fill:none}.way{stroke-width:1.5}.bold{font-weight:600}"
    + "".join(f".{name}{{{p}:{light}}}" for name, (p, light, _) in _COLOURS.items())
    + "text{font-family:'Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif}"
    ".mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    f"@media(prefers-color-scheme:dark){{{_DARK}}}"
)

# Character widths in thousandths of the font size, for the widest font in the list above. All other
# characters count as 700.
_WIDTHS = {
    character: width
    for width, characters in {
        300: "'IJijl", 400: " !(),-./:;[\\]ft|·", 500: '"*_`r–', 600: "?FLcksvxyz",
        800: "&DGHNOQU", 900: "#+<=>M^w~×→", 1000: "%@Wm…⋮—",
    }.items()
    for character in characters
}  # fmt: skip
_MONO, _BOLD = 620, 1.08


def width(text: str, size: float, kind: str = "") -> float:
    """Return an upper bound of a text's width at this font size. kind: the text's CSS classes."""
    mono = "mono" in kind
    units = sum(_MONO if mono else _WIDTHS.get(character, 700) for character in text)
    return units * size / 1000 * (_BOLD if "bold" in kind and not mono else 1)


def cut(text: str, room: float, size: float, kind: str = "") -> str:
    """Return the text if it fits, otherwise the part that fits, followed by an ellipsis."""
    if width(text, size, kind) <= room:
        return text
    while text and width(text + "…", size, kind) > room:
        text = text[:-1]
    return text + "…"


def escape(text: str) -> str:
    """Escape a text for XML. Replace characters that XML cannot represent."""
    known = re.sub("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
    return saxutils.escape(known, {'"': "&quot;"})


class Picture:
    """A picture under construction. Argument `steps` of its methods: the numbers of the steps in
    which a shape is highlighted."""

    title: str
    about: str

    def __init__(self, title: str, about: str) -> None:
        self.title, self.about = title, about
        self.parts: list[str] = []

    def head(self, lines: Sequence[str]) -> float:
        """Draw the title and lines of text below it. Return the y of their lower end."""
        self.text(MARGIN, 36, self.title, "ink mono bold", 15, WIDTH - 2 * MARGIN)
        for number, line in enumerate(lines):
            self.text(MARGIN, 60 + 18 * number, line, "dim mono", 12, WIDTH - 2 * MARGIN)
        return 48 + 18 * len(lines)

    def text(
        self, x: float, y: float, text: str, kind: str = "ink", size: float = 12,
        room: float = WIDTH, anchor: str = "start", steps: Sequence[int] = (),
    ) -> float:  # fmt: skip
        """Write a text with baseline y, cut to the width `room`. Return an upper bound of its right
        end."""
        if not text:
            return x
        shown = cut(text, room, size, kind)
        whole = "" if shown == text else f"<title>{escape(text)}</title>"
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        place += "" if size == 12 else f' font-size="{size:g}"'
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" class="{kind}"{place}'
            f"{_steps(steps)}>{whole}{escape(shown)}</text>"
        )
        return x + width(shown, size, kind)

    def rect(
        self, x: float, y: float, w: float, h: float, kind: str, radius: float = 4,
        steps: Sequence[int] = (), at: int | None = None,
    ) -> None:  # fmt: skip
        """Draw a rectangle. at: its index in `parts`, by default the end. Later parts are drawn
        over earlier parts."""
        self.parts.insert(
            len(self.parts) if at is None else at,
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{radius:g}" '
            f'class="{kind}"{_steps(steps)}/>',
        )

    def path(self, d: str, kind: str) -> None:
        """Draw a line. A line of the kind `way` ends in an arrow."""
        end = ' marker-end="url(#end)"' if kind == "way" else ""
        self.parts.append(f'<path d="{d}" class="{kind}"{end}/>')

    def svg(self, height: float) -> str:
        end = (
            '<marker id="end" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="6" '
            'markerHeight="6" orient="auto"><path d="M1 1 6 4 1 7" class="way"/></marker>'
        )
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" '
                f'viewBox="0 0 {WIDTH} {height:g}" font-size="12" role="img" '
                f'aria-label="{escape(self.title)}">',
                f"<title>{escape(self.title)}</title>", f"<desc>{escape(self.about)}</desc>",
                f"<style>{STYLE}</style>", f"<defs>{end}</defs>",
                f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8" '
                'class="ground line"/>',
                *self.parts, "</svg>", "",
            ]
        )  # fmt: skip


def _steps(steps: Sequence[int]) -> str:
    return f' data-steps="{" ".join(map(str, steps))}"' if steps else ""
