"""`python -m bench run import`: it times new processes, and the package with a larger index."""

from __future__ import annotations

import pytest

from bench import benchmarks

benchmark = benchmarks.module("import")


@pytest.mark.full
def test_it_measures_and_tells_the_ratio() -> None:
    record = benchmark.run(rounds=1)
    names = [case["name"] for case in record["cases"]]
    assert names[:2] == ["start-up alone", "numpy"] and "4 times the names" in names[-1]
    assert all(case["ns"]["process"] > case["ns"]["import"] > 0 for case in record["cases"])
    assert "| numpy |" in benchmark.report(record)


def test_a_missed_budget_is_a_sentence() -> None:
    def record(ours: float) -> dict[str, object]:
        ns = {"numpy": 10.0, "gputensor": ours}
        cases = [{"name": n, "ns": {"import": t, "process": t}} for n, t in ns.items()]
        return {"cases": cases, "budget": benchmark.BUDGET}

    assert benchmark.failures(record(13.0)) == []
    assert benchmark.failures(record(14.0)) == ["an import takes 1.40 times NumPy's, not 1.35"]
