"""The rules behind `dtypes:` in native_functions.yaml: dtypes of operands and of results.

Each word in that field is one rule. Native code checks operands by the rule, and the rule decides
which kernels are compiled. Docstrings and docs/operators.md quote its text.
"""

from __future__ import annotations

from typing import Any

from . import errors
from .dtype import BOOL, dtype

# Letters of dtype.category: bool, integers, floating, complex.
KINDS = "bifc"


class DtypeRule:
    """The dtypes that an operator accepts. text: the rule as a sentence for docstrings. kinds: the
    categories that the dtype of the computation may have.

    to_float: bool and integers are computed in the default dtype. gives_real: complex operands
    produce a real result. gives_bool: the result is bool. each: every operand must have one of
    these kinds, not only the promoted dtype. remedy: an alternative, for the error message.
    takes_float8: float8 dtypes are accepted, and computed in float32.
    """

    __slots__ = (
        "text", "kinds", "to_float", "gives_real", "gives_bool", "each", "remedy",
        "takes_float8",
    )  # fmt: skip
    text: str
    kinds: str
    to_float: bool
    gives_real: bool
    gives_bool: bool
    each: bool
    remedy: str

    def __init__(
        self, text: str, kinds: str = KINDS, *, to_float: bool = False, gives_real: bool = False,
        gives_bool: bool = False, each: bool = False, remedy: str = "", takes_float8: bool = False,
    ) -> None:  # fmt: skip
        self.text, self.kinds, self.to_float = text, kinds, to_float
        self.gives_real, self.gives_bool, self.each, self.remedy = (
            gives_real, gives_bool, each, remedy,
        )  # fmt: skip
        self.takes_float8: bool = takes_float8

    @property
    def refuses(self) -> bool:
        """True if the rule rejects at least one dtype."""
        return self.kinds != (KINDS[2:] if self.to_float else KINDS)

    def takes(self, of: dtype) -> bool:
        return KINDS[of.category] in self.kinds

    def check(self, op: str, arg: str, of: dtype, got: Any = None) -> None:
        """Check a dtype of operands. Raises: DtypeError if the rule rejects it."""
        if of.is_float8 and self.kinds != KINDS:
            raise errors.not_computed(op, arg, of, errors.Got(of.short) if got is None else got)
        if not self.takes(of):
            lacks = "".join(kind for kind in KINDS if kind not in self.kinds)
            got = errors.Got(of.short) if got is None else got
            rule = _SENTENCES[lacks]
            remedy = self.remedy if of.category == BOOL else ""
            raise errors.must(op, arg, rule, got, kind=errors.DtypeError, remedy=remedy)


# Maps the rejected kinds to the text of the rule in the error message.
_SENTENCES = {
    "b": "not be bool", "c": "be real", "bc": "be real and not bool", "bic": "be floating",
    "bi": "be floating or complex", "bfc": "be an integer", "bif": "be complex",
    "fc": "be bool or an integer",
}  # fmt: skip

RULES = {
    "any": DtypeRule("any dtype"),
    "same": DtypeRule("of one dtype"),
    "real": DtypeRule("any dtype but complex", "bif"),
    "no_bool": DtypeRule("any dtype but bool", "ifc", remedy="use logical_not"),
    "numeric_real": DtypeRule("any dtype but bool and complex", "if"),
    "real_floating": DtypeRule("floating", "f"),
    "places": DtypeRule("any dtype but bool and complex; the result is int64", "if"),
    "floating": DtypeRule(
        "floating or complex; integers and bool promote to the default float", "fc", to_float=True
    ),
    "floating_real": DtypeRule(
        "floating; integers and bool promote to the default float", "f", to_float=True
    ),
    "floating_only": DtypeRule("floating or complex", "fc"),
    "sums": DtypeRule("any dtype; integers and bool sum as int64"),
    "sums_real": DtypeRule("any dtype but complex; integers and bool sum as int64", "bif"),
    "running": DtypeRule("any dtype; integers and bool run as int64"),
    "products": DtypeRule("any dtype; integers and bool multiply as int64"),
    "complex_to_real": DtypeRule("any dtype; the result of complex is real", gives_real=True),
    "complex_to_real_or_float8": DtypeRule(
        "any dtype, also float8; the result of complex is real", gives_real=True, takes_float8=True
    ),
    "floating_to_real": DtypeRule(
        "floating, or complex, which gives real; others promote to the default float",
        "fc", to_float=True, gives_real=True,
    ),
    "truth": DtypeRule("any dtype; the result is bool", gives_bool=True),
    "truth_or_float8": DtypeRule(
        "any dtype, also float8; the result is bool", gives_bool=True, takes_float8=True
    ),
    "truth_real": DtypeRule("any dtype but complex; the result is bool", "bif", gives_bool=True),
    "bits": DtypeRule("bool or an integer", "bi"),
    "conjugated": DtypeRule("any dtype; real dtypes do not change", "c"),
    "promoted": DtypeRule("promoted to a common dtype"),
    "promoted_or_float8": DtypeRule(
        "promoted to a common dtype, which may be float8", takes_float8=True
    ),
    "promoted_float": DtypeRule(
        "promoted to a common dtype, integers and bool to the default float", "fc", to_float=True
    ),
    "promoted_float_real": DtypeRule(
        "promoted to a common dtype, integers and bool to the default float; not complex", "f",
        to_float=True,
    ),
    "promoted_no_bool": DtypeRule(
        "promoted to a common dtype; none may be bool", "ifc", each=True,
        remedy="use != or logical_xor",
    ),
    "promoted_numeric": DtypeRule("promoted to a common dtype, which is not bool", "ifc"),
    "promoted_real": DtypeRule("promoted to a common dtype, which is not complex", "bif"),
    "promoted_floating": DtypeRule("promoted to a common dtype, floating or complex", "fc"),
    "promoted_real_floating": DtypeRule("promoted to a common dtype, which is floating", "f"),
    "promoted_integral": DtypeRule("promoted to a common dtype, bool or an integer", "bi"),
    "promoted_integer": DtypeRule("promoted to a common dtype, which is an integer", "i"),
    "promoted_numeric_real": DtypeRule(
        "promoted to a common dtype, which is neither bool nor complex", "if"
    ),
}  # fmt: skip
