"""Measurement of copies: alternating rounds and their number, choice of peers, errors."""

from __future__ import annotations

import itertools
import subprocess
import types

import pytest

import gputensor as gt
from bench import __main__ as command
from bench.copies import layout, layout_sides, pack, sessions
from bench.measurement import gpu_state, nvml, peers, timing
from bench.records import compare
from gputensor.kernels.compiled import library


@pytest.fixture(autouse=True)
def threads():
    before = gt.get_num_threads()
    yield
    gt.set_num_threads(before)


def sample(*ns):
    made = timing.Sample()
    made.ns.extend(ns)
    return made


# --- turns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["ab", "abc", "abcdef"])
def test_all_take_turns_and_nobody_follows_himself(names):
    order = []
    timing.alternate([lambda n=n: order.append(n) for n in names], rounds=12, round_ms=0.0)
    measured = order[2 * len(names) :]  # each twice to begin with
    rounds = [measured[k : k + len(names)] for k in range(0, len(measured), len(names))]
    assert len(rounds) == 12 and all(sorted(r) == list(names) for r in rounds)
    assert all(a != b for a, b in itertools.pairwise(measured))
    if len(names) > 2:
        assert len({tuple(r) for r in rounds}) > 2
        followers = {b for a, b in itertools.pairwise(measured) if a == "a"}
        assert len(followers) > 1


def test_a_rest_precedes_each_round_and_calls_that_are_not_timed() -> None:
    calls = []
    (sample,) = timing.alternate([lambda: calls.append(1)], 3, counts=[2], rest_s=1e-6)
    assert len(calls) > 3 * (2 + 1) and len(sample.ns) == 3
    calls.clear()
    timing.alternate([lambda: calls.append(1)], 3, round_ms=20.0, counts=[1], rest_s=1e-6)
    assert len(calls) == 3  # a call that fills a round is timed from its beginning


def test_a_round_that_is_not_fair_is_measured_again_and_none_of_it_counts():
    answers = iter([True, False, False, True, True])
    calls = []
    samples = timing.alternate(
        [lambda: calls.append("a"), lambda: calls.append("b")], rounds=3, round_ms=0.0,
        is_fair=lambda: next(answers),
    )  # fmt: skip
    assert [len(s.ns) for s in samples] == [3, 3] and len(calls) == 2 * (5 + 2)


def test_where_no_round_is_fair_they_count_in_the_end():
    asked = []
    samples = timing.alternate(
        [lambda: None], rounds=4, round_ms=0.0, is_fair=lambda: asked.append(1)
    )
    assert len(samples[0].ns) == 4 and len(asked) == 8


def test_measuring_ends_when_all_ratios_are_known():
    until = timing.steady(0.005, limit_s=1e9)
    assert not until([sample(*[100.0] * 9), sample(*[50.0] * 9)])  # the least number of rounds
    assert until([sample(*[100.0] * 10), sample(*[50.0] * 10)])
    noisy = [100.0, 120.0] * 5
    assert not until([sample(*[100.0] * 10), sample(*noisy)])
    assert not until([sample(*[100.0] * 10), sample(*[50.0] * 10), sample(*noisy)])
    assert until(
        [sample(*noisy), sample(*[n / 2 for n in noisy])]
    )  # both drift: the ratio does not
    assert timing.steady(0.005, limit_s=0.0)([sample(*[100.0] * 10), sample(*noisy)])


def test_the_budgets_of_the_cpu():
    summary = {"geomean_vs_torch": 2.5, "worst_vs_torch": 0.8, "geomean_vs_numpy": 5}
    record = {"device": "cpu", "is_emulated": False, "summary": summary}
    assert sessions.failures(record) == ["worst vs torch 0.80 is below 0.9"]
    case = {"name": "224² u8 NHWC → f32 NCHW", "share_of_memcpy": 0.3}
    other = {"name": "224² u8 NHWC → f16 NCHW", "share_of_memcpy": 0.3}
    record |= {"summary": {}, "peers": [], "cases": [case, other]}
    said = ["224² u8 NHWC → f32 NCHW: share of memcpy 0.30 is below 0.5"]
    assert pack.failures(record) == said


def test_a_record_on_the_cpu_says_whose_loops_ran():
    found = run()
    assert found["cases"][0]["kernel"] == {"name": library.get_cpu_capability()}


# --- peers ----------------------------------------------------------------------------------------


def run(**kinds):
    return layout.run(
        "cpu", rounds=1, scale=64, **({"only": (1,), "libraries": ("numpy",)} | kinds)
    )


def failing(case, pair):
    def side():
        raise ValueError("out of something\nand more")

    return side


def test_a_peer_that_fails_is_skipped_with_its_reason(monkeypatch):
    monkeypatch.setitem(layout_sides._MAKERS, "numpy", failing)
    found = run()
    (case,) = found["cases"]
    assert case["skipped"] == {"numpy": "ValueError: out of something"} and case["ratio"] == {}
    assert "Skipped: NumPy in 1 cases (ValueError: out of something)." in layout.report(found)


def test_our_own_failure_is_none_of_a_peers(monkeypatch):
    monkeypatch.setitem(layout_sides._MAKERS, "gputensor", failing)
    with pytest.raises(ValueError, match="out of something"):
        run()


def test_a_peer_that_takes_too_long_is_skipped(monkeypatch):
    monkeypatch.setattr(sessions, "SLOWEST_S", -1.0)
    (case,) = run()["cases"]
    assert case["skipped"] == {"numpy": "one copy takes 0 s"}


@pytest.mark.full
def test_every_peer_is_measured_or_skipped_with_a_reason():
    for device in ("cpu", "cuda"):
        for name in layout.PEERS:
            assert peers.find(name, device) is not None or peers.why_not(name, device)
    assert peers.why_not("cupy", "cpu") == "has no CPU arrays"
    assert peers.why_not("numpy", "cuda") == "has no GPU arrays"


@pytest.mark.parametrize("number", [1, 9, 14, 17, 20, 25, 26, 29, 36, 37])
def test_opencvs_copies_are_right(number):
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    (case,) = layout.run("cpu", rounds=1, scale=32, only=(number,), libraries=("opencv",))["cases"]
    assert case["skipped"] == ({"opencv": "no such function"} if number == 36 else {})


@pytest.mark.full
def test_torch_compile_does_not_give_up_after_eight_shapes(monkeypatch):
    """It would then run PyTorch's eager copy under torch.compile's name."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    compiled = []

    def backend(graph, inputs):
        compiled.append(tuple(inputs[0].shape))
        return graph.forward

    real = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda f, dynamic: real(f, dynamic=dynamic, backend=backend)
    )
    for size in range(2, 14):
        to, view = torch.empty(size, 3), torch.ones(3, size).t()
        layout_sides.compiled_once(torch, lambda to, view: to.copy_(view))(to, view)
    assert len(compiled) == 12


# --- figures of a case ----------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.emulator
def test_which_kernel_does_a_case_on_a_gpu():
    if not gt.cuda.is_available():
        pytest.skip(str(gt.cuda.unavailable_reason()))
    found = layout.run("cuda", rounds=1, only=(1, 14, 35), scale=4)["cases"]
    assert [c["kernel"]["name"] for c in found] == ["tile", "skinny", "row"]
    assert all(c["kernel"]["grid"] > 0 and c["kernel"]["how"] for c in found)


def test_above_the_roofline_is_an_error(monkeypatch, capsys, tmp_path):
    samples = {"gputensor": sample(10, 10), "again": sample(10, 10), "memcpy": sample(100, 100)}
    row = sessions.row(samples, ["memcpy"], 1000, 1000, "cpu")
    assert row["above_roofline"] == ["gputensor", "again"]
    monkeypatch.setitem(sessions.ROOFLINE, "cpu", 1e-9)  # now every figure is impossible
    arguments = [
        "run",
        "layout",
        "--scale",
        "64",
        "--rounds",
        "1",
        "--cases",
        "1",
        "--peers",
        "numpy",
    ]
    assert command.main([*arguments, "--out", str(tmp_path)]) == command.MISSED
    assert "faster than memory allows" in capsys.readouterr().err
    assert command.main(["report", str(tmp_path / "layout-cpu.json")]) == command.FINE
    assert "figures that memory allows" in capsys.readouterr().out


# --- A/A ------------------------------------------------------------------------------------------


def apart(*cases):
    """Return a record. Each number is the ratio of the second measurement to the first."""
    made = [
        {"name": f"{n}", "samples_ns": {"gputensor": [100.0] * 20, "again": [100.0 * factor] * 20}}
        for n, factor in enumerate(cases)
    ]
    return {"cases": made}


def test_a_build_that_is_told_apart_from_itself_fails(capsys):
    assert command._compare_with_itself(apart(*[1.0] * 38), compare.TOLERANCE) == command.FINE
    assert command._compare_with_itself(apart(*[1.0] * 37, 1.5), compare.TOLERANCE) == command.FINE
    assert (
        command._compare_with_itself(apart(*[1.0] * 36, 1.5, 0.5), compare.TOLERANCE)
        == command.MISSED
    )
    assert "told apart from itself: 36, 37" in capsys.readouterr().err
    assert (
        command._compare_with_itself({"cases": [{"name": "x"}]}, compare.TOLERANCE)
        == command.BAD_INPUT
    )
    assert [compare.most_told_apart(n) for n in (1, 38, 100, 101)] == [1, 1, 1, 2]


# --- the GPU's state ------------------------------------------------------------------------------


class FakeNvml:
    """The functions of NVIDIA's library that are called, with simulated figures."""

    def __init__(self, clocks, default=1980, lacks=()):
        self.clocks, self.default, self.lacks = iter(clocks), default, lacks
        self.bus_id = None

    def __getattr__(self, name):
        if name in self.lacks:
            return lambda *a: 3  # NVML_ERROR_NOT_SUPPORTED
        return getattr(self, f"_{name}")

    def _nvmlInit_v2(self):
        return 0

    def _nvmlDeviceGetHandleByPciBusId_v2(self, bus_id, handle):
        self.bus_id = bus_id
        handle._obj.value = 77
        return 0

    def _put(self, value, pointer):
        pointer._obj.value = value
        return 0

    def _nvmlDeviceGetDefaultApplicationsClock(self, handle, kind, found):
        return self._put(self.default, found)

    _nvmlDeviceGetMaxClockInfo = _nvmlDeviceGetDefaultApplicationsClock

    def _nvmlDeviceGetClockInfo(self, handle, kind, found):
        assert handle.value == 77
        return self._put(next(self.clocks) if kind == 1 else 2619, found)

    def _nvmlDeviceGetTemperature(self, handle, sensor, found):
        return self._put(41, found)

    def _nvmlDeviceGetPowerUsage(self, handle, found):
        return self._put(312_500, found)

    def _nvmlDeviceGetCurrentClocksThrottleReasons(self, handle, found):
        return self._put(0x4 | 0x20, found)


def test_a_round_on_slow_clocks_is_told_and_kept_in_the_record():
    library = FakeNvml([1980, 1200, 1900])
    watch = gpu_state.Watch(nvml.Device("0000:41:00.0", library))
    assert [watch.is_fair() for _ in range(3)] == [True, False, True]
    assert library.bus_id == b"0000:41:00.0"
    assert watch.state() == {
        "sm_clock_mhz": [1980, 1200, 1900], "memory_clock_mhz": [2619] * 3,
        "temperature_c": [41] * 3,
        "power_w": [312.5] * 3, "default_sm_clock_mhz": 1980, "slow_rounds": 1, "is_slow": False,
        "throttle_reasons": ["software power cap", "software thermal slowdown"],
    }  # fmt: skip


def test_what_a_device_does_not_tell_is_none_and_no_round_is_unfair_for_it():
    lacks = (
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetDefaultApplicationsClock",
    )
    watch = gpu_state.Watch(nvml.Device("x", FakeNvml([], lacks=lacks)))
    assert watch.is_fair() and watch.default == 1980
    assert watch.state()["sm_clock_mhz"] == watch.state()["power_w"] == [None]


def test_a_driver_that_does_not_answer_is_absent():
    with pytest.raises(nvml.Absent, match="nvmlInit_v2 gives 3"):
        nvml.Device("x", FakeNvml([], lacks=("nvmlInit_v2",)))


def test_nvidia_smi_is_asked_by_bus_id(monkeypatch):
    asked = []

    def fake(arguments, **kinds):
        asked.append(arguments)
        return types.SimpleNamespace(stdout="1200, 2619, 1980, 44, 300.1, 0x0000000000000004\n")

    monkeypatch.setattr(subprocess, "run", fake)
    state = gpu_state.Watch(None, "0000:41:00.0").state()
    assert "--id=0000:41:00.0" in asked[0] and state["is_slow"] and state["sm_clock_mhz"] == 1200.0
    assert gpu_state.Watch(None, None).state() is None
