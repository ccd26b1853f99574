"""Anomaly mode: an error in backward names the line of the forward call, and NaN gradients raise
errors."""

from __future__ import annotations

import sys
from typing import Any

from ..core import errors
from ..core.arguments import flag
from ..core.guard import Guard

# Nodes read this value when they are made; see `Node.__init__`.
is_on = False
checks_nan = True


class detect_anomaly(Guard):
    """A block with anomaly mode, for forward and backward, in the whole process: `with
    gt.autograd.detect_anomaly():`.

    check_nan: raise an error when a gradient is NaN. This makes every operation slower.
    """

    __slots__ = ("_wanted", "_before")

    def __init__(self, check_nan: bool = True) -> None:
        self._wanted = (True, flag("detect_anomaly", "check_nan", check_nan))
        self._before: list[tuple[bool, bool]] = []

    def _again(self) -> detect_anomaly:
        again: detect_anomaly = object.__new__(detect_anomaly)
        again._wanted, again._before = self._wanted, []
        return again

    def __enter__(self) -> None:
        self._enter()

    def _enter(self) -> None:
        global is_on, checks_nan
        self._before.append((is_on, checks_nan))
        is_on, checks_nan = self._wanted

    def _found(self) -> Any:
        return self._before[-1], len(self._before) - 1

    def _put_back(self, found: Any) -> None:
        global is_on, checks_nan
        is_on, checks_nan = found[0]
        del self._before[found[1] :]


class set_detect_anomaly(detect_anomaly):
    """A setting of anomaly mode. The constructor turns the mode on or off. If the object is used as
    a context manager, the end of the block restores the previous mode."""

    __slots__ = ()

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(check_nan)
        self._wanted = (flag("set_detect_anomaly", "mode", mode), self._wanted[1])
        self._enter()

    def __enter__(self) -> None:
        """Do nothing, because the constructor has set the mode."""

    def __call__(self, function: Any) -> Any:
        self.__exit__()  # a decorator sets the mode only during calls of its function
        return super().__call__(function)


def is_anomaly_enabled() -> bool:
    return is_on


def stack() -> str:
    """Return the Python stack of the user's call, without our own frames at its end."""
    import traceback

    frame = sys._getframe(1)
    package = __name__.partition(".")[0]
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame = frame.f_back
    return "".join(traceback.format_stack(frame))


def explain(node: Any) -> None:
    """Issue a warning with the call site of the operation whose derivative fails."""
    import warnings

    if node.trace is not None:
        what = errors.failed_derivative(node.name(), node.trace)
        warnings.warn(what, errors.AnomalyWarning, stacklevel=2)


def check(node: Any, grads: Any) -> None:
    """Raise an error if a gradient is NaN."""
    for number, grad in enumerate(grads):
        if grad is not None and grad._geometry.dtype.category > 1 and bool((grad != grad).any()):
            raise errors.nan_gradient(node.name(), number)
