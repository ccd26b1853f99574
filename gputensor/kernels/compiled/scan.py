"""Scans by the compiled loops, complex ones by NumPy's: see kernels/cpu/scan.py."""

from __future__ import annotations

import numpy as np

from ..cpu import scan as numpys
from .library import function

_cumsum, _cumprod = function("scan", "cumsum"), function("scan", "cumprod")
_logcumsumexp = function("scan", "logcumsumexp")
_cummax, _cummin = function("scan", "cummax"), function("scan", "cummin")
assert _cumsum and _cumprod and _logcumsumexp and _cummax and _cummin


def cumsum(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    if _cumsum(x, out, axis):
        numpys.cumsum(x, axis, out)


def cumprod(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    if _cumprod(x, out, axis):
        numpys.cumprod(x, axis, out)


def logcumsumexp(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    if _logcumsumexp(x, out, axis):
        numpys.logcumsumexp(x, axis, out)


def cummax(x: np.ndarray, axis: int, values: np.ndarray, out: np.ndarray) -> None:
    if _cummax(x, values, out, axis):
        numpys.cummax(x, axis, values, out)


def cummin(x: np.ndarray, axis: int, values: np.ndarray, out: np.ndarray) -> None:
    if _cummin(x, values, out, axis):
        numpys.cummin(x, axis, values, out)
