"""The dtypes of a call's arithmetic and of its result, by `dtypes:` in the YAML.

Written independently of the kernels, from PyTorch's rules (words of core/dtype_rules.py).
"""

from __future__ import annotations

from typing import Any

from gputensor.core import dtype as dtypes
from gputensor.core.dtype import BOOL, COMPLEX, FLOATING, INTEGER, dtype
from gputensor.core.errors import DtypeError
from gputensor.core.geometry import contiguous_geometry
from gputensor.core.promotion import result_type

DEFAULT = dtypes.float32


class Expected:
    """compute: the dtype to which operands are cast. result: the result's dtype."""

    __slots__ = ("compute", "result")

    def __init__(self, compute: dtype, result: dtype) -> None:
        self.compute, self.result = compute, result


def promoted(operands: list[Any]) -> dtype | None:
    """Return the promoted dtype of (sizes, dtype) pairs and numbers; None if there is none."""
    specs = tuple(
        [(contiguous_geometry(*x), None) if type(x) is tuple else type(x) for x in operands]
    )
    try:
        return result_type("test", specs, DEFAULT)
    except DtypeError:
        return None


def expected(rule: str, family: str, operands: list[Any], wanted: dtype | None) -> Expected | None:
    """Return the dtypes of a call by its rule in the YAML; None if the call must raise.

    operands: (sizes, dtype) of a tensor or a Python number. wanted: the argument `dtype`.
    """
    common = promoted(operands)
    if common is None:
        return None
    rule = rule.removesuffix("_or_float8")  # see tensor/test_float8_operators.py
    result = _RULES[rule](common, wanted)
    if result is None:
        return None
    if family == "comparison":
        return Expected(result, dtypes.bool_)
    if rule in ("complex_to_real", "floating_to_real"):
        return Expected(result, result.to_real)
    if rule in ("truth", "truth_real"):
        return Expected(result, dtypes.bool_)
    if rule == "places":
        return Expected(result, dtypes.int64)
    if rule == "any":
        return Expected(result, dtypes.uint8 if result is dtypes.uint8 else dtypes.bool_)
    return Expected(result, result)


def _floating(common: dtype, wanted: dtype | None) -> dtype:
    return common if common.category >= FLOATING else DEFAULT


def _unless(category: int) -> Any:
    return lambda common, wanted: None if common.category == category else common


def _sums(common: dtype, wanted: dtype | None) -> dtype:
    return wanted or (dtypes.int64 if common.category <= INTEGER else common)


def _floating_only(common: dtype, wanted: dtype | None) -> dtype | None:
    found = wanted or common
    return found if found.category >= FLOATING else None


def _real_floating(common: dtype, wanted: dtype | None) -> dtype | None:
    return common if common.category == FLOATING else None


def _numeric_real(common: dtype, wanted: dtype | None) -> dtype | None:
    return None if common.category in (BOOL, COMPLEX) else common


def _itself(common: dtype, wanted: dtype | None) -> dtype:
    return common


_RULES = {
    "any": _itself,
    "same": _itself,
    "real": _unless(COMPLEX),
    "no_bool": _unless(BOOL),
    "numeric_real": _numeric_real,
    "real_floating": _real_floating,
    "places": _numeric_real,
    "floating": _floating,
    "floating_real": lambda common, wanted: _real_floating(_floating(common, wanted), wanted),
    "floating_only": _floating_only,
    "sums": _sums,
    "sums_real": lambda common, wanted: _unless(COMPLEX)(common, wanted) and _sums(common, wanted),
    "products": _sums,
    "running": _sums,
    "complex_to_real": _itself,
    "floating_to_real": _floating,
    "truth": _itself,
    "truth_real": _unless(COMPLEX),
    "bits": lambda common, wanted: common if common.category <= INTEGER else None,
    "promoted": _itself,
    "promoted_float": _floating,
    "promoted_no_bool": _unless(BOOL),
    "promoted_numeric": _unless(BOOL),
    "promoted_real_floating": _real_floating,
    "promoted_integral": lambda common, wanted: common if common.category <= INTEGER else None,
    "promoted_integer": lambda common, wanted: common if common.category == INTEGER else None,
    "promoted_floating": _floating_only,
    "promoted_real": _unless(COMPLEX),
    "promoted_numeric_real": _numeric_real,
    "promoted_float_real": lambda common, wanted: _real_floating(_floating(common, wanted), wanted),
    "conjugated": _itself,
}
