"""The benchmark of all operators: its cases are derived from the existing operators."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import gputensor as gt
from bench import __main__ as command, sweep, sweep_cases
from bench.measurement import peers
from bench.records import record
from bench.records.environment import environment

# gputensor replaces PyTorch, because the cases are tested and not their times.
TORCH = SimpleNamespace(ops=gt.ops, from_numpy=gt.from_numpy)


def test_every_family_of_operators_on_tensors_has_cases() -> None:
    small = sweep_cases.cases(TORCH, scale=1 << 20)
    made = [case for case in small if sweep_cases.arguments(case) is not None]
    assert {"add.Tensor", "exp", "sum.dim_IntList", "mm", "where.self"} <= {c.op for c in made}
    assert {case.family for case in made} >= {"unary", "binary", "reduce", "comparison", "matmul"}
    assert not {c.op for c in made} & {"add_.Tensor", "add.out", "view", "empty_like"}
    assert {case.size for case in sweep_cases.cases(TORCH)} == set(sweep_cases.SIZES)


def test_it_runs_verifies_and_reports(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "torch", lambda device: TORCH)
    monkeypatch.setattr(peers, "set_threads", lambda name, count: None)
    data = sweep.run(rounds=1, scale=1 << 20, families=("neg", "mean", "add"))
    assert not data["failed"] and {c["kind"] for c in data["cases"]} == {
        "unary",
        "reduce",
        "binary",
    }
    assert all(set(c["ratio"]) >= {"torch"} for c in data["cases"])
    assert any("numpy" in c["ratio"] for c in data["cases"])
    record.write(record.build(data, environment("cpu")), tmp_path / "sweep-cpu.json")
    text = sweep.report(record.read(tmp_path / "sweep-cpu.json"))
    assert "**all**" in text and "16 elements" in text


def test_a_slow_case_needs_a_reason_and_a_wrong_one_has_no_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = {"name": "new float32 1048576", "op": "new", "kind": "new", "dtype": "float32",
            "size": 1 << 20, "ratio": {"torch": 0.1}}  # fmt: skip
    assert sweep.failures({"cases": [case]}) == [
        "0.10 times as fast as PyTorch, below 0.7",
        "1 slow cases have no reason, such as new float32 1048576",
    ]
    assert sweep.reason(case | {"size": 1024}) and sweep.reason(case | {"kind": "fft"})
    monkeypatch.setattr(sweep, "_agree", lambda *args: False)
    monkeypatch.setattr(peers, "torch", lambda device: TORCH)
    monkeypatch.setattr(peers, "set_threads", lambda name, count: None)
    found = sweep.run(rounds=1, scale=1 << 20, families=("exp",))
    assert set(found["failed"].values()) == {"it differs from PyTorch's"} and not found["cases"]


def test_what_makes_far_more_than_it_reads_is_no_case() -> None:
    by_op = {c.op: c for c in sweep_cases.cases(TORCH) if c.size == sweep_cases.SIZES[2]}
    for op, is_one in (("kron", False), ("add.Tensor", True)):
        given = sweep_cases.arguments(by_op[op])
        assert given is not None and sweep._makes_far_more(by_op[op], given, TORCH) is not is_one


def test_the_same_loop_is_measured_once() -> None:
    """Aliases, and sizes beyond the limit of cubic operators, are left out."""
    sizes: dict[str, list[int]] = {}
    for case in sweep_cases.cases(TORCH):
        if case.dtype == "float32":
            sizes.setdefault(case.op, []).append(case.size)
    assert sizes["erf"] == sizes["sort"] == [*sweep_cases.SIZES]
    assert sizes["special_erf"] == sizes["add.Scalar"] == [1 << 10, 1 << 20]
    assert sizes["linalg_svd"] == sizes["conv2d"] == [1 << 10, 1 << 15, 1 << 20]


def test_what_is_cut_off_leaves_its_record_and_goes_on_beside_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "torch", lambda device: TORCH)
    monkeypatch.setattr(peers, "set_threads", lambda name, count: None)
    measure, done = sweep._measure, []

    def cut_off(case: Any, *args: Any) -> None:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(case.number)
        measure(case, *args)

    monkeypatch.setattr(sweep, "_measure", cut_off)
    few = ["run", "sweep", "--rounds", "1", "--scale", str(1 << 20), "--families", "neg"]
    first, second = tmp_path / "first", tmp_path / "second"
    with pytest.raises(KeyboardInterrupt):
        command.main([*few, "--out", str(first)])
    kept = record.read(first / "sweep-cpu.json")
    assert sorted([c["number"] for c in kept["cases"]] + kept["refused"]) == done
    monkeypatch.setattr(sweep, "_measure", measure)
    beside = ["--beside", str(first / "sweep-cpu.json")]
    assert command.main([*few, *beside, "--out", str(second)]) == command.FINE
    rest = record.read(second / "sweep-cpu.json")
    numbers = {c["number"] for c in rest["cases"]} | set(rest["refused"])
    assert numbers and not numbers & set(done)
    whole, _ = record.merged([kept, rest], sweep)
    assert len(whole["cases"]) == len(kept["cases"]) + len(rest["cases"])


def test_a_call_that_takes_long_is_said_and_a_sample_is_the_same_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "torch", lambda device: TORCH)
    monkeypatch.setattr(peers, "set_threads", lambda name, count: None)
    few: dict[str, Any] = {"rounds": 1, "scale": 1 << 20, "families": ("neg", "exp"), "sample": 3}
    first, second = (sweep.run(**few) for _ in range(2))
    names = [case["name"] for case in first["cases"]]
    assert names == [c["name"] for c in second["cases"]] and 0 < len(names) <= 3
    monkeypatch.setattr(sweep, "LONGEST_S", 0.0)
    slow = sweep.run(**few)
    assert not slow["cases"] and sorted(slow["too_long"]) == sorted(names)
    assert names[0] in sweep.report(slow)


def test_what_is_refused_here_alone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses() -> None:
        gt.matrix_exp(gt.ones(2, 2, dtype=gt.int64))

    monkeypatch.setattr(peers, "torch", lambda device: TORCH)
    monkeypatch.setattr(peers, "set_threads", lambda name, count: None)
    sides = {"gputensor": refuses, "torch": lambda: None}
    monkeypatch.setattr(sweep, "_sides", lambda *args: sides)
    found = sweep.run(rounds=1, scale=1 << 20, families=("exp",), sample=1)
    assert not found["cases"] and not found["failed"] and len(found["refused"]) == 1
    assert "PyTorch's alone: exp" in sweep.report(found) and "matrix_exp" in sweep.report(found)


def test_it_says_why_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "torch", lambda device: None)
    monkeypatch.setattr(peers, "why_not", lambda name, device: "it is not installed")
    assert "it is not installed" in sweep.report(sweep.run())
