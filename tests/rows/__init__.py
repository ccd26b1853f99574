"""One row per operator: samples of arguments, a NumPy reference, a tolerance, expected errors.

A row repeats nothing of native_functions.yaml; the general tests (`tests/test_ops_*.py`) know no
operator by name and take forms, dtypes and overloads from there. A new operator needs one row in
the file of its family. `x.add_` and `add.out` are forms of the row `add`; an operator without
another form, such as `copy_`, keeps its underscore.
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
    """Stands in a sample for what only the case knows."""

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
    """What the harnesses need to know of an operator beyond the YAML.

    ref: the reference, called as the operator with arrays in place of tensors: in float64,
        complex128, int64 or uint64 where the YAML has `dtypes`, else in the operand's own dtype.
        None where there are no values to expect (`empty`), or no kernel.
    ulp: how far from the reference, in units in the last place; 0 is the correct rounding. A number
        or a mapping from dtypes. why: where that number comes from.
    device_ulp: how far the devices may be apart; 0 is equal bits.
    of_largest: both count units of a result's largest element: rounding errors are as large as the
        terms, also where these cancel.
    operator: Python's operator, where it calls this one.
    out: dtypes that `out` may have: `castable` from the result's, `same`, `any`, `inexact`
        (floating and complex), `not_bool`, `truth` (bool and uint8), or `own`: it decides.
    may_copy: a view where the strides allow it, else a copy.
    result: dtype of the result from (arguments, keyword arguments, default), where it is neither
        `dtype=` nor the first tensor's; a tuple of several results'.
    rule: (arguments, keyword arguments) -> what stands in for the YAML's `dtypes`, or None.
    refuses: (operands, keyword arguments, compute dtype) -> whether the call is to be refused
        although the YAML's dtypes allow it; an operand is (sizes, dtype) or a number.
    zeros_equal: 0.0 and -0.0 are one result.
    takes_expanded: in place, it writes one value to an expanded self.
    numbers_meet: numbers promote with the tensors, though the schema has them as Scalars.
    positive: it has no derivative at negative numbers. domain: sizes of the numbers at which it is
        differentiated.
    like: another row, whose loop it shares; so it needs few samples, and no long ones.
    checked_by: the test that checks its derivative, where differences of its own would not tell.
    refuses_expanded: an expanded `self` must not be written to.
    no_meta: why it cannot be called on the meta device. needs_backend: no device of ours has it.
    dtypes: that it takes, for operators whose YAML entry does not say.
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


# Sizes that every loop must get right: several dimensions, none, no elements, sizes of 1.
SHAPES = ((2, 3), (), (0, 3), (1, 3, 1), (2, 3, 4, 5), (7,))


def grid(values: str = "any") -> list[S]:
    """One operand of each of the sizes that every loop must get right."""
    return [S(T(*sizes, values=values)) for sizes in SHAPES]


def with_copies(rows: list[Row], names: str) -> list[Row]:
    """The rows, and one for the copy of each of these views; its refusals are the view's."""
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
    """Two operands: of one size, broadcast, beside 0-d ones, numbers, other dtypes and layouts."""
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


FAMILIES = tuple(sorted(module.name for module in iter_modules(__path__)))  # by the file law
BY_FAMILY = _gather()
ROWS = {name: row for rows in BY_FAMILY.values() for name, row in rows.items()}
