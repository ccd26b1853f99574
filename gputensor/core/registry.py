"""A mapping whose registrations may be removed in any order. The value of a key is the newest
one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Registry(dict[K, V]):
    """key -> the newest registered value that was not removed. Callers use it as a dict."""

    __slots__ = ("_stacks",)

    def __init__(self, initial: dict[K, V] | None = None) -> None:
        super().__init__(initial or {})
        # Each value is in a list of its own, so that two registrations of one value can be told
        # apart.
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
