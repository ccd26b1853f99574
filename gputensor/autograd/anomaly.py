"""Anomaly mode: an error in backward names the line of the forward call, and NaNs are errors."""

from __future__ import annotations

import sys
from typing import Any

from ..core import errors

# Read by every node that is made; see `Node.__init__`.
is_on = False
checks_nan = True


class set_detect_anomaly:  # noqa: N801
    """Turn anomaly mode on or off, for the whole process; as a context manager, for its block.

    check_nan: raise where a derivative is NaN. It makes every operation slower.
    """

    __slots__ = ("_before",)

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        global is_on, checks_nan
        self._before = (is_on, checks_nan)
        is_on, checks_nan = mode, check_nan

    def __enter__(self) -> None:
        """It is on since the guard was made."""

    def __exit__(self, *exc: object) -> None:
        global is_on, checks_nan
        is_on, checks_nan = self._before


class detect_anomaly(set_detect_anomaly):  # noqa: N801
    """`with gt.autograd.detect_anomaly():` for forward and backward."""

    __slots__ = ()

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(True, check_nan)


def is_anomaly_enabled() -> bool:
    return is_on


def stack() -> str:
    """The Python stack of the user's call, without our own frames at its end."""
    import traceback

    frame = sys._getframe(1)
    package = __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame = frame.f_back
    return "".join(traceback.format_stack(frame))


def explain(node: Any) -> None:
    """Warn where the operation was called whose derivative fails."""
    import warnings

    if node.trace is not None:
        warnings.warn(errors.failed_derivative(node.name(), node.trace), errors.AnomalyWarning, stacklevel=2)


def check(node: Any, grads: Any) -> None:
    """Raise if a gradient is NaN."""
    for number, grad in enumerate(grads):
        if grad is not None and grad._geometry.dtype.category > 1 and bool((grad != grad).any()):
            raise errors.nan_gradient(node.name(), number)
