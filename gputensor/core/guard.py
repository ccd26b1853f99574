"""Guards: context managers that can also decorate functions, as PyTorch's do.

Note [Leaving a guard]
A guard must restore the state that it changed, even if it is interrupted. Python runs signal
handlers, which may raise, only at the entry of a Python function and after a call of a C function.
Operators therefore read their thread's state first and restore it by one C call, the first
statement of a `finally`. `__exit__` computes the state to restore and then restores it. It repeats
both steps if it was interrupted. Python does not guarantee that `__exit__` itself is entered.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from . import errors

Fresh = Callable[[], AbstractContextManager[Any]]
Function = TypeVar("Function", bound=Callable[..., Any])


class Guard:
    """The base class of guards. See Note [Leaving a guard]."""

    __slots__ = ()

    def _enter(self) -> None:
        """Change the state. If the change is interrupted, the state must be unchanged."""
        raise NotImplementedError

    def _found(self) -> Any:
        """Return the state to restore when the block ends. Change nothing."""
        raise NotImplementedError

    def _put_back(self, found: Any) -> None:
        """Restore the state. A second call has no effect."""
        raise NotImplementedError

    def _count(self, found: Any) -> None:
        """Do nothing. Subclasses that count active blocks update the count here, after a block has
        ended."""

    def _again(self) -> Any:
        """Return a new guard for one call. Several threads may run a decorated function at once."""
        return self

    def __enter__(self) -> Any:
        self._enter()
        return self

    def __exit__(self, *exc: object) -> None:
        found = None
        try:
            found = self._found()
            self._put_back(found)
        except BaseException:
            self._put_back(self._found() if found is None else found)
            raise
        self._count(found)

    def __call__(self, function: Function) -> Function:
        guarded: Function = decorated(self._again, function)
        return guarded


def decorated(fresh: Fresh, function: Callable[..., Any]) -> Any:
    """Wrap `function`: each call, or each step of a generator, runs within a new guard made by
    `fresh()`.

    For a coroutine, the guard stays until the coroutine returns, in the task that awaits it.
    Source: torch/utils/_contextlib.py.
    """
    if not callable(function):
        raise errors.wrong_type(_name(fresh), "func", "be callable", function)
    if inspect.isgeneratorfunction(function):
        guarded: Callable[..., Any] = _generator(fresh, function)
    elif inspect.isasyncgenfunction(function):
        guarded = _async_generator(fresh, function)
    elif inspect.iscoroutinefunction(function):

        async def guarded(*args: Any, **kwargs: Any) -> Any:
            with fresh():
                return await function(*args, **kwargs)

    else:

        def guarded(*args: Any, **kwargs: Any) -> Any:
            with fresh():
                return function(*args, **kwargs)

    return functools.wraps(function)(guarded)


def _name(fresh: Fresh) -> str:
    return type(getattr(fresh, "__self__", fresh)).__name__


def _generator(fresh: Fresh, function: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        steps = function(*args, **kwargs)
        try:
            with fresh():
                made = next(steps)
            while True:
                try:
                    sent = yield made
                except GeneratorExit:
                    with fresh():
                        steps.close()
                    raise
                except BaseException as error:
                    with fresh():
                        made = steps.throw(error)
                else:
                    with fresh():
                        made = steps.send(sent)
        except StopIteration as end:
            return end.value

    return guarded


def _async_generator(fresh: Fresh, function: Callable[..., Any]) -> Callable[..., Any]:
    async def guarded(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        steps = function(*args, **kwargs)
        try:
            with fresh():
                made = await anext(steps)
            while True:
                try:
                    sent = yield made
                except GeneratorExit:
                    with fresh():
                        await steps.aclose()
                    raise
                except BaseException as error:
                    with fresh():
                        made = await steps.athrow(error)
                else:
                    with fresh():
                        made = await steps.asend(sent)
        except StopAsyncIteration:
            return

    return guarded
