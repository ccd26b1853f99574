"""Run loops without NumPy's floating-point warnings, independent of the caller's `np.errstate`.

NumPy stores its error state in a ContextVar. So loops run in a private `contextvars.Context` in
which `np.seterr(all="ignore")` was called once; the caller's context is never changed. A loop
cannot read the caller's context variables and must not use them.

Note [The shared quiet context]: `enter` is the bound method `run` of the process's one shared
Context. It is called directly, without a Python frame in between. Only one thread at a time can be
in a Context. Python raises a RuntimeError, before the loop begins, if a second thread enters while
a loop runs without the GIL, or if a signal handler enters during a loop. `again` then runs the loop
in a spare Context. The hot path of a caller is

    try:
        result = enter(loop, a, b)
    except RuntimeError as error:
        result = again(error, loop, a, b)

and `run` contains this code as a function. Asyncio needs no further code, because a loop cannot
await.

Measured in ns above a bare `np.add` of 4 elements (256): `enter` with the try block 4 to 10, `run`
140. Rejected: a Context per thread in a `threading.local` (50), which would still be in use when a
signal handler or a finalizer interrupts a loop; a Context per thread in a ContextVar (20), which is
wrong once a context is copied to another thread; a list of free Contexts (160); `np.errstate`
(990).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any

import numpy as np


def _quiet_context() -> Context:
    context = Context()
    context.run(np.seterr, all="ignore")
    return context


_shared = _quiet_context()
_spares: list[Context] = []

enter = _shared.run

try:
    enter(enter, int)
except RuntimeError as _error:
    # The message contains this Context, so no other error has the same text.
    _ENTERED_TWICE = _error.args


def again(error: RuntimeError, loop: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run the loop in a spare Context if `error` means that the shared Context is in use. Otherwise
    raise the error."""
    if error.args != _ENTERED_TWICE:
        try:
            raise error
        finally:
            # The error's traceback refers to this frame, so the variable `error` would create a
            # reference cycle.
            del error
    try:
        context = _spares.pop()
    except IndexError:
        context = _quiet_context()
    try:
        return context.run(loop, *args, **kwargs)
    finally:
        _spares.append(context)


def run(loop: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `loop(*args, **kwargs)` without floating-point warnings. Calls may be nested."""
    try:
        return enter(loop, *args, **kwargs)
    except RuntimeError as error:
        return again(error, loop, *args, **kwargs)
