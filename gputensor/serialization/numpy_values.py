"""NumPy arrays, numbers and dtypes in pickles, built without calling functions that the file names.

The pickle contains an array's bytes, so the size of the file limits the size of the array.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

# The value for a pickle that names the class `numpy.ndarray`. The value is a string, because the
# pickle must not call the class.
_CLASS = "numpy.ndarray"
# The codes of booleans, numbers and strings of fixed width. Objects are not allowed.
_TYPE = re.compile(r"[biufcSU]\d{1,9}")


class Wrong(ValueError):
    """Error for a damaged array, number or dtype. `load` completes the message."""


def _dtype(text: Any, *flags: Any) -> np.dtype[Any]:
    if type(text) is not str or not _TYPE.fullmatch(text):
        raise Wrong(f"its pickle has NumPy's type {text!r}")
    return np.dtype(text, copy=True)


def _array(kind: Any, shape: Any, code: Any) -> np.ndarray[Any, Any]:
    """Return an empty array. `build` then sets its shape, dtype and elements."""
    if kind != _CLASS:
        raise Wrong("its pickle has an array of a class of its own")
    return np.empty(0, np.int8)


def _scalar(of: Any, data: Any) -> Any:
    if not isinstance(of, np.dtype) or type(data) is not bytes or len(data) != of.itemsize:
        raise Wrong("its pickle has a number of NumPy's that is damaged")
    return np.frombuffer(data, of)[0]


def build(made: Any, state: Any) -> None:
    """Check the state of an array or dtype and set it, as pickle's BUILD does."""
    if type(state) is not tuple:
        raise Wrong("its pickle has an array without a state")
    if isinstance(made, np.dtype):
        if len(state) != 8 or state[1] not in ("<", ">", "|") or state[2:5] != (None,) * 3:
            raise Wrong("its pickle has NumPy's type with fields")
        setter: Any = made
        setter.__setstate__(state)
        return
    if len(state) != 5:
        raise Wrong("its pickle has an array that is damaged")
    _, shape, of, is_fortran, data = state
    sized = type(shape) is tuple and all(type(n) is int and n >= 0 for n in shape)
    if not sized or not isinstance(of, np.dtype) or of.hasobject or type(data) is not bytes:
        raise Wrong("its pickle has an array that is damaged")
    if int(np.prod(shape, dtype=object)) * of.itemsize != len(data):
        raise Wrong("its pickle has an array of another size than its bytes")
    made.__setstate__((1, shape, of, bool(is_fortran), data))


_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")
NAMES: dict[str, Any] = {
    "numpy dtype": _dtype, "numpy ndarray": _CLASS,
    **{f"{module} _reconstruct": _array for module in _MODULES},
    **{f"{module} scalar": _scalar for module in _MODULES},
}  # fmt: skip
