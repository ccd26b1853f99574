"""Classes and functions that a program allows in its files, in addition to tensors.

`save` writes their objects and `load` builds them. A file cannot allow anything itself. Source:
torch/_weights_only_unpickler.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..core import errors

# Maps "module name", the form in which pickles name an object, to the object.
_names: dict[str, Any] = {}


def names() -> dict[str, Any]:
    """Return a dict of the allowed objects by the names that pickles contain."""
    return _names


def has(kind: Any) -> bool:
    """Return True if a class or function is allowed."""
    return any(kind is allowed for allowed in _names.values())


def _named(op: str, entry: Any) -> tuple[str, Any]:
    """Return ("module name", object) for an entry. An entry is an object or a pair (object, full
    name)."""
    found, full = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, None)
    if not callable(found) or not isinstance(full, (str, type(None))):
        rule = "have classes and functions, or pairs (class, full name)"
        raise errors.wrong_type(op, "safe_globals", rule, entry)
    if full is None:
        return f"{found.__module__} {found.__qualname__}", found
    module, _, name = full.rpartition(".")
    return f"{module} {name}", found


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Allow classes and functions in files, until `clear_safe_globals`.

    As pickle does, `load` calls them with arguments from the file and sets the state of the created
    objects, and `save` writes such objects. Allow only functions that are safe for all arguments.
    Raises: ArgumentTypeError for an entry that cannot be called.
    """
    _names.update([_named("add_safe_globals", entry) for entry in safe_globals])


def get_safe_globals() -> list[Any]:
    """Return the allowed classes and functions."""
    return [*_names.values()]


def clear_safe_globals() -> None:
    """Remove all additional classes and functions: allow only tensors, numbers, strings and
    containers."""
    _names.clear()


@contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """Allow classes and functions in files within the block."""
    before = dict(_names)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _names.clear()
        _names.update(before)


def built(made: Any, state: Any) -> None:
    """Set the state of an object of an allowed class, as pickle's BUILD does."""
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return
    plain, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if plain:
        vars(made).update(plain)
    for name, value in (slots or {}).items():
        setattr(made, name, value)
