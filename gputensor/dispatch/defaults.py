"""The default dtype: what floating numbers without a dtype of their own become; and whose rules of
promotion hold.

One value each for the whole process, as in PyTorch; they are rules of the program and not of a
thread. The default *device* is in `backend_select.py`.
"""

from __future__ import annotations

import os

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
    # A plan knows result dtypes, not the rules it was built under (structured/pointwise/). What a
    # call in flight remembers still goes to the table that it began with.
    dispatcher.forget_plans()


_PROMOTIONS = ("pytorch", "array_api")
VARIABLE = "GPUTENSOR_TYPE_PROMOTION"
_promotion = "pytorch"


def get_type_promotion() -> str:
    """Whose rules of promotion hold: "pytorch" or "array_api"."""
    return _promotion


def set_type_promotion(rules: str) -> None:
    """Choose the rules of promotion for the whole process; GPUTENSOR_TYPE_PROMOTION does so from
    outside.

    rules: "pytorch", where a tensor without dimensions beside one with dimensions changes the kind
    of the result and never its width, or "array_api", where it counts as much as any other, and
    an empty dimension of a mask that is an index picks nothing instead of being refused.
    Raises: ArgumentError for any other value.
    """
    global _promotion
    if type(rules) is not str or rules not in _PROMOTIONS:
        rule = f"be one of {', '.join(map(repr, _PROMOTIONS))}"
        raise errors.wrong_value("set_type_promotion", "rules", rule, rules)
    if rules == _promotion:
        return
    from ..core import promotion  # with the first operator that promotes, or here

    _promotion = rules
    promotion.count_zero_dim(rules == "array_api")
    dispatcher.forget_plans()


set_type_promotion(os.environ.get(VARIABLE) or "pytorch")
