"""Hooks of modules: what is called before and after `forward`, and the handle that removes it."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import Any
from weakref import ref

from ...core import errors

_ids = itertools.count()


class Hook:
    """Handle of a hook: `remove()`, or the end of `with`, takes the hook off its module."""

    def __init__(self, hooks: dict[int, Any]) -> None:
        self.id: int = next(_ids)
        self._hooks = ref(_alive(hooks))

    def remove(self) -> None:
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> Hook:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Hooks(OrderedDict[int, Any]):
    """A dict that can be held weakly."""


def _alive(hooks: Any) -> Hooks:
    assert isinstance(hooks, Hooks)
    return hooks


def add_hook(hooks: Hooks, hook: Any, prepend: bool, with_kwargs: bool) -> Hook:
    if not callable(hook):
        raise errors.wrong_type("register_hook", "hook", "be callable", hook)
    handle = Hook(hooks)
    hooks[handle.id] = (hook, with_kwargs)
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle
