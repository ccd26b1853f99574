"""The default dtype: what floating numbers without a dtype of their own become.

One value for the whole process, as in PyTorch; it is a rule of the program and not of a thread.
The default *device* is in `backend_select.py`.
"""

from __future__ import annotations

from ..core import errors
from ..core.dtype import FLOATING, dtype, float32
from . import dispatcher

_default = float32


def get_default_dtype() -> dtype:
    """The dtype of Python floats, of factories that name none, and of divided integers."""
    return _default


def get_default_complex() -> dtype:
    """The dtype of Python complex numbers: the complex type whose parts are the default dtype."""
    return _default.to_complex


def set_default_dtype(d: dtype) -> None:
    """Make `d` (float16, bfloat16, float32 or float64) the default for the whole process.

    Raises: ArgumentTypeError for any other dtype.
    """
    global _default
    if not isinstance(d, dtype) or d.category != FLOATING:
        raise errors.wrong_type("set_default_dtype", "d", "be a floating-point dtype", d)
    if d is _default:
        return
    _default = d
    # A plan knows result dtypes, not the default it was built under (structured/pointwise.py).
    for operator in dispatcher.loaded():
        operator.table.forget()
        operator.redispatch_table.forget()
