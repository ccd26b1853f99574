"""A mapping whose registrations may be removed in any order. A key maps to its newest
registration."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Registry(dict[K, V]):
    """A dict: key -> the newest registered value that was not removed."""

    __slots__ = ("_stacks",)

    def __init__(self, initial: dict[K, V] | None = None) -> None:
        super().__init__(initial or {})
        # Each registration puts its value into a new list, so two registrations of the same value
        # can be distinguished.
        self._stacks: dict[K, tuple[list[V], ...]] = {k: ([v],) for k, v in self.items()}

    def register(self, key: K, value: V) -> Callable[[], None]:
        """Register `value` for the key. Return a function that removes the registration."""
        entry = [value]
        self._stacks[key] = (entry, *self._stacks.get(key, ()))
        self[key] = value

        def undo() -> None:
            left = tuple(e for e in self._stacks.get(key, ()) if e is not entry)
            if left:
                self._stacks[key], self[key] = left, left[0][0]
            else:
                self._stacks.pop(key, None)
                self.pop(key, None)

        return undo
