"""The default dtype and the promotion rules of the whole process.

The default *device* is in `backend_select.py`.
"""

from __future__ import annotations

import os

from ..core import errors
from ..core.dtype import FLOATING, dtype, float32
from . import dispatcher

_default = float32


def get_default_dtype() -> dtype:
    """Return the dtype of Python floats, of factory results without a given dtype, and of quotients
    of integers."""
    return _default


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
    # An operator's plan contains a result dtype, but not the default dtype from which the result
    # dtype was computed (structured/pointwise/). The existing plans are therefore wrong, and each
    # operator that was called gets a new table without plans. A call that is running stores its
    # plan on the old table, which later calls do not use.
    dispatcher.forget_plans()


_PROMOTIONS = ("pytorch", "array_api")
VARIABLE = "GPUTENSOR_TYPE_PROMOTION"
_promotion = "pytorch"


def get_type_promotion() -> str:
    """Return the promotion rules in use: "pytorch" or "array_api"."""
    return _promotion


def set_type_promotion(rules: str) -> None:
    """Choose the promotion rules for the whole process, as GPUTENSOR_TYPE_PROMOTION does.

    rules: with "pytorch", a 0-d tensor combined with a tensor with dimensions changes only the
    category of the result, not its width. With "array_api", it promotes like any tensor, and a mask
    index with an empty dimension selects nothing instead of raising.
    Raises: ArgumentError for any other value.
    """
    global _promotion
    if type(rules) is not str or rules not in _PROMOTIONS:
        rule = f"be one of {', '.join(map(repr, _PROMOTIONS))}"
        raise errors.wrong_value("set_type_promotion", "rules", rule, rules)
    if rules == _promotion:
        return
    # Imported here, so that this module does not load before an operator promotes dtypes.
    from ..core import promotion

    _promotion = rules
    promotion.count_zero_dim(rules == "array_api")
    dispatcher.forget_plans()


set_type_promotion(os.environ.get(VARIABLE) or "pytorch")
