"""Grad modes: no_grad, enable_grad, inference_mode and set_grad_enabled.

Note [How a view was made] `grad_mode` is DEFAULT while operations are recorded, otherwise the
reason why they are not. Every view stores this value, which corresponds to PyTorch's creation
metadata. A view has no usable history if it was made while nothing was recorded, or by a function
that returns several views. A recorded write to this view raises an error.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, Self, overload

from ..core.arguments import flag
from ..core.guard import Function, Guard
from ..dispatch import tls
from ..dispatch.tls import unrecorded

DEFAULT, NO_GRAD_MODE, INFERENCE_MODE, MULTI_OUTPUT_NODE, IN_CUSTOM_FUNCTION = range(5)

grad_mode: ContextVar[int] = ContextVar("gputensor_grad_mode", default=DEFAULT)


def is_grad_enabled() -> bool:
    """True while operations on tensors that require grad are recorded."""
    return grad_mode.get() == DEFAULT


def set_mode(mode: int) -> None:
    """Change the mode. The caller has read the previous mode and restores it later.

        before = grad_mode.get()
        try:
            set_mode(NO_GRAD_MODE)
            ...
        finally:
            left(grad_mode.set(before))

    See Note [Leaving a guard] in core/guard.py.
    """
    if mode:
        unrecorded.append(mode)
    grad_mode.set(mode)


def left(token: Token[int]) -> None:
    """Remove a mode that has ended from `unrecorded`, the list of active modes other than the
    default. token: the result of the `grad_mode.set` that restored the previous mode."""
    was = token.old_value
    if was is not Token.MISSING and was and unrecorded:
        unrecorded.pop()


class _Mode(Guard):
    """A grad mode for a block, or for each call of a decorated function.

    As in PyTorch, a block restores the mode that it found, even if blocks end in an unusual order.
    """

    __slots__ = ("_mode", "_before")

    def __init__(self, mode: int) -> None:
        self._mode = mode
        self._before: list[int] = []

    # These methods replace the slower methods of `Guard`, because every training step calls them.

    def __enter__(self) -> None:
        mode = self._mode
        self._before.append(grad_mode.get())
        try:
            if mode:
                unrecorded.append(mode)
            grad_mode.set(mode)
        except BaseException:
            self.__exit__()
            raise

    _enter = __enter__

    def __exit__(self, *exc: object) -> None:
        found = self._before[-1]
        try:
            token = grad_mode.set(found)
            self._before.pop()
        except BaseException:
            grad_mode.set(found)
            raise
        left(token)

    def _found(self) -> Any:
        return self._before[-1], len(self._before) - 1, grad_mode.get()

    def _put_back(self, found: Any) -> None:
        grad_mode.set(found[0])
        del self._before[found[1] :]

    def _count(self, found: Any) -> None:
        if found[2] and unrecorded:
            unrecorded.pop()

    def _again(self) -> _Mode:
        again: _Mode = object.__new__(type(self))
        again._mode, again._before = self._mode, []
        return again


class no_grad(_Mode):
    """A block or function in which operations are not recorded: `with gt.no_grad():` or
    `@gt.no_grad()`."""

    __slots__ = ()

    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: Function) -> Function: ...  # type: ignore[misc]
    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        made = object.__new__(cls)
        _Mode.__init__(made, cls._wanted())
        return made if function is None else made(function)

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        """Do nothing. `__new__` does the work, because `@gt.no_grad` without parentheses returns
        the function."""

    @staticmethod
    def _wanted() -> int:
        return NO_GRAD_MODE


class enable_grad(no_grad):
    """A block in which operations are recorded, even within `no_grad`: `with gt.enable_grad():`."""

    __slots__ = ()

    @staticmethod
    def _wanted() -> int:
        return DEFAULT


class set_grad_enabled(_Mode):
    """A setting of the grad mode. The constructor turns recording on or off. If the object is used
    as a context manager, the end of the block restores the previous mode."""

    __slots__ = ("_is_set",)

    def __init__(self, mode: bool) -> None:
        super().__init__(DEFAULT if flag("set_grad_enabled", "mode", mode) else NO_GRAD_MODE)
        self._is_set = True
        self._enter()
        # The mode was set by a plain call, not for a block, so forget the previous mode.
        if self._before[-1] and unrecorded:
            unrecorded.pop()

    def _begin_block(self) -> None:
        """Record that the guard is used for a block. The end of the block restores the previous
        mode."""
        if self._before[-1]:
            unrecorded.append(self._before[-1])
        self._is_set = False

    def __enter__(self) -> None:
        """Begin a block. The constructor has already set the mode. Set it again if other code has
        changed it since."""
        if self._is_set and self._before:
            self._begin_block()
            if grad_mode.get() != self._mode:
                set_mode(self._mode)
        else:
            super().__enter__()

    def _again(self) -> _Mode:
        return _Mode(self._mode)

    def __call__(self, function: Function) -> Function:
        # a decorator sets the mode only during calls of its function
        if self._is_set and self._before:
            self._begin_block()
            self.__exit__()
        return super().__call__(function)


class inference_mode(Guard):
    """A block in which nothing is recorded: `with gt.inference_mode():`. Autograd does not track
    the tensors that are made in the block, not even after the block.

    These tensors have no autograd keys and no version counter, so operators on them are faster.
    """

    __slots__ = ("_keys", "_grad", "_enabled")

    _enabled: bool
    _keys: tls.InferenceMode
    _grad: _Mode

    def __new__(cls, mode: Any = True) -> Any:
        made = object.__new__(cls)
        made._enabled = callable(mode) or flag("inference_mode", "mode", mode)
        made._keys = tls.InferenceMode(made._enabled)
        made._grad = _Mode(INFERENCE_MODE if made._enabled else DEFAULT)
        return made(mode) if callable(mode) else made

    def __enter__(self) -> None:
        self._enter()

    def _enter(self) -> None:
        self._keys._enter()
        try:
            self._grad._enter()
        except BaseException:
            self._keys.__exit__()
            raise

    def _found(self) -> Any:
        return self._grad._found(), self._keys._found()

    def _put_back(self, found: Any) -> None:
        self._grad._put_back(found[0])
        self._keys._put_back(found[1])

    def _count(self, found: Any) -> None:
        self._grad._count(found[0])
        self._keys._count(found[1])

    def _again(self) -> Any:
        return inference_mode(self._enabled)


def is_inference_mode_enabled() -> bool:
    """Return True within `with inference_mode():`."""
    return tls.is_inference_mode()


# --- the thread's state while a kernel runs below autograd ----------------------------------------

_OFF = tls.AUTOGRAD | tls.AD_INPLACE_OR_VIEW


class _States(dict[tuple[int, int], tuple[int, int]]):
    """A cache that maps a dispatch state (include, keep) to the state without autograd's keys, or
    to the state with them."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[int, int], tuple[int, int]]) -> None:
        self._make = make

    def __missing__(self, state: tuple[int, int]) -> tuple[int, int]:
        made = self[state] = tls.same(self._make(*state))
        return made


# `below_autograd` has the effect of AutoDispatchBelowADInplaceOrView without making an object.
# `above_autograd` has the opposite effect: operations are recorded although they run below
# autograd.
below_autograd: _States = _States(lambda include, keep: (include, keep & ~_OFF))
above_autograd = _States(lambda include, keep: (include | tls.AD_INPLACE_OR_VIEW, keep | _OFF))
