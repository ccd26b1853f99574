"""`python -m bench run scaling`: real ranks and workers, and the table of their times."""

from __future__ import annotations

import pytest

from bench import scaling

MS = 1e6


def record(all_reduce: float, scale: int = 1) -> dict[str, object]:
    times = {1: 90.0, 2: 60.0, 4: 45.0}
    cases = []
    for n, ms in times.items():
        ns = {scaling.TRAINING: ms * MS}
        if n > 1:
            ns |= {scaling.OURS: all_reduce * MS, scaling.THEIRS: 8 * MS}
        cases.append({"name": f"{n} ranks", "ns": ns})
    return {"cases": cases, "skipped": {"workers": "dask is not installed"}, "scale": scale}


def test_the_table_has_how_often_as_fast_more_processes_are() -> None:
    text = scaling.report(record(16.0))
    assert f"| {scaling.TRAINING}, ranks | 90.0 ms | 1.50 × | 2.00 × |" in text
    assert "| – | 1.05 GB/s | 1.05 GB/s |" in text and "| – | 0.50 | 0.50 |" in text
    assert "Left out: workers: dask is not installed." in text


def test_speeds_are_of_the_bytes_that_were_moved() -> None:
    text = scaling.report(record(16.0, 16))
    assert "| – | 0.07 GB/s | 0.07 GB/s |" in text and "divided by 16." in text
    assert "divided by" not in scaling.report(record(16.0))


def test_a_missed_budget_is_a_sentence() -> None:
    assert scaling.failures(record(8.0)) == [] == scaling.failures({"cases": []})
    (found,) = scaling.failures(record(16.0))
    assert found == "all_reduce of 16 MiB between 2 ranks has 0.50 of mpi4py's speed, not 0.9"


@pytest.mark.full
def test_ranks_and_workers_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "PARTS", (1, 2))
    for module in ("mpi4py", "dask", "distributed"):
        pytest.importorskip(module, reason="needs gputensor[mpi,clients]")
    found = scaling.run(rounds=1, scale=16)
    ns = {case["name"]: case["ns"] for case in found["cases"]}
    assert list(ns) == [f"{n} {kind}" for kind in ("ranks", "workers") for n in (1, 2)]
    assert set(ns["2 ranks"]) - set(ns["1 ranks"]) == {scaling.OURS, scaling.THEIRS}
    assert set(ns["2 workers"]) == {scaling.STATISTICS, scaling.PRODUCT}
    assert all(value > 0 for case in ns.values() for value in case.values())
