"""Whether operations are recorded: no_grad, enable_grad, inference_mode, set_grad_enabled.

Note [How a view was made]
`grad_mode` holds DEFAULT while operations are recorded, else why they are not. The same value is kept
with every view that is made, PyTorch's creation metadata: a view made while nothing was recorded, or
by a function of several views, must not be written to later as if it had a history.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any

from ..dispatch import tls

DEFAULT, NO_GRAD_MODE, INFERENCE_MODE, MULTI_OUTPUT_NODE, IN_CUSTOM_FUNCTION = range(5)

# Non-empty while any thread is in another mode than DEFAULT, or in a DispatchMode, which may answer a
# view operator with what is no view: as long as it is empty, what is made on the fast way need not ask
# (25 ns of a view's 700, bench/overhead.py).
unrecorded: list[int] = []
grad_mode: ContextVar[int] = ContextVar("gputensor_grad_mode", default=DEFAULT)


def is_grad_enabled() -> bool:
    """True while operations on tensors that require grad are recorded."""
    return grad_mode.get() == DEFAULT


def set_mode(mode: int) -> Token[int]:
    """Change the mode until `reset_mode(token)`."""
    if mode:
        unrecorded.append(mode)
    return grad_mode.set(mode)


def reset_mode(token: Token[int]) -> None:
    if grad_mode.get():
        unrecorded.pop()
    grad_mode.reset(token)


class _Mode:
    """A grad mode for a block, or for each call of a function that it decorates."""

    __slots__ = ("_mode", "_tokens")

    def __init__(self, mode: int) -> None:
        self._mode = mode
        self._tokens: list[Token[int]] = []

    def __enter__(self) -> None:
        self._tokens.append(set_mode(self._mode))

    def __exit__(self, *exc: object) -> None:
        reset_mode(self._tokens.pop())

    def _again(self) -> _Mode:
        """A guard for one call: a decorated function may be running in several threads."""
        again: _Mode = object.__new__(type(self))
        again._mode, again._tokens = self._mode, []
        return again

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return guarded


class no_grad(_Mode):  # noqa: N801
    """`with gt.no_grad():` or `@gt.no_grad()`: nothing is recorded."""

    __slots__ = ()

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        made = object.__new__(cls)
        _Mode.__init__(made, cls._wanted())
        return made if function is None else made(function)

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        """Done in __new__: `@gt.no_grad` without parentheses returns the function."""

    @staticmethod
    def _wanted() -> int:
        return NO_GRAD_MODE


class enable_grad(no_grad):  # noqa: N801
    """`with gt.enable_grad():` records again inside `no_grad`."""

    __slots__ = ()

    @staticmethod
    def _wanted() -> int:
        return DEFAULT


class set_grad_enabled(_Mode):  # noqa: N801
    """Turn recording on or off from here on; as a context manager, for its block."""

    __slots__ = ()

    def __init__(self, mode: bool) -> None:
        super().__init__(DEFAULT if mode else NO_GRAD_MODE)
        self._tokens.append(set_mode(self._mode))

    def __enter__(self) -> None:
        """The mode has been set already, when the guard was made."""
        if not self._tokens:
            super().__enter__()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        reset_mode(self._tokens.pop())  # a decorator sets the mode for the calls alone
        return super().__call__(function)


class inference_mode:  # noqa: N801
    """`with gt.inference_mode():` records nothing, and tensors made in it never take part.

    They carry no autograd keys and count no versions, which makes operators cheaper.
    """

    __slots__ = ("_enabled", "_guards")

    def __new__(cls, mode: Any = True) -> Any:
        made = object.__new__(cls)
        made._enabled, made._guards = callable(mode) or bool(mode), []
        return made(mode) if callable(mode) else made

    def __enter__(self) -> None:
        guard = tls.InferenceMode(self._enabled)
        guard.__enter__()
        token = set_mode(INFERENCE_MODE if self._enabled else DEFAULT)
        self._guards.append((guard, token))

    def __exit__(self, *exc: object) -> None:
        guard, token = self._guards.pop()
        reset_mode(token)
        guard.__exit__(*exc)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            with inference_mode(self._enabled):
                return function(*args, **kwargs)

        return guarded


def is_inference_mode_enabled() -> bool:
    """True within `with inference_mode():`."""
    return tls.is_inference_mode()


# --- the thread's state while a kernel runs below autograd ----------------------------------------

_OFF = tls.AUTOGRAD | tls.AD_INPLACE_OR_VIEW


class _States(dict[tuple[int, int], tuple[int, int]]):
    """(include, keep) -> the same without, or with, the keys of autograd. Few ever occur."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[int, int], tuple[int, int]]) -> None:
        self._make = make

    def __missing__(self, state: tuple[int, int]) -> tuple[int, int]:
        made = self[state] = self._make(*state)
        return made


below_autograd = _States(lambda include, keep: (include, keep & ~_OFF))
_above_autograd = _States(lambda include, keep: (include | tls.AD_INPLACE_OR_VIEW, keep | _OFF))


def enter_below() -> Token[tuple[int, int]]:
    """Let calls skip autograd and ADInplaceOrView until `tls.state.reset(token)`.

    AutoDispatchBelowADInplaceOrView without an object: every recorded call needs it.
    """
    return tls.state.set(below_autograd[tls.state.get()])


def enter_above() -> Token[tuple[int, int]]:
    """The opposite: for what must be recorded although it is done below autograd."""
    return tls.state.set(_above_autograd[tls.state.get()])
