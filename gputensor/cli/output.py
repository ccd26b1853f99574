"""Code shared by all subcommands: arguments, errors, tables, JSON and progress.

Results go to stdout, as tables or as one JSON document. All other output goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from gputensor.runtime import files

_FOLDER = f"{Path(files.__file__).parents[2]}/"

FINE, CHECK_FAILED, BAD_INPUT, DEVICE_ABSENT = 0, 1, 2, 3


class Refusal(Exception):
    """Error for a command that cannot run. The command prints the sentence on stderr and ends with
    exit status `status`."""

    def __init__(self, sentence: str, status: int = BAD_INPUT) -> None:
        super().__init__(sentence)
        self.status = status


class Arguments(argparse.ArgumentParser):
    """An argument parser with one-sentence errors and the option `--json`."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(prog=f"gputensor {name}", description=description)
        self.add_argument("--json", action="store_true", help="print the result as JSON on stdout")

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        """Add an argument as argparse does. Positional choices are shown in help and errors."""
        if "choices" in settings and not names[0].startswith("-"):
            settings.setdefault("metavar", f"{{{','.join(settings['choices'])}}}")
        return super().add_argument(*names, **settings)

    def add_pictures(self) -> None:
        """Add `--svg` and `--html`, which `write_pictures` reads."""
        self.add_argument("--svg", metavar="FILE", help="also draw it, as SVG")
        self.add_argument("--html", metavar="FILE", help="also as one page to step through")

    def error(self, message: str) -> NoReturn:
        raise Refusal(f"{message} (see {self.prog} --help)")


def write_pictures(arguments: Any, what: str, picture: str, steps: Sequence[str]) -> None:
    """Write the files that `--svg` and `--html` request. what: the page's title. steps: HTML, see
    pictures/page.py."""
    if arguments.svg is not None:
        _written("--svg", arguments.svg, picture)
    if arguments.html is not None:
        from .pictures.page import page

        _written("--html", arguments.html, page(what, picture, steps))


def _written(option: str, path: str, text: str) -> None:
    try:
        files.write_text(path, text)
    except OSError as error:
        raise Refusal(f"'{option}' must be writable (got '{path}': {error.strerror})") from None
    print(f"wrote {path}", file=sys.stderr)


def here(text: str) -> str:
    """Return the text with paths relative to the folder that contains gputensor."""
    return text.replace(_FOLDER, "")


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2)
    print()


def heading(text: str) -> str:
    return f"\n{text}\n{'-' * len(text)}"


def table(
    header: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[int] = ()
) -> str:
    """Return a table as text. Columns are as wide as their longest cell; the columns in `right` are
    right-aligned."""
    cells = [[str(c) for c in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = []
    for row in cells:
        pairs = enumerate(zip(row, widths))
        parts = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in pairs]
        lines.append("  ".join(parts).rstrip())
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


def brackets(values: Sequence[int]) -> str:
    return f"[{','.join(map(str, values))}]"


class Progress:
    """Progress messages on stderr. On a terminal, they share one line, which appears after two
    seconds. In a log, a line is added every two seconds."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._is_line = sys.stderr.isatty()
        self._next = self._begin + 2.0
        self._shown = False

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (0.0 if self._is_line else 2.0)
        end = "" if self._is_line else "\n"
        print(f"\r\x1b[K{text}" if self._is_line else text, end=end, file=sys.stderr, flush=True)
        self._shown = True

    def done(self) -> None:
        if self._shown and self._is_line:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
