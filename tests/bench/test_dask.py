"""`python -m bench run dask`: its table and its budgets; and all programs at a toy size."""

from __future__ import annotations

import pytest

from bench import dask
from bench.records import record as records
from bench.records.environment import environment


def record(tensors_ms: float) -> dict[str, object]:
    case = {"name": "x.sum()", "ns": {"numpy": 20e6, "gputensor": tensors_ms * 1e6}}
    return {"cases": [case], "threads": 2, "skipped": {}}


def test_the_table_has_both_sides() -> None:
    assert "| `x.sum()` | 20.0 ms | 21.0 ms | 1.05 |" in dask.report(record(21.0))
    left_out = {"cases": [], "threads": 2, "skipped": {"dask": "dask is not installed"}}
    assert dask.report(left_out).endswith("Left out: dask: dask is not installed.")


def test_a_missed_budget_is_a_sentence() -> None:
    assert dask.failures(record(21.0)) == []
    (found,) = dask.failures(record(30.0))
    assert found == (
        "x.sum() on chunks that are tensors takes 1.50 times as long as on NumPy's, above 1.1"
    )


@pytest.mark.full
def test_all_programs_are_measured() -> None:
    pytest.importorskip("dask", reason="needs gputensor[clients]")
    found = dask.run(rounds=2, scale=16)
    assert [case["name"] for case in found["cases"]] == list(dask._programs())
    assert all(set(case["ns"]) == set(dask.LIBRARIES) for case in found["cases"])
    records.check(records.build(found, environment("cpu")))
