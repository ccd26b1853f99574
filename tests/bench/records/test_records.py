"""Benchmarks at small sizes: contents and validity of records, errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gputensor as gt
from gputensor import runtime
from bench import __main__ as command, emulator
from bench.copies import layout, layout_sides, pack
from bench.copies.layout_cases import CASES
from bench.host import overhead
from bench.measurement.places import POISON, Host, WrongResult, pattern
from bench.records import compare, record
from bench.records.environment import environment

from ...cuda.support import requires_emulator

ROOT = Path(__file__).parents[3]
SOME = (1, 6, 14, 18, 33, 36, 37)


@pytest.fixture(scope="module")
def data():
    before = gt.get_num_threads()
    yield layout.run("cpu", rounds=5, only=SOME, libraries=("numpy", "opencv"), scale=16)
    gt.set_num_threads(before)


@pytest.fixture(scope="module")
def made(data):
    return record.build(data, environment("cpu"))


@pytest.mark.full
@requires_emulator
@pytest.mark.emulator
def test_the_emulator_has_a_record_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("GPUTENSOR_CUDA", "emulator")
    monkeypatch.setattr(runtime, "_chosen", runtime.cuda())
    data = emulator.run(rounds=2, libraries=())
    record.write(record.build(data, environment("cpu")), tmp_path / "emulator-cpu.json")
    kept = record.read(tmp_path / "emulator-cpu.json")
    names = [case["name"] for case in kept["cases"]]
    assert (
        names[:4] == ["nothing", "axpy", "cross", "block_sum"]
        and "from an edit to the result" in names[-1]
    )
    assert kept["environment"][
        "missing"
    ] is not None and "numba cannot be imported" in emulator.report(kept)
    assert [f for f in emulator.failures(kept) if "times a plain launch" not in f] == []
    slow = [
        {"name": f"axpy{how}", "threads": 9, "ns": {"gputensor": ns}}
        for how, ns in ((emulator.PLAIN, 10), (emulator.PROTECTED, 31))
    ]
    assert emulator.failures({"cases": slow}) == [
        "axpy: 3.1 times a plain launch with writes checked, above 3"
    ]
    fast = kept["cases"][1]["ns"] | {"numba": kept["cases"][1]["ns"]["gputensor"] * 49}
    assert emulator.failures({"cases": [kept["cases"][1] | {"ns": fast}]})[0].startswith(
        "axpy: 49 times faster"
    )
    assert os.environ["GPUTENSOR_CACHE_DIR"] == str(tmp_path / "cache")


def test_there_are_38_cases_and_they_say_what_they_are():
    assert [c.number for c in CASES] == list(range(1, 39))
    assert len({c.title for c in CASES}) == 38
    for case in CASES:
        size = int(np.prod(case.shape, dtype=np.int64)) * case.source.itemsize
        written = int(np.prod(case.strided(case.shape)[0], dtype=np.int64)) * case.result.itemsize
        assert max(size, written) >= 1 << 19
        assert max(size, written) <= 1 << 30


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.number}")
def test_strided_describes_the_view(case):
    shape = tuple(min(n, 6) for n in case.cpu_shape)
    if case.name == "narrow_t":
        shape = (6, 12)
    dense = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    view = case.view(dense)
    sizes, strides, offset = case.strided(shape)
    flat = dense.reshape(-1)
    assert (Host().numpy(flat, (sizes, strides, offset)) == view).all()


def test_the_record_is_valid_and_is_nvbenchs(made, tmp_path):
    record.write(made, tmp_path / "r.json")
    ours = record.read(tmp_path / "r.json")
    assert [c["number"] for c in ours["cases"]] == list(SOME)
    raw = json.loads((tmp_path / "r.json").read_text())
    assert raw["meta"]["version"]["json"]["string"] == "1.0.0"
    states = raw["benchmarks"][0]["states"]
    libraries = ["gputensor", *ours["peers"]]
    assert [v["value"] for v in raw["benchmarks"][0]["axes"][1]["values"]] == libraries
    assert len(states) == len(SOME) * len(libraries)
    for state in states:
        if state["is_skipped"]:  # a peer that does not support the case
            assert state["skip_reason"] and not state["summaries"]
            continue
        tags = [s["tag"] for s in state["summaries"]]
        assert tags[0] == "nv/cold/time/cpu/median"
        assert float(state["summaries"][0]["data"][0]["value"]) > 0
    assert not any(s["is_skipped"] for s in states if s["axis_values"][-1]["value"] == "gputensor")


def test_a_skipped_peer_is_shown(data, made):
    if "opencv" not in data["peers"]:
        assert data["skipped"] == {"opencv": "cv2 cannot be imported"}
        assert "Skipped: OpenCV (cv2 cannot be imported)." in layout.report(data)


def test_figures_of_a_case(data):
    by_number = {c["number"]: c for c in data["cases"]}
    assert by_number[36]["sector_bytes"] * 2 == by_number[36]["bytes"] * 3
    assert by_number[1]["sector_bytes"] == by_number[1]["bytes"]
    outer = by_number[33]
    assert outer["bytes"] == 17 * 2 * outer["sizes"][1]
    for case in data["cases"]:
        assert case["verified"] and case["ratio"]["numpy"] > 0
        assert len(case["samples_ns"]["gputensor"]) == len(case["samples_ns"]["memcpy"]) == 5
    assert set(data["summary"]["by_kind"]) <= {c.kind for c in CASES}


def change(made, path, value):
    made = json.loads(json.dumps(made))
    *way, last = path
    at = made
    for step in way:
        at = at[step]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("gputensor", "environment"), None, "lacks 'environment'"),
        (("gputensor", "environment", "missing"), None, "environment lacks 'missing'"),
        (("gputensor", "cases", 0, "ns", "numpy"), "fast", "ns.numpy must be number"),
        (("gputensor", "cases", 1, "verified"), False, "verified must be one of"),
        (("benchmarks", 0, "states", 0, "summaries", 0, "tag"), None, "lacks 'tag'"),
        (("meta",), None, "lacks 'meta'"),
    ],
)
def test_what_the_schema_refuses(made, path, value, message):
    with pytest.raises(record.NotARecord, match=message):
        record.check(change(made, path, value))


def test_a_wrong_result_is_no_figure(monkeypatch):
    monkeypatch.setitem(layout_sides._MAKERS, "numpy", lambda case, pair: lambda: None)
    with pytest.raises(WrongResult, match="numpy is wrong"):
        layout.run("cpu", rounds=1, only=(1,), libraries=("numpy",), scale=64)


def test_poison_is_not_what_anything_writes():
    flat = np.empty(64, np.uint8)
    Host().poison(flat)
    assert (flat == POISON).all()
    assert (pattern(1 << 16) != POISON).sum() > (1 << 16) * 0.9


def test_pack_measures_and_verifies():
    found = pack.run("cpu", rounds=2, only=(1, 2, 4, 5), libraries=("numpy",), scale=8)
    gt.set_num_threads(max(1, len(os.sched_getaffinity(0))))
    assert len(found["cases"]) == 4 and "× NumPy" in pack.report(found)
    record.check(record.build(found, environment("cpu")))


# --- compare --------------------------------------------------------------------------------------


def case_of(ns, name="a"):
    plain = [100.0] * len(ns)
    return {
        "name": name, "sizes": [1], "ns": {"gputensor": sorted(ns)[len(ns) // 2]},
        "samples_ns": {"gputensor": list(ns), "memcpy": plain, "again": list(ns)},
    }  # fmt: skip


def with_cases(*cases, **changes):
    machine = {"cpu": "c", "cpus": 2, "system": "s"} | changes
    return {
        "benchmark": "layout",
        "device": "cpu",
        "threads": 2,
        "cases": list(cases),
        "environment": machine,
    }


STEADY = [100 + k % 3 for k in range(31)]


@pytest.mark.parametrize(
    ("new", "verdict"),
    [
        (STEADY, compare.SAME), ([x * 1.01 for x in STEADY], compare.SAME),
        ([x * 1.5 for x in STEADY], compare.SLOW), ([x / 1.5 for x in STEADY], compare.FAST),
        ([80.0, 130.0] * 15, compare.AMBIGUOUS),
    ],
)  # fmt: skip
def test_verdicts(new, verdict):
    (row,) = compare.compare(with_cases(case_of(STEADY)), with_cases(case_of(new)))
    assert row["verdict"] == verdict
    assert row["low"] <= row["ratio"] <= row["high"]
    assert verdict in compare.table([row])


def test_few_rounds_tell_nothing_apart():
    few = [100.0, 100.0, 100.0]
    (row,) = compare.compare(with_cases(case_of(few)), with_cases(case_of([300.0] * 3)))
    assert row["verdict"] == compare.AMBIGUOUS and (row["low"], row["high"]) == (0.0, float("inf"))
    quartiles = {
        "name": "a",
        "sizes": [1],
        "ns": {"gputensor": 100.0},
        "quartiles_ns": {"gputensor": [99.0, 101.0]},
    }
    slower = {
        "name": "a",
        "sizes": [1],
        "ns": {"gputensor": 200.0},
        "quartiles_ns": {"gputensor": [199.0, 201.0]},
    }
    (row,) = compare.compare(with_cases(quartiles), with_cases(slower))
    assert row["verdict"] == compare.SLOW


def test_a_slower_machine_is_not_a_slower_program():
    slow = case_of([2 * x for x in STEADY])
    slow["samples_ns"]["memcpy"] = [200.0] * len(STEADY)
    (row,) = compare.compare(with_cases(case_of(STEADY)), with_cases(slow))
    assert row["verdict"] == compare.SAME


def test_what_is_not_comparable():
    one = with_cases(case_of(STEADY))
    assert not compare.not_comparable(one, one)
    assert compare.not_comparable(one, with_cases(case_of(STEADY), cpus=4)) == [
        "cpus differs (2, 4)"
    ]
    assert "no case is in both" in compare.not_comparable(one, with_cases(case_of(STEADY, "b")))
    assert compare.not_comparable(one, one | {"device": "cuda"})[0].startswith("device differs")


def test_a_build_compared_with_itself_is_the_same():
    rows = compare.self_comparison(
        with_cases(case_of(STEADY), case_of([3 * x for x in STEADY], "b"))
    )
    assert [row["verdict"] for row in rows] == [compare.SAME] * 2


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("figures_that_are_none")
def test_the_command_writes_reads_and_compares(tmp_path, capsys):
    run = ["run", "layout", "--scale", "32", "--rounds", "3", "--cases", "1,36", "--peers", "numpy"]
    assert command.main([*run, "--out", str(tmp_path)]) == command.FINE
    path = tmp_path / "layout-cpu.json"
    assert "t2d_sq" in capsys.readouterr().out
    assert command.main(["report", str(path)]) == command.FINE
    assert "Compared with itself" in capsys.readouterr().out
    assert "t2d_sq" in (tmp_path / "layout-cpu.md").read_text()
    assert command.main(["compare", str(path), str(path), "--fail-on", "slow"]) == command.FINE
    assert command.main(["compare", str(path), str(tmp_path / "none.json")]) == command.BAD_INPUT
    other = json.loads(path.read_text())
    other["gputensor"]["environment"]["cpu"] = "another"
    (tmp_path / "other.json").write_text(json.dumps(other))
    assert (
        command.main(["compare", str(path), str(tmp_path / "other.json")]) == command.NOT_COMPARABLE
    )
    assert command.main(["run", "overhead", "--scale", "2"]) == command.BAD_INPUT
    (tmp_path / "text.json").write_text("[]")
    assert command.main(["report", str(tmp_path / "text.json")]) == command.BAD_INPUT


def test_without_a_device_the_command_says_so():
    done = subprocess.run(
        [sys.executable, "-m", "bench", "run", "layout", "--device", "cuda"], cwd=ROOT,
        env=os.environ | {"GPUTENSOR_CUDA": "off"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == command.DEVICE_ABSENT and "no CUDA device" in done.stderr


@pytest.mark.emulator
def test_on_the_emulator_every_kind_of_case_is_verified():
    if not (gt.cuda.is_available() and gt.cuda.is_emulated()):
        pytest.skip("this runs on the emulator")
    found = layout.run("cuda", rounds=1, only=(1, 14, 33, 37, 38), scale=128)
    assert found["is_emulated"] and "say nothing of a GPU" in layout.report(found)
    assert (
        found["peers"] == []
        and found["skipped"]["torch"] == "the emulator is no GPU for other libraries"
    )
    assert {c["kernel"]["name"] for c in found["cases"]} >= {"row"}
    assert layout.failures(found) == []


def test_the_host_cost_record_is_valid():
    before = gt.get_num_threads()
    try:
        measured = overhead.run("cpu", rounds=2)
    finally:
        gt.set_num_threads(before)
    made = json.loads(json.dumps(record.build(measured, environment("cpu"))))
    assert len(made["gputensor"]["cases"]) == 12
    assert "geometric mean" in overhead.report(made["gputensor"])


def test_a_record_does_not_name_its_folder() -> None:
    for given in (["run", "fuse", "--out", "/tmp/x", "--rounds", "3"], ["run", "fuse", "--out=/x"]):
        assert environment("cpu", given)["argv"] == [
            x for x in given if "x" not in x and x != "--out"
        ]
