"""Old names of functions: they warn, and call the function that replaced them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from . import errors


def renamed(old: str, new: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the name `old` that warns and calls `new`."""

    @wraps(new)
    def called(*args: Any, **kwargs: Any) -> Any:
        import warnings

        message = errors.deprecated(old, "the name is", f"use {new.__name__}")
        warnings.warn(message, FutureWarning, stacklevel=2)
        return new(*args, **kwargs)

    called.__name__ = called.__qualname__ = old
    return called
