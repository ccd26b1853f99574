"""Rows and YAML have the same operators in each family, and a sample reaches every overload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gputensor as gt
from codegen.model import Op

from .. import rows
from ..harness.cases import OPS, OPS_OF, Call, cases, row_name, takes
from ..rows import ROWS, Row


def test_files_are_the_families() -> None:
    files = {path.stem for path in Path(rows.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == set(rows.FAMILIES) == {op.family for op in OPS}


def test_rows_are_the_operators() -> None:
    assert ROWS and set(ROWS) == {row_name(op) for op in OPS}


@pytest.mark.parametrize("family", rows.FAMILIES)
def test_rows_lie_in_their_family(family: str) -> None:
    names = list(rows.BY_FAMILY[family])
    assert names, "a family without rows"
    assert names == sorted(names, key=lambda name: name.strip("_")), "rows go from a to z"
    assert {op.family for name in names for op in OPS_OF[name]} == {family}


def test_only_operators_without_a_kernel_are_left_out() -> None:
    left_out = {name for name, row in ROWS.items() if row.needs_backend}
    assert left_out == {op.base for op in OPS if op.dispatch == {}}


@pytest.mark.parametrize("family", rows.FAMILIES)
def test_every_overload_is_reached(family: str) -> None:
    """A sample must fit the schema of each overload, because the harnesses only test sampled
    calls."""
    for row in rows.BY_FAMILY[family].values():
        if not row.needs_backend:
            check_overloads_are_reached(row)


def check_overloads_are_reached(row: Row) -> None:
    made = list(cases(row, crossed=True))
    assert len(made) >= len(row.samples)
    calls = [case.build() for case in {id(case.sample): case for case in made}.values()]
    for op in OPS_OF[row.name]:
        reached = any(takes(op, call.args, _keywords(op, call)) for call in calls)
        assert reached, f"no sample of row {row} reaches {op.name}"


def _keywords(op: Op, call: Call) -> dict[str, Any]:
    """Return the call's keyword arguments in the form that an `out` overload takes."""
    if op.kind != "out":
        return call.kwargs
    takes_dtype = any(argument.name == "dtype" for argument in op.arguments)
    dropped = ("device",) if takes_dtype else ("device", "dtype")
    kept = {name: x for name, x in call.kwargs.items() if name not in dropped}
    return {**kept, **{out.name: gt.empty(0) for out in op.schema.out_arguments}}
