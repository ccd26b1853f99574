"""dst[i] = number, in any layout.                                                     family: fill

Types    the number is cast by Note [Numeric casts]. The operator checks that the cast is allowed.
"""

from __future__ import annotations

import numpy as np

from . import cast, quiet


# NumPy would warn if the number overflowed. Below this number, no floating dtype overflows.
_FITS = 65000


def fill(dst: np.ndarray, number: complex) -> None:
    """Set every element of `dst`. The function suppresses NumPy's warnings itself, so callers do
    not need `quiet.run`."""
    kind = dst.dtype.kind
    if kind == "f" and not isinstance(number, complex) and -_FITS < number < _FITS:
        dst.fill(number)
    elif kind == "c" or (kind == "f" and not isinstance(number, complex)):
        quiet.run(dst.fill, number)
    else:
        dst.fill(quiet.run(cast.number, number, dst.dtype))
