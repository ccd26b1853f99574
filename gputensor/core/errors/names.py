"""What is said of a name that a module of users does not have; built when the sentence is read."""

from __future__ import annotations

import sys
from pathlib import Path

_PACKAGE = __name__.partition(".")[0]
_LISTS = Path(__file__).with_name("names.txt")
_LIBRARIES = {"torch": "PyTorch", "numpy": "NumPy"}


def no_name(module: str, missing: str) -> str:
    """Near names that the module has, and which library has this one."""
    text = f"module {module!r} has no attribute {missing!r}"
    near = nearest(missing, dir(sys.modules[module]))
    if near:
        text += f"; did you mean {near}"
    for of in theirs(module.removeprefix(_PACKAGE), missing):
        text += f"; {_LIBRARIES[of.partition('.')[0]]} has {of}, and gputensor does not yet"
    return f"{text}; docs/operators.md lists the operators"


def nearest(name: str, known: list[str]) -> str:
    """Up to three names that one may have meant: 'abs' or 'absolute'."""
    import difflib

    public = [n for n in known if not n.startswith("_")]
    return " or ".join(map(repr, difflib.get_close_matches(name, public, 3, 0.7)))


def theirs(place: str, name: str) -> list[str]:
    """Full names of what PyTorch and NumPy call so; place: "", ".linalg", ".nn.functional"."""
    found = []
    for line in _LISTS.read_text(encoding="utf-8").splitlines():
        module, _, names = line.partition(": ")
        if module in (f"torch{place}", f"numpy{place}") and name in names.split():
            found.append(f"{module}.{name}")
    return found
