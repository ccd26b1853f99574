"""The tiers: coverage of the quick one, ids equal in all workers, budgets by folder."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import budgets, interpreters
from tests.harness import ids, tier, times
from tests.harness.cases import CALLABLE, Case, _spread, cases, dtypes_of, long_cases, some
from tests.rows import Row


def test_a_spread_meets_each_value_of_each_axis_and_no_value_itself_alone() -> None:
    axes = ["a", "b", "c"], ["a", "b", "c"], [1, 2]
    found = tier.spread(*axes)
    assert found == [("a", "b", 1), ("b", "c", 2), ("c", "a", 1)]
    assert all({case[k] for case in found} == set(axis) for k, axis in enumerate(axes))


def _collected(name: str, *combinations: str) -> list[Any]:
    made = []
    for values in combinations:
        call = SimpleNamespace(_idlist=tuple(values))
        made.append(_item(f"{name}[{'-'.join(values)}]", callspec=call))
    return made


def _item(name: str, *marks: str, **others: Any) -> Any:
    return SimpleNamespace(nodeid=name, get_closest_marker=lambda x: x in marks, **others)


def test_the_quick_tier_covers_each_axis_of_a_function() -> None:
    plain = _item("test_f.py::test_plain")
    crossed = _collected("test_f.py::test_crossed", "a1", "a2", "b1", "b2", "c1", "c2")
    one = _collected("test_f.py::test_one_axis", "a", "b", "c")
    gaps = _collected("test_f.py::test_gaps", "a1", "b1", "b2", "c1", "c2")
    found = tier.covering([plain, *crossed, *one, *gaps])
    kept = [plain, *one, crossed[1], crossed[2], crossed[5], gaps[0], gaps[1], gaps[4]]
    assert found == {item.nodeid for item in kept}


@pytest.mark.parametrize(("marks", "most"), [((), tier.MOST), (("whole",), 70)])
def test_of_a_long_axis_the_quick_tier_covers_some(marks: tuple[str, ...], most: int) -> None:
    axes = [f"a{n}" for n in range(70)], ["x", "y"]
    items = [
        _item(f"test_f.py::test_long[{a}-{b}]", *marks, callspec=SimpleNamespace(_idlist=(a, b)))
        for a in axes[0]
        for b in axes[1]
    ]
    ids = [item.callspec._idlist for item in items if item.nodeid in tier.covering(items)]
    assert len(ids) == most and {b for _, b in ids} == {"x", "y"}
    assert len({a for a, _ in ids}) == most and ids[0][0] == "a0" and ids[-1][0] in ("a65", "a69")


def test_of_a_large_family_the_quick_tier_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"a{n}" for n in range(20)] + ["b0", "b1"]
    monkeypatch.setattr(tier, "chosen", "quick")
    found = tier.some(rows, lambda row: row[0], 5)
    assert found == ["a0", "a4", "a8", "a12", "a16", "b0", "b1"]
    monkeypatch.setattr(tier, "chosen", "full")
    assert tier.some(rows, lambda row: row[0], 5) == rows


@pytest.mark.parametrize("row", some(CALLABLE, 1), ids=str)
def test_the_quick_tier_meets_all_that_a_row_has(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has each sample, and each overload with each dtype and each layout that the full tier
    has."""
    quick = _spread(row)
    assert {case.sample for case in quick} == set(row.samples)
    if any(x.dtype is None for case in quick for x in case.tensors()):
        assert {case.dtype for case in quick if case.tensors()} == set(dtypes_of(row))

    def met(made: list[Case]) -> set[tuple[str, str, object]]:
        fine = [case for case in made if case.expected() is not None]
        return {(c.op().name, part, getattr(c, part)) for c in fine for part in ("dtype", "layout")}

    monkeypatch.setattr(tier, "chosen", "full")
    full = list(cases(row, crossed=False))
    assert met(quick) >= met(full), sorted(map(str, met(full) - met(quick)))
    assert len(quick) <= len(full)


def test_long_cases_are_long_and_keep_their_broadcasts() -> None:
    (add,) = [row for row in CALLABLE if row.name == "add"]
    sizes = {tuple(x.sizes for x in case.tensors()) for case in long_cases(add)}
    assert ((54, 81), (81,)) in sizes and ((), ()) not in sizes


def test_an_id_has_no_address() -> None:
    thing = object()
    assert ids.has_address(repr(thing))
    assert ids.without_address(repr)([thing]) == "[<object object>]"


def test_all_of_the_folder_of_oracles_has_the_mark() -> None:
    """Other test runs ignore the folder."""
    files = sorted((Path(__file__).parents[1] / "oracle").rglob("test_*.py"))
    marks = [re.search(r"^pytestmark = .*?oracle", file.read_text(), re.M | re.S) for file in files]
    assert len(files) > 30 and not [file.name for file, mark in zip(files, marks) if not mark]


# --- budgets --------------------------------------------------------------------------------------

MEASURED: dict[str, Any] = {
    "tier": "full",
    "reference_s": 0.5,
    "folders": {
        "tests/core": [29.0, 10], "tests/amp": [41.0, 7], "tests/cli": [20.0, 3],
        "tests/repo": [20.0, 2], "tests/cuda": [20.0, 5], "tests/test_new.py": [1.0, 1],
    },
}  # fmt: skip
BUDGETS = dict.fromkeys(("tests/core", "tests/amp", "tests/cli", "tests/repo", "tests/cuda"), 40.0)


def test_a_folder_may_take_twice_its_budget() -> None:
    lines, wrong = budgets.judge(MEASURED, BUDGETS)
    assert len(wrong) == 1 and wrong[0].startswith("tests/amp took 41.0 s")
    assert [line.split()[0] for line in lines[1:3]] == ["tests/amp", "tests/core"]
    assert "205% EXCEEDED" in lines[1] and "145%" in lines[2]


def test_a_machine_that_became_slower_exceeds_no_budget() -> None:
    """The machine was fast during the reference loop. A folder that is slower than the others is
    still reported."""
    slower = {name: [2 * s, n] for name, (s, n) in MEASURED["folders"].items()}
    _, wrong = budgets.judge(MEASURED | {"folders": slower}, BUDGETS)
    assert len(wrong) == 1 and wrong[0].startswith("tests/amp took 82.0 s")


def test_a_small_folder_may_compile_what_it_shares_with_others() -> None:
    """Chance decides which folder compiles it; the time is below the tier's threshold."""
    for seconds, exceeded in ((4.5, 0), (5.5, 1)):
        folders = MEASURED["folders"] | {"tests/amp": [20.0, 7], "tests/op_db": [seconds, 8]}
        _, wrong = budgets.judge(MEASURED | {"folders": folders}, BUDGETS | {"tests/op_db": 4.0})
        assert len(wrong) == exceeded, seconds


def test_budgets_are_written_by_tier() -> None:
    text = budgets.written("full", MEASURED, {"quick": {"tests/core": 3}})
    read = tomllib.loads(text)
    assert read["full"]["tests/core"] == 58 and read["full"]["tests/test_new.py"] == 2
    assert read["quick"] == {"tests/core": 3}


def test_a_file_in_the_root_stands_for_a_folder() -> None:
    assert times.folder_of("tests/core/test_device.py::test_x[1]") == "tests/core"
    assert times.folder_of("tests/test_numbers.py::test_x[a/b::c]") == "tests/test_numbers.py"


# --- other Pythons --------------------------------------------------------------------------------


def test_a_python_is_taken_for_what_it_says_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"python3.12": None, "/there/3.12.1/bin/python3": "3.12", "python3.13": "3.11"}
    monkeypatch.setattr(interpreters, "version_of", said.get)
    monkeypatch.setattr(
        interpreters, "candidates",
        lambda version: [path for path in said if version in path],
    )  # fmt: skip
    monkeypatch.setattr(interpreters, "VERSIONS", ("3.12", "3.13", "3.99"))
    monkeypatch.setattr(interpreters.sys, "version_info", (3, 11))
    assert interpreters.others() == {"3.12": "/there/3.12.1/bin/python3"}
