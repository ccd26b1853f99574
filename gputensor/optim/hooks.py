"""Hooks of optimizers: functions called before and after `step`, `state_dict` and
`load_state_dict`.

Source: torch/optim/optimizer.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ..autograd.node import HookDict, RemovableHandle
from ..core import errors

F = TypeVar("F", bound=Callable[..., Any])

# Hooks that were registered for all optimizers.
_before_all, _after_all = HookDict(), HookDict()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of every optimizer.

    See `Optimizer.register_step_pre_hook` for the arguments and the result of the hook.
    """
    return RemovableHandle(_before_all, hook, "register_optimizer_step_pre_hook")


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of every optimizer."""
    return RemovableHandle(_after_all, hook, "register_optimizer_step_post_hook")


def hooked(step: F) -> F:
    """Return a function that calls `step` with the hooks before and after it.

    The hooks run once, even if a step calls the step of its base class.
    """

    @functools.wraps(step)
    def stepped(*args: Any, **kwargs: Any) -> Any:
        optimizer: Hooked = args[0]
        if optimizer._is_stepping:
            return step(*args, **kwargs)
        optimizer._is_stepping = True
        try:
            before, after = optimizer._step_hooks
            for hook in [*_before_all.values(), *before.values()]:
                changed = hook(optimizer, args, kwargs)
                if changed is not None:
                    if not isinstance(changed, tuple) or len(changed) != 2:
                        rule = "return None or (args, kwargs)"
                        raise errors.must(type(optimizer).__name__, "hook", rule, changed)
                    args, kwargs = changed
            result = step(*args, **kwargs)
            for hook in [*after.values(), *_after_all.values()]:
                hook(optimizer, args, kwargs)
        finally:
            optimizer._is_stepping = False
        return result

    return cast(F, stepped)


class Hooked:
    """Base class of `Optimizer` with the optimizer's hooks and their registration."""

    # True until `__init__` runs. If a subclass that wraps an optimizer does not call `__init__`, it
    # has no hooks, and its `step` runs without hooks.
    _is_stepping: bool = True

    def __init__(self) -> None:
        self._is_stepping = False
        self._step_hooks = HookDict(), HookDict()
        self._state_dict_hooks = HookDict(), HookDict()
        self._load_state_dict_hooks = HookDict(), HookDict()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            type.__setattr__(cls, "step", hooked(vars(cls)["step"]))

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step.

        Args:
            hook: args are the arguments of `step`, beginning with the optimizer. It returns None,
                or a pair (args, kwargs) that replaces them.
        Returns: a handle; `handle.remove()` removes the hook.
        """
        return RemovableHandle(self._step_hooks[0], hook, "register_step_pre_hook")

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step. Returns: a handle."""
        return RemovableHandle(self._step_hooks[1], hook, "register_step_post_hook")

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` at the beginning of `state_dict`. prepend: run the hook before the
        other hooks."""
        hooks = self._state_dict_hooks[0]
        return RemovableHandle(hooks, hook, "register_state_dict_pre_hook", prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` at the end of `state_dict`. A result that is not None
        replaces the dict. prepend: run the hook before the other hooks."""
        hooks = self._state_dict_hooks[1]
        return RemovableHandle(hooks, hook, "register_state_dict_post_hook", prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` at the beginning of `load_state_dict`, with a shallow
        copy of the dict. A result that is not None is loaded instead. prepend: run the hook before
        the other hooks."""
        hooks = self._load_state_dict_hooks[0]
        return RemovableHandle(hooks, hook, "register_load_state_dict_pre_hook", prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` at the end of `load_state_dict`. prepend: run the hook before the
        other hooks."""
        hooks = self._load_state_dict_hooks[1]
        return RemovableHandle(hooks, hook, "register_load_state_dict_post_hook", prepend)
