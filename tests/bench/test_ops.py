"""The benchmark of all operators: its cases follow from those that are there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import gputensor as gt
from bench import ops, peers, record
from bench.environment import environment

# PyTorch's place is taken by ourselves: the cases are what is tested, not their times.
TORCH = SimpleNamespace(ops=gt.ops, from_numpy=gt.from_numpy)


def test_every_family_of_operators_on_tensors_has_cases() -> None:
    small = ops.cases(TORCH, scale=1 << 20)
    made = [case for case in small if ops.arguments(case) is not None]
    assert {"add.Tensor", "exp", "sum.dim_IntList", "mm", "where.self"} <= {c.op for c in made}
    assert {case.family for case in made} >= {"unary", "binary", "reduce", "comparison", "matmul"}
    assert not {c.op for c in made} & {"add_.Tensor", "add.out", "view", "empty_like"}
    assert {case.size for case in ops.cases(TORCH)} == set(ops.SIZES)


def test_it_runs_verifies_and_reports(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "torch", lambda device: TORCH)
    monkeypatch.setattr(peers, "set_threads", lambda name, count: None)
    data = ops.run(rounds=1, scale=1 << 20, families=("neg", "mean", "add"))
    assert not data["failed"] and {c["kind"] for c in data["cases"]} == {
        "unary",
        "reduce",
        "binary",
    }
    assert all(set(c["ratio"]) >= {"torch"} for c in data["cases"])
    assert any("numpy" in c["ratio"] for c in data["cases"])
    record.write(record.build(data, environment("cpu")), tmp_path / "ops-cpu.json")
    text = ops.report(record.read(tmp_path / "ops-cpu.json"))
    assert "**all**" in text and "16 elements" in text


def test_a_slow_case_needs_a_reason_and_a_wrong_one_has_no_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = {"name": "new float32 1048576", "op": "new", "kind": "new", "dtype": "float32",
            "size": 1 << 20, "ratio": {"torch": 0.1}}  # fmt: skip
    assert ops.failures({"cases": [case]}) == [
        "0.10 times as fast as PyTorch, below 0.7",
        "1 slow cases have no reason, such as new float32 1048576",
    ]
    assert ops.reason(case | {"size": 1024}) and ops.reason(case | {"kind": "reduce"})
    monkeypatch.setattr(ops, "_agree", lambda *args: False)
    monkeypatch.setattr(peers, "torch", lambda device: TORCH)
    monkeypatch.setattr(peers, "set_threads", lambda name, count: None)
    found = ops.run(rounds=1, scale=1 << 20, families=("exp",))
    assert set(found["failed"].values()) == {"it differs from PyTorch's"} and not found["cases"]


def test_what_makes_far_more_than_it_reads_is_no_case() -> None:
    by_op = {case.op: case for case in ops.cases(TORCH) if case.size == ops.SIZES[2]}
    assert ops._makes_far_more(by_op["kron"], TORCH)
    assert not ops._makes_far_more(by_op["add.Tensor"], TORCH)


def test_it_says_why_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "torch", lambda device: None)
    monkeypatch.setattr(peers, "why_not", lambda name, device: "it is not installed")
    assert "it is not installed" in ops.report(ops.run())
