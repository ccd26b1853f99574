"""CUDA's host cost, measured by CuPy's own launches over a stub of the driver; where that is
impossible, one sentence tells the reason."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.host import host_cuda, stub_driver
from bench.records import compare, record
from bench.records.environment import environment


def test_it_measures_without_a_gpu_and_its_records_compare(tmp_path: Path) -> None:
    measured = host_cuda.run(rounds=12)
    made = json.loads(json.dumps(record.build(measured, environment("cpu"))))
    record.write(made, tmp_path / "host_cuda-cpu.json")
    kept = record.read(tmp_path / "host_cuda-cpu.json")
    if kept["skipped"]:
        assert not kept["cases"] and "Skipped: cupy (" in host_cuda.report(kept)
        pytest.skip(kept["skipped"]["cupy"])
    names = [case["name"] for case in kept["cases"]]
    assert set(host_cuda.BUDGETS) < set(names) and names[-1] == host_cuda.FLOOR
    floor = kept["cases"][-1]["ns"]["gputensor"]
    assert all(case["ns"]["gputensor"] > floor > 0 for case in kept["cases"][:-1])
    assert not compare.not_comparable(kept, kept) and len(compare.compare(kept, kept)) == len(names)
    assert host_cuda.report(kept).count("\n|") == len(names) + 1


def test_where_cupy_was_there_first_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
    assert host_cuda._measure(1) == {
        "cases": [], "skipped": {"cupy": "CuPy was imported before the stub of its driver"},
    }  # fmt: skip


def test_where_there_is_no_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    reason = "the CUDA emulator needs g++, and g++ is not on PATH"
    monkeypatch.setattr(stub_driver.toolchain, "unavailable_reason", lambda: reason)
    (why,) = host_cuda._measure(1)["skipped"].values()
    assert why == "the stub of the driver needs g++, and g++ is not on PATH"


def test_a_missed_budget_is_a_sentence() -> None:
    def cases(ns: float) -> dict[str, object]:
        timed = {"a + b": ns, "-a": 9000.0, host_cuda.FLOOR: 100.0}
        return {"cases": [{"name": name, "ns": {"gputensor": ns}} for name, ns in timed.items()]}

    assert host_cuda.failures(cases(1500.0)) == []
    assert host_cuda.failures(cases(1511.0)) == [
        "a + b takes 15.1 times launchKernel alone before the driver, more than 15.0"
    ]
    assert "| `a + b` | 1500 | 15.0 | 15.0 |" in host_cuda.report(cases(1500.0))
