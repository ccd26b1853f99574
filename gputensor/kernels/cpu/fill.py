"""dst[i] = number, in any layout.                                                     family: fill

Types    the number is cast by Note [Numeric casts]; whether it may be is the operator's business.
"""

from __future__ import annotations

import numpy as np

from . import cast, quiet


def fill(dst: np.ndarray, number: complex) -> None:
    """Set every element of `dst`. Silences itself: call it without `quiet`."""
    kind = dst.dtype.kind
    if (kind == "f" and type(number) is not complex) or kind == "c":
        quiet.run(dst.fill, number)
    else:
        dst.fill(quiet.run(cast.number, number, dst.dtype))
