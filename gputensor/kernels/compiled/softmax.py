"""softmax, log_softmax and their derivatives by the compiled loops: see kernels/cpu/softmax.py."""

from __future__ import annotations

import numpy as np

from ..cpu import softmax as numpys
from .library import function

_softmax, _softmax_backward = (
    function("softmax", "softmax"),
    function("softmax", "softmax_backward"),
)
_log_softmax = function("softmax", "log_softmax")
_log_softmax_backward = function("softmax", "log_softmax_backward")
assert _softmax and _softmax_backward and _log_softmax and _log_softmax_backward


def softmax(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    if _softmax(x, out, axis):
        numpys.softmax(x, axis, out)


def log_softmax(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    if _log_softmax(x, out, axis):
        numpys.log_softmax(x, axis, out)


def softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int, out: np.ndarray) -> None:
    if _softmax_backward(grad, output, out, axis):
        numpys.softmax_backward(grad, output, axis, out)


def log_softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int, out: np.ndarray) -> None:
    if _log_softmax_backward(grad, output, out, axis):
        numpys.log_softmax_backward(grad, output, axis, out)
