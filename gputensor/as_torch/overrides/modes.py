"""TorchFunctionMode, and the stack of active modes. `call_handlers` calls the modes' handlers.

Source: torch/overrides.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ...core import errors
from ...core.guard import Guard
from ...dispatch import tls
from ...dispatch.keys import OVERRIDES
from . import entries

# The modes of this thread or task, innermost last.
_modes: ContextVar[tuple[TorchFunctionMode, ...]] = ContextVar("gputensor_overrides", default=())


class DisableTorchFunctionSubclass(tls.ExcludeDispatchKeys):
    """A block in which no handler is called."""

    def __init__(self) -> None:
        super().__init__(OVERRIDES)


def is_enabled() -> bool:
    """Return False in a block of DisableTorchFunctionSubclass."""
    return bool(tls.state.get()[1] & OVERRIDES)


def active() -> tuple[TorchFunctionMode, ...]:
    """Return the modes whose handlers are called, innermost last."""
    modes = _modes.get()
    return modes if modes and is_enabled() else ()


class TorchFunctionMode(tls.Mode):
    """A block in which the mode's `__torch_function__` is called for every function of tensors that
    the program calls, and for tensors' attributes."""

    _mode_stack, _mode_bit = _modes, OVERRIDES

    def __init__(self) -> None:
        pass

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError

    def _enter(self) -> None:
        (include, keep), modes = tls.state.get(), _modes.get()
        entries.begin()
        try:
            _modes.set((*modes, self))
            tls.state.set((include | OVERRIDES, keep))
        except BaseException:
            _modes.set(modes)
            tls.state.set(tls.same((include, keep)))
            entries.end()
            raise

    def _count(self, found: Any) -> None:
        entries.end()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode whose handler calls the function and returns its result."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class Outer:
    """A block in which all modes except the innermost one are active."""

    def __init__(self, outer: tuple[TorchFunctionMode, ...]) -> None:
        self.outer = outer

    def __enter__(self) -> None:
        self.found = _modes.get(), tls.state.get()
        include, keep = self.found[1]
        _modes.set(self.outer)
        if not self.outer:
            tls.state.set(tls.same((include & ~OVERRIDES, keep)))

    def __exit__(self, *error: object) -> None:
        modes, state = self.found
        _modes.set(modes)
        tls.state.set(state)


# --- the stack, under PyTorch's private names -----------------------------------------------------


def _push(mode: TorchFunctionMode) -> None:
    Guard.__enter__(mode)


def _pop() -> TorchFunctionMode:
    if not _modes.get():
        raise errors.must("_pop_mode", "mode", "be active", errors.Got("no mode"))
    mode = _modes.get()[-1]
    Guard.__exit__(mode)
    return mode


@contextmanager
def _pop_temporarily() -> Iterator[TorchFunctionMode]:
    mode = _pop()
    try:
        yield mode
    finally:
        _push(mode)


OF_OVERRIDES: dict[str, Any] = {
    "TorchFunctionMode": TorchFunctionMode, "BaseTorchFunctionMode": BaseTorchFunctionMode,
    "_push_mode": _push, "_pop_mode": _pop, "_pop_mode_temporarily": _pop_temporarily,
    "_get_current_function_mode": lambda: (_modes.get() or (None,))[-1],
    "_get_current_function_mode_stack": lambda: [*_modes.get()],
}  # fmt: skip
OF_CORE: dict[str, Any] = {
    "_len_torch_function_stack": lambda: len(_modes.get()),
    "_get_function_stack_at": lambda index: _modes.get()[index],
    "_push_on_torch_function_stack": _push, "_pop_torch_function_stack": _pop,
    "_is_torch_function_mode_enabled": lambda: bool(active()),
}  # fmt: skip
