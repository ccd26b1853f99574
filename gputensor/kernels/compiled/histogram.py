"""Counting of values by the compiled loops: see kernels/cpu/histogram.py."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...core.dtype import of_ours
from ..cpu import histogram as numpys
from .library import function

# loops/histogram.cpp computes bins in i32, and numbers of bins in the type of the elements.
_MOST_EVEN_BINS = 1 << 24
_MOST_EDGES = 32  # loops/histogram.cpp accepts at most this many bin edges.


def bincount(x: np.ndarray, weights: np.ndarray | None, bins: int) -> np.ndarray:
    op = "bincount" if weights is None else "weigh"
    loop = function("histogram", f"{op} {of_ours(x.dtype).short}")
    if loop is None or (weights is not None and weights.dtype != np.float64):
        return numpys.bincount(x, weights, bins)
    found = np.zeros(bins, np.int64 if weights is None else np.float64)
    given = () if weights is None else (np.ascontiguousarray(weights),)
    loop(found, np.ascontiguousarray(x), *given)
    return found


def evenly(x: np.ndarray, bins: int, least: float, most: float) -> np.ndarray | None:
    loop = function("histogram", f"evenly {of_ours(x.dtype).short}")
    if loop is None or bins > _MOST_EVEN_BINS:
        return None
    found = np.zeros(bins, np.int64)
    loop(found, np.ascontiguousarray(x.ravel("K")), least, most)
    return found


def points(
    x: np.ndarray, weights: np.ndarray | None, even: bool, edges: Sequence[np.ndarray]
) -> np.ndarray | None:
    loop = function("histogram", f"points {of_ours(x.dtype).short}")
    if loop is None or len(edges) > _MOST_EDGES:
        return None
    shape = [len(edge) - 1 for edge in edges]
    found = np.zeros(math.prod(shape), np.int64 if weights is None else np.float64)
    given = None if weights is None else np.ascontiguousarray(weights)
    loop(found, np.ascontiguousarray(x), given, np.concatenate(edges), even, *shape)
    return found.reshape(shape)
