"""One row per operator: samples of arguments, a NumPy reference, a tolerance, expected errors.

A row repeats nothing of native_functions.yaml. The general tests
(`tests/operators/test_ops_*.py`) contain no operator's name and read forms, dtypes and overloads
from the YAML. A new operator needs one row in the file of its family. `x.add_` and `add.out` are
forms of the row `add`; an operator without another form, such as `copy_`, keeps its underscore.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from gputensor.core.dtype import dtype

from ..harness.operands import T

__all__ = ["DEVICE", "DTYPE", "FAMILIES", "Fails", "ROWS", "Row", "S", "T", "grid", "pairs"]


class Placeholder:
    """Stands in a sample for a value that the case sets."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


DTYPE = Placeholder("dtype")
DEVICE = Placeholder("device")


class S:
    """A sample: the arguments of one call as a user writes them, tensors as `T`."""

    __slots__ = ("args", "kwargs")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


class Fails:
    """A call that must raise `kind`, with `message` found in its sentence, and change nothing."""

    __slots__ = ("sample", "kind", "message", "dtype")

    def __init__(self, sample: S, kind: type, message: str, dtype: dtype | None = None) -> None:
        self.sample, self.kind, self.message, self.dtype = sample, kind, message, dtype


class Row:
    """The facts about an operator that the harnesses need and the YAML lacks.

    ref: the reference, called like the operator with arrays instead of tensors: in float64,
    complex128, int64 or uint64 if the YAML has `dtypes`, otherwise in the operand's dtype. None if
    the values are unspecified (`empty`), or if there is no kernel.
    ulp: the allowed distance from the reference, in units in the last place; 0 means correctly
    rounded. A number or a mapping from dtypes. why: the reason for this number.
    device_ulp: the allowed distance between devices; 0 means equal bits.
    of_largest: both distances count units of a result's largest element, because rounding errors
    have the size of the terms, even if the terms cancel.
    operator: Python's operator, if it calls this one.
    out: dtypes that `out` may have: `castable` from the result's, `same`, `any`, `inexact`
        (floating and complex), `not_bool`, `truth` (bool and uint8), or `own`: out determines the
        dtype.
    may_copy: the result is a view if the strides allow it, otherwise a copy.
    result: a function from (arguments, keyword arguments, default) to the result's dtype, if it is
    neither `dtype=` nor the first tensor's; a tuple for several results.
    rule: (arguments, keyword arguments) -> a rule that replaces the YAML's `dtypes`, or None.
    refuses: (operands, keyword arguments, compute dtype) -> True if the call must raise although
    the YAML's dtypes allow it; an operand is (sizes, dtype) or a number.
    zeros_equal: 0.0 and -0.0 count as equal.
    takes_expanded: the in-place form may write one value to an expanded self.
    numbers_meet: numbers promote with the tensors, although they are Scalars in the schema.
    positive: it has no derivative at negative numbers. domain: the magnitudes of the numbers at
    which it is differentiated.
    like: another row with the same loop; so this row needs few samples, and no long ones.
    checked_by: the test that checks its derivative, if finite differences cannot.
    refuses_expanded: an expanded `self` must not be written to.
    no_meta: why it cannot be called on the meta device. needs_backend: no built-in device has it.
    dtypes: the accepted dtypes, for operators whose YAML entry does not define them.
    """

    __slots__ = (
        "name",
        "samples",
        "ref",
        "ulp",
        "why",
        "device_ulp",
        "of_largest",
        "operator",
        "out",
        "errors",
        "may_copy",
        "result",
        "refuses",
        "dtypes",
        "no_meta",
        "needs_backend",
        "zeros_equal",
        "refuses_expanded",
        "rule",
        "positive",
        "domain",
        "like",
        "takes_expanded",
        "numbers_meet",
        "checked_by",
    )

    def __init__(
        self, name: str, samples: list[S], ref: Callable[..., Any] | None = None, *,
        ulp: float | dict[dtype, float] = 0, why: str = "", device_ulp: float = 0,
        of_largest: bool = False, operator: Any = None, out: str = "castable",
        errors: tuple[Fails, ...] = (),
        may_copy: bool = False, result: Any = None, refuses: Any = None,
        dtypes: tuple[dtype, ...] | None = None, no_meta: str = "", needs_backend: bool = False,
        zeros_equal: bool = False, refuses_expanded: bool = False, rule: Any = None,
        positive: bool = False, domain: tuple[float, float] = (0.3, 1.7), like: str = "",
        takes_expanded: bool = False, numbers_meet: bool = False, checked_by: str = "",
    ) -> None:  # fmt: skip
        assert why or not (ulp or device_ulp), f"{name}: a tolerance needs its reason"
        assert samples or needs_backend, name
        self.name, self.samples, self.ref, self.ulp, self.why = name, samples, ref, ulp, why
        self.device_ulp, self.operator, self.out, self.errors = device_ulp, operator, out, errors
        self.may_copy, self.result, self.refuses = may_copy, result, refuses
        self.dtypes, self.no_meta, self.needs_backend = dtypes, no_meta, needs_backend
        self.zeros_equal, self.refuses_expanded, self.rule = zeros_equal, refuses_expanded, rule
        self.positive, self.domain, self.like = positive, domain, like
        self.takes_expanded, self.numbers_meet = takes_expanded, numbers_meet
        self.checked_by, self.of_largest = checked_by, of_largest

    def __repr__(self) -> str:
        return self.name

    def ulp_of(self, of: dtype) -> float:
        return self.ulp.get(of, 0) if isinstance(self.ulp, dict) else self.ulp


# Sizes that every loop must handle: several dimensions, none, no elements, sizes of 1.
SHAPES = ((2, 3), (), (0, 3), (1, 3, 1), (2, 3, 4, 5), (7,))


def grid(values: str = "any") -> list[S]:
    """Return one operand of each of the sizes that every loop must handle."""
    return [S(T(*sizes, values=values)) for sizes in SHAPES]


def with_copies(rows: list[Row], names: str) -> list[Row]:
    """Return the rows, and one row for the copy of each view, with the view's errors."""
    of = {row.name: row for row in rows}
    made = [
        Row(
            f"{row.name}_copy", row.samples, row.ref, out="same", result=row.result,
            dtypes=row.dtypes,
        )
        for row in map(of.__getitem__, names.split())
    ]  # fmt: skip
    return sorted([*rows, *made], key=lambda row: row.name.strip("_"))


def pairs(values: str = "any", second: str | None = None) -> list[S]:
    """Return pairs of operands: of equal sizes, broadcast, with 0-d tensors, numbers, other dtypes
    and layouts."""
    from gputensor.core import dtype as d

    second = second or values
    made = [S(T(*sizes, values=values), T(*sizes, values=second)) for sizes in SHAPES]
    for a, b in (
        ((2, 3), (3,)),
        ((3, 1), (1, 4)),
        ((4, 1, 3), (2, 1)),
        ((2, 3), ()),
        ((), (2, 3)),
        ((0, 3), (3,)),
        ((2, 3, 4, 5), (3, 1, 1)),
        ((0,), (1,)),
    ):
        made.append(S(T(*a, values=values), T(*b, values=second)))
    made.append(S(T(2, 3, values=values), T(2, 3, values=second, layout="transposed")))
    made.append(
        S(T(2, 3, 4, 5, values=values), T(2, 3, 4, 5, values=second, layout="channels_last"))
    )
    for other in (d.float32, d.int32, d.uint8, d.bool_, d.bfloat16, d.complex64, d.float64):
        made.append(S(T(2, 3), T(2, 3, values="nonzero", dtype=other)))
        made.append(S(T(2, 3), T(values="nonzero", dtype=other)))
    made.append(S(T(values="exact"), T(values="nonzero", dtype=d.float64)))
    for number in (2, 3.5, True):
        made.append(S(T(2, 3), number))
        made.append(S(T(), number))
    made.append(S(T(2, 3), 2 + 1j))
    return made


def _gather() -> dict[str, dict[str, Row]]:
    found = {}
    for family in FAMILIES:
        rows = import_module(f"{__name__}.{family}").ROWS
        found[family] = {row.name: row for row in rows}
        assert len(found[family]) == len(rows), f"{family}: a row is there twice"
    return found


FAMILIES = tuple(sorted(module.name for module in iter_modules(__path__)))  # a file for each family
BY_FAMILY = _gather()
ROWS = {name: row for rows in BY_FAMILY.values() for name, row in rows.items()}
