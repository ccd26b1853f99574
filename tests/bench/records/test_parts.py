"""Records of interrupted runs: written after each case, merged from parts, with failing cases; also
buffer pairs and graphs."""

from __future__ import annotations

import json
import types
from pathlib import Path

import numpy as np
import pytest

import gputensor as gt
from bench import __main__ as command
from bench.copies import bandwidth, layout, layout_sides, memcpy, pack, sessions
from bench.copies.layout_cases import CASES
from bench.measurement import graphs, peers, places
from bench.records import record


pytestmark = pytest.mark.usefixtures("figures_that_are_none")


@pytest.fixture(autouse=True)
def threads():
    before = gt.get_num_threads()
    yield
    gt.set_num_threads(before)


def run(*more: str, out: Path, name: str = "layout") -> int:
    return command.main(
        [
            "run",
            name,
            "--scale",
            "64",
            "--rounds",
            "1",
            "--peers",
            "numpy",
            "--out",
            str(out),
            *more,
        ]
    )


# --- a record of the finished cases ---------------------------------------------------------------


def test_a_run_that_is_cut_off_leaves_the_cases_that_it_has_done(tmp_path, monkeypatch):
    real = layout_sides.side

    def side(name, case, pairs):
        if case.number == 14:
            raise KeyboardInterrupt  # not handled, like a kill
        return real(name, case, pairs)

    monkeypatch.setattr(layout_sides, "side", side)
    with pytest.raises(KeyboardInterrupt):
        run("--cases", "1,2,14,15", out=tmp_path)
    kept = record.read(tmp_path / "layout-cpu.json")
    assert [case["number"] for case in kept["cases"]] == [1, 2]
    assert "the whole benchmark (it has 2 of 38 cases)" in kept["environment"]["missing"]
    assert not list(tmp_path.glob(".*"))  # no draft


def broken(maker, number):
    return lambda case, pair: (lambda: None) if case.number == number else maker(case, pair)


def test_a_case_that_is_wrong_costs_only_itself(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(
        layout_sides._MAKERS, "gputensor", broken(layout_sides._MAKERS["gputensor"], 2)
    )
    assert run("--cases", "1,2,3", out=tmp_path) == command.MISSED
    kept = record.read(tmp_path / "layout-cpu.json")
    assert [case["number"] for case in kept["cases"]] == [1, 3]
    ((name, reason),) = kept["failed"].items()
    assert name == CASES[1].title and "gputensor is wrong" in reason
    assert "right results everywhere (1 cases failed)" in kept["environment"]["missing"]
    assert f"no figures: {name}" in capsys.readouterr().err
    assert f"No figures: {name}" in layout.report(kept)


# --- parts ----------------------------------------------------------------------------------------


# Return records of parts, given their cases and the number of all cases; each case is in one part.
_measured: dict[tuple[str, int], str] = {}


def parts(tmp_path, *chosen):
    made = []
    for number, cases in enumerate(chosen):
        path = tmp_path / f"{number}" / "layout-cpu.json"
        if (cases, layout.COUNT) not in _measured:
            assert run("--cases", cases, out=path.parent) == command.FINE
            _measured[cases, layout.COUNT] = path.read_text()
        path.parent.mkdir(exist_ok=True)
        path.write_text(_measured[cases, layout.COUNT])
        made.append(path)
    return made


def changed(path: Path, **environment: object) -> None:
    whole = json.loads(path.read_text())
    whole["gputensor"]["environment"] |= environment
    path.write_text(json.dumps(whole))


def merge(paths, out) -> int:
    return command.main(["merge", *map(str, paths), "--out", str(out)])


@pytest.mark.full
def test_parts_become_the_record_of_a_whole_run(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "COUNT", 4)
    paths = parts(tmp_path, "3,1", "2", "36")
    assert merge(paths, tmp_path / "out") == command.FINE
    whole = record.read(tmp_path / "out" / "layout-cpu.json")
    assert [case["number"] for case in whole["cases"]] == [1, 2, 3, 36]
    assert whole["summary"]["cases"] == 4
    missing = whole["environment"]["missing"]
    assert not any("whole benchmark" in what for what in missing)
    assert missing.count("full sizes (--scale)") == 1  # listed once for all parts
    assert len(whole["environment"]["parts"]) == 3
    assert "t2d_sq" in (tmp_path / "out" / "layout-cpu.md").read_text()
    assert merge(paths[:2], tmp_path / "less") == command.FINE
    less = record.read(tmp_path / "less" / "layout-cpu.json")["environment"]["missing"]
    assert "the whole benchmark (it has 3 of 4 cases)" in less


def test_a_case_in_two_parts_is_the_later_ones(tmp_path):
    old, new = parts(tmp_path, "1,2", "2")
    changed(old, time="2026-01-01T00:00:00Z")
    changed(new, time="2026-01-02T00:00:00Z")
    assert merge([new, old], tmp_path / "out") == command.FINE
    found = record.read(tmp_path / "out" / "layout-cpu.json")["cases"]
    expected = record.read(new)["cases"][0]
    assert [case["number"] for case in found] == [1, 2] and found[1]["ns"] == expected["ns"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("cpu", "another"), ("commit", {"hash": "f" * 40, "dirty": False}), ("kernels", "0" * 16)],
)
def test_parts_of_two_machines_or_commits_are_not_merged(tmp_path, capsys, name, value):
    paths = parts(tmp_path, "1", "2")
    changed(paths[1], **{name: value})
    assert merge(paths, tmp_path / "out") == command.NOT_COMPARABLE
    assert f"{name} differs" in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.full
def test_what_no_record_has_is_measured_beside_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(layout, "COUNT", 3)
    paths = ",".join(map(str, [*parts(tmp_path, "1", "3"), tmp_path / "absent.json"]))
    assert run("--beside", paths, out=tmp_path / "rest") == command.FINE
    rest = tmp_path / "rest" / "layout-cpu.json"
    assert [case["number"] for case in record.read(rest)["cases"]] == [2]
    assert run("--beside", f"{paths},{rest}", out=tmp_path / "none") == command.FINE
    assert (
        "these records have every case" in capsys.readouterr().err
        and not (tmp_path / "none").exists()
    )
    absent = [tmp_path / "absent.json"]
    assert merge([rest, *absent], tmp_path / "out") == command.FINE
    assert "absent.json is not there" in capsys.readouterr().err
    assert merge(absent, tmp_path / "out") == command.BAD_INPUT


# --- pairs of buffers and graphs ------------------------------------------------------------------


@pytest.mark.parametrize("l2", [4 << 20, 40 << 20, 50 << 20, 60 << 20])  # T4, A100, H100, H200
def test_pairs_fill_the_l2_cache_twice(monkeypatch, l2):
    monkeypatch.setattr(gt.cuda, "is_emulated", lambda: False)
    monkeypatch.setattr(peers, "l2_bytes", lambda device: l2)
    for case in CASES:
        moved = 2 * int(np.prod(case.shape)) * case.source.itemsize
        pairs = sessions.buffers("cuda", moved, "cuda:0")
        assert pairs * moved >= 2 * l2 and pairs >= 3, case.title
    assert sessions.buffers("cpu", 1 << 10) == 1
    monkeypatch.setattr(peers, "l2_bytes", lambda device: None)
    assert sessions.buffers("cuda", 16 << 20) == 8  # an H200's, if the size is unknown


class Gpu(places.Host):
    """Host memory with a GPU's clock."""

    def clock(self, side, count):
        for _ in range(count):
            side()
        return 1000.0 * count


def session(monkeypatch, replays):
    monkeypatch.setattr(graphs, "replays", replays)
    monkeypatch.setattr(sessions, "buffers", lambda *given: 4)
    monkeypatch.setattr(
        layout_sides, "memcpys", lambda place, moved, pairs: {"memcpy": lambda: None}
    )
    made = sessions.Session("layout", "cpu", (), 3)
    return made, lambda moved: made.measure(
        Gpu(), lambda name: lambda: None, lambda side, what: side(), moved, moved, "broadcast"
    )


def test_small_cases_are_replayed_from_a_graph_and_timed_by_the_copy(monkeypatch):
    replayed = []

    def replays(sides, calls, device):
        return {name: lambda n=name: replayed.append((n, calls)) for name in sides}

    _, measure = session(monkeypatch, replays)
    found = measure(1 << 20)
    assert found["is_replayed"] and found["bound_by"] is None and found["pairs"] == 4
    assert found["ns"]["gputensor"] == 250.0 and ("memcpy", 4) in replayed
    replayed.clear()
    large = measure(1 << 30)
    assert not replayed and not large["is_replayed"] and large["ns"]["gputensor"] == 1000.0


def test_a_case_that_no_graph_holds_is_bound_by_the_launch_and_in_no_mean(monkeypatch):
    def replays(sides, calls, device):
        raise graphs.NotRecorded("cupy: RuntimeError: no")

    _made, measure = session(monkeypatch, replays)
    small, large = measure(1 << 20), measure(1 << 30)
    assert (
        small["bound_by"].startswith("a launch") and "cupy: RuntimeError: no" in small["bound_by"]
    )
    assert not small["is_replayed"] and large["bound_by"] is None
    cases = [small | {"name": "s", "kind": "small"}, large | {"name": "l", "kind": "tile"}]
    data = {"device": "cuda:0", "cases": cases, "peers": []}
    assert [case["name"] for case in sessions.counted(data)] == ["l"]
    whole = data | {"is_emulated": False, "skipped": {}, "summary": sessions.summary(data)}
    assert "s is in no mean: what it times is a launch" in layout.report(whole)


class FakeStream:
    """CuPy's stream with the functions that graphs.py uses. Calls between begin and end are in the
    graph."""

    ptr = 7

    def __init__(self, seen, fails=False):
        self.seen, self.fails = seen, fails

    def begin_capture(self):
        self.seen.append("begin")

    def end_capture(self):
        self.seen.append("end")
        return types.SimpleNamespace(launch=lambda stream: self.seen.append("launch"))


def test_a_graph_holds_each_pairs_copy_once(monkeypatch):
    seen = []
    stream = types.SimpleNamespace(cupy=FakeStream(seen))
    cuda = types.SimpleNamespace(
        current_stream=lambda index: stream, default_stream=lambda index: stream
    )
    side = types.SimpleNamespace(wait_stream=lambda other: None, synchronize=lambda: None)
    fake = types.SimpleNamespace(
        Stream=lambda device: side, current_stream=lambda device: None,
        stream=lambda s: sessions.gt.no_grad(),
    )  # fmt: skip
    monkeypatch.setattr(graphs.runtime, "cuda", lambda: cuda)
    monkeypatch.setattr(graphs, "gt", types.SimpleNamespace(cuda=fake, device=gt.device))
    monkeypatch.setattr(peers, "cupy", lambda device: object())
    made = graphs.replays({"gputensor": lambda: seen.append("copy")}, 3, "cuda:0")
    assert seen == ["copy", "begin", "copy", "copy", "copy", "end"]
    made["gputensor"]()
    assert seen[-1] == "launch"

    def fails():
        raise ValueError("not in a graph")

    with pytest.raises(graphs.NotRecorded, match="numpy: ValueError: not in a graph"):
        graphs.replays({"gputensor": lambda: None, "numpy": fails}, 3, "cuda:0")


# --- inputs ---------------------------------------------------------------------------------------


def test_inputs_made_in_parts_are_what_one_thread_makes(monkeypatch):
    wanted = places.pattern(100_003).copy(), places.numbers(50_001, np.dtype("f2"))
    monkeypatch.setattr(places, "_PART", 1000)
    for made, expected in zip(
        (places.pattern(100_003), places.numbers(50_001, np.dtype("f2"))), wanted
    ):
        np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("number", [1, 16, 27, 31, 32, 37, 38])
def test_what_is_expected_is_numpys_copy(number):
    case = CASES[number - 1]
    shape = tuple(min(n, 100) for n in case.shape)
    shape = (
        (2,) * 12 if number == 32 else tuple(min(n, 9) for n in shape) if len(shape) > 3 else shape
    )
    view = case.view(places.numbers(int(np.prod(shape)), case.source).reshape(shape))
    expected = np.ascontiguousarray(view).astype(case.result).reshape(-1)
    np.testing.assert_array_equal(layout._expected(view, case.result), expected)


def test_images_are_the_same_on_any_number_of_threads(monkeypatch):
    for case in pack.CASES[:5]:
        one = pack._images(case, 3, 8, 12)
        monkeypatch.setattr(pack, "in_parallel", lambda f, parts: [f(k) for k in reversed(parts)])
        for a, b in zip(one, pack._images(case, 3, 8, 12)):
            np.testing.assert_array_equal(a, b)
        monkeypatch.undo()


# --- the benchmarks of bandwidth and of memcpy ----------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("module", [memcpy, bandwidth], ids=lambda m: m.NAME)
def test_bandwidth_and_memcpy_measure_and_verify(tmp_path, module):
    assert run("--scale", "16", out=tmp_path, name=module.NAME) == command.FINE
    kept = record.read(tmp_path / f"{module.NAME}-cpu.json")
    assert len(kept["cases"]) == module.COUNT and all(c["verified"] for c in kept["cases"])
    assert all(c["ratio"]["numpy"] > 0 for c in kept["cases"])


@pytest.mark.full
@pytest.mark.emulator
@pytest.mark.parametrize("module", [memcpy, bandwidth], ids=lambda m: m.NAME)
def test_on_the_emulator_they_are_verified_too(module):
    if not (gt.cuda.is_available() and gt.cuda.is_emulated()):
        pytest.skip("this runs on the emulator")
    found = module.run("cuda", rounds=1, libraries=(), scale=256)
    assert found["is_emulated"] and len(found["cases"]) == module.COUNT and not found["failed"]
