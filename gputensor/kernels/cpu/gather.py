"""out[i] = x[key][i]: elements that indices name, each read once.                    family: gather

Shapes   key is an index tuple of NumPy, of slices and int64 arrays that are known to be in range.
Types    elements are moved as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def gather(x: np.ndarray, key: tuple[Any, ...], out: np.ndarray) -> None:
    at = [d for d, k in enumerate(key) if type(k) is not slice]
    # take() moves whole rows; it needs a dense operand of its own
    if len(at) == 1 and x.flags.c_contiguous and out.flags.c_contiguous and x.size:
        np.take(x, key[at[0]], at[0], out, "wrap")
    else:
        out[...] = x[key]
