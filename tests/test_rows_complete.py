"""The rows are those of the YAML, family by family, and every overload is reached by a sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import rows
from .harness.cases import CALLABLE, OPS, OPS_OF, cases, operator_of, row_name, takes
from .rows import ROWS, Row


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


def test_every_row_has_cases() -> None:
    for row in CALLABLE:
        assert len(list(cases(row, crossed=True))) >= len(row.samples), row


@pytest.mark.parametrize("row", CALLABLE, ids=str)
def test_every_overload_is_reached(row: Row) -> None:
    """By a sample that its schema takes: what no sample reaches, no harness tests."""
    calls = [case.build() for case in _one_per_sample(row)]
    for op in OPS_OF[row.name]:
        extra = {"out": calls[0].args[0] if calls[0].args else None} if op.kind == "out" else {}
        assert operator_of(op) is not None
        if op.kind == "out":
            import gputensor as gt

            extra = {"out": gt.empty(0)}
        reached = any(takes(op, call.args, {**_without_device(call), **extra}) for call in calls)
        if not reached and op.kind != "out":
            reached = any(takes(op, call.args, call.kwargs) for call in calls)
        assert reached, f"no sample of row {row} reaches {op.name}"


def _one_per_sample(row: Row) -> list:
    return list({id(case.sample): case for case in cases(row, crossed=False)}.values())


def _without_device(call) -> dict:
    return {name: x for name, x in call.kwargs.items() if name not in ("device", "dtype")}
