"""Writes to indexed elements by the compiled loops: see kernels/cpu/scatter.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dtype import of_ours
from ..cpu import scatter as numpys
from .gather import MOST_INDICES
from .library import function


def scatter(x: np.ndarray, value: np.ndarray, *places: Any) -> int:
    return _run("scatter", _MOVED[x.itemsize], x, value, *places)


def scatter_add(x: np.ndarray, value: np.ndarray, *places: Any) -> int:
    return _run("scatter_add", f"scatter_add {of_ours(x.dtype).short}", x, value, *places)


def scatter_multiply(x: np.ndarray, value: np.ndarray, *places: Any) -> int:
    return _run("scatter_multiply", f"scatter_multiply {of_ours(x.dtype).short}", x, value, *places)


def scatter_amax(x: np.ndarray, value: np.ndarray, *places: Any) -> int:
    return _run("scatter_amax", f"scatter_amax {of_ours(x.dtype).short}", x, value, *places)


def scatter_amin(x: np.ndarray, value: np.ndarray, *places: Any) -> int:
    return _run("scatter_amin", f"scatter_amin {of_ours(x.dtype).short}", x, value, *places)


_MOVED = {n: f"scatter {n}" for n in (1, 2, 4, 8, 16)}


def _run(
    op: str, name: str, x: np.ndarray, value: np.ndarray, indices: Sequence[np.ndarray],
    led: Sequence[int], begin: int | None, wraps: bool,
) -> int:  # fmt: skip
    loop = function("scatter", name)
    if loop is None or len(indices) > MOST_INDICES:
        bad: int = getattr(numpys, op)(x, value, indices, led, begin, wraps)
        return bad
    numpys.check_writable(x)
    place: int = loop(x, value, *indices, -1 if begin is None else begin, wraps, *led)
    return place
