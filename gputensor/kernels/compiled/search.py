"""Search in sorted sequences by the compiled loops: see kernels/cpu/search.py."""

from __future__ import annotations

import numpy as np

from ...core.dtype import of_ours
from ..cpu import search as numpys
from .library import function


def places(sequence: np.ndarray, x: np.ndarray, right: bool, out_int32: bool) -> np.ndarray | None:
    loop = function("search", f"places {of_ours(x.dtype).short}")
    if loop is None:
        return numpys.places(sequence, x, right, out_int32)
    found = np.empty(x.shape, np.int32 if out_int32 else np.int64)
    if not found.size:
        return found
    has_rows = sequence.ndim > 1
    m = x.shape[-1] if has_rows else x.size
    loop(
        found, np.ascontiguousarray(sequence), np.ascontiguousarray(x), sequence.shape[-1], m,
        has_rows, right,
    )  # fmt: skip
    return found
