"""Messages of errors for names that Tensor or a public module does not have. core/lazy.py calls
these functions when a message is read."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from .._generated import index
from . import absent

_PACKAGE = __name__.partition(".")[0]
_LISTS = Path(__file__).with_name("names.txt")
_LIBRARIES = {"torch": "PyTorch", "numpy": "NumPy"}
_TENSORS = ("torch.Tensor", "numpy.ndarray")


def no_name(module: str, missing: str) -> str:
    """Return the message for a missing name. It lists similar names of the module, and the
    libraries that have the name."""
    place = module.removeprefix(_PACKAGE)
    # The public module gt.profiler is profiling/profiler.py. Other libraries use the public name.
    exported = {home: name for name, home in index.EXPORTS.items()}.get(f"{place[1:]}.")
    place = f".{exported}" if exported else place
    places = [f"{library}{place}" for library in _LIBRARIES]
    text = f"module '{_PACKAGE}{place}' has no attribute {missing!r}"
    if why := _why(f"torch{place}", missing):
        return f"{text}: {why}"
    return text + _more(missing, dir(sys.modules[module]), places)


def no_attribute(missing: str, known: list[str]) -> str:
    """Return the message for an attribute that only other libraries' tensors have. known: the
    attributes of our class."""
    text = f"'Tensor' object has no attribute {missing!r}"
    if why := _why("torch.Tensor", missing):
        return f"{text}: {why}"
    return text + _more(missing, known, _TENSORS)


def _why(place: str, missing: str) -> str:
    """Return the reason why a name of PyTorch is left out. Return "" for a name that PyTorch does
    not have either."""
    why = absent.why(place, missing)
    return why if why and (absent.why(f"{place}.{missing}") or theirs([place], missing)) else ""


def _more(missing: str, known: list[str], places: Iterable[str]) -> str:
    near = nearest(missing, known)
    text = f"; did you mean {near}" if near else ""
    for of in theirs(places, missing):
        text += f"; {_LIBRARIES[of.partition('.')[0]]} has {of}, and gputensor does not yet"
    return f"{text}; docs/operators.md lists the operators"


def nearest(name: str, known: list[str]) -> str:
    """Return up to three similar names as a text such as "'abs' or 'absolute'"."""
    import difflib

    public = [n for n in known if not n.startswith("_")]
    return " or ".join(map(repr, difflib.get_close_matches(name, public, 3, 0.7)))


def theirs(places: Iterable[str], name: str) -> list[str]:
    """Return the full names of the functions with this name in PyTorch and NumPy. places: modules
    such as "torch" and "numpy.linalg"."""
    found = []
    for line in _LISTS.read_text(encoding="utf-8").splitlines():
        module, _, names = line.partition(": ")
        if module in places and name in names.split():
            found.append(f"{module}.{name}")
    return found
