"""The profiler: counted steps, sums of times, devices, NVTX, and no effect afterwards."""

from __future__ import annotations

import sys
import threading
import time
import types
from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.dispatch import dispatcher
from gputensor.library import Library
from gputensor.profiling.profiler import profile

from ..operands import CPU


def by_name(prof: profile) -> dict[tuple[str, str], Any]:
    return {(row.op, row.key): row for row in prof.rows()}


def test_every_hop_is_counted_by_operator_and_key() -> None:
    x = gt.ones(2, 3)
    with gt.profiler.profile() as prof:
        for _ in range(3):
            x.add_(1)
        gt.zeros(2)
    rows = by_name(prof)
    assert rows["aten::add_.Tensor", "ADInplaceOrView"].calls == 3
    assert rows["aten::add_.Tensor", "CPU"].calls == 3
    assert rows["aten::zeros", "BackendSelect"].calls == rows["aten::zeros", "CPU"].calls == 1
    assert rows["aten::empty.memory_format", "CPU"].calls == 1
    assert not any(op == "aten::mul.Tensor" for op, _ in rows)


def test_self_times_leave_out_what_is_below(lib: Library) -> None:
    lib.define("outer(Tensor x) -> Tensor")
    lib.define("inner(Tensor x) -> Tensor")
    inner = gt.ops.__getattr__(lib.ns).inner

    def slow(x: Any) -> Any:
        time.sleep(0.002)
        return x

    def outer(x: Any) -> Any:
        inner(x), inner(x)
        return slow(x)

    lib.impl("outer", outer, "CPU")
    lib.impl("inner", slow, "CPU")
    with profile() as prof:
        getattr(gt.ops, lib.ns).outer(CPU)
    rows = by_name(prof)
    above, below = rows[f"{lib.ns}::outer", "CPU"], rows[f"{lib.ns}::inner", "CPU"]
    assert below.calls == 2 and below.host_us == below.host_self_us >= 4000
    assert above.host_us == pytest.approx(
        above.host_self_us + rows[f"{lib.ns}::inner", "AutogradCPU"].host_us
    )
    assert above.host_self_us >= 2000


def test_the_table() -> None:
    x = gt.ones(4)
    with profile() as prof:
        (x + 1) * 2
        x + 1
    head, line, *rows, total = prof.table(sort_by="calls").splitlines()
    assert (
        head.split()[:3] == ["op", "key", "calls"]
        and "device" not in head
        and set(line) <= {"-", " "}
    )
    assert rows[0].startswith("aten::add.Tensor") and total.endswith("us")
    assert len(prof.table(limit=1).splitlines()) == 4
    assert [r.calls for r in prof.rows("calls")] == sorted(
        (r.calls for r in prof.rows()), reverse=True
    )
    with pytest.raises(errors.ArgumentError, match="'sort_by' must be one of"):
        prof.rows("speed")


def test_failing_calls_count(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: 1 / 0, "CPU")
    with profile() as prof, pytest.raises(ZeroDivisionError):
        getattr(gt.ops, lib.ns).f(CPU)
    assert by_name(prof)[f"{lib.ns}::f", "CPU"].calls == 1


def test_nothing_stays_and_plans_do() -> None:
    x = gt.ones(5)
    x + 1
    add = gt.dispatch.find("aten::add.Tensor")
    plans = dict(add.table.plans)
    with profile(), profile() as inner:
        assert add.table is not add.redispatch_table
        x + 1
    assert inner.rows() and plans
    assert add.table is add.redispatch_table and dispatcher._wraps == ()
    assert plans.items() <= add.table.plans.items()


def test_beside_a_trace() -> None:
    x = gt.ones(2)
    with gt.dispatch.trace() as lines, profile() as prof:
        x.add_(1)
    with profile() as other, gt.dispatch.trace() as more:
        x.add_(1)
    assert lines == more and lines
    assert {r.key for r in prof.rows()} == {r.key for r in other.rows()}


def test_all_threads_are_seen() -> None:
    x = gt.ones(2)
    with profile() as prof:
        threads = [threading.Thread(target=lambda: [x + 1 for _ in range(200)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert by_name(prof)["aten::add.Tensor", "CPU"].calls == 800


@pytest.mark.skipif(not gt.cuda.is_available(), reason="device times need a CUDA device")
def test_device_times() -> None:
    x = gt.ones(64, 64, device="cuda").t()
    x.contiguous() + 1
    with profile() as prof:
        x.contiguous() + 1
    rows = by_name(prof)
    clone, copy = rows["aten::clone", "CUDA"], rows["aten::copy_", "CUDA"]
    assert copy.device_us > 0 and clone.device_us > copy.device_us
    assert clone.device_self_us == pytest.approx(
        clone.device_us - copy.device_us - rows["aten::empty_like", "CUDA"].device_us, abs=0.1
    )
    assert "device self us" in prof.table() and "us on devices" in prof.table()
    with profile(device_time=False) as prof:
        x.contiguous()
    assert not any(row.device_us for row in prof.rows())


def test_nvtx_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges: list[str] = []
    stand_in = types.SimpleNamespace(
        push_range=ranges.append, pop_range=lambda: ranges.append("end")
    )
    monkeypatch.setitem(sys.modules, "nvtx", stand_in)
    x = gt.ones(2)
    with profile(nvtx=True):
        x.add_(1)
    assert ranges[-4:] == [
        "aten::add_.Tensor [ADInplaceOrView]",
        "aten::add_.Tensor [CPU]",
        "end",
        "end",
    ] or (ranges.count("end") == len(ranges) // 2 and "aten::add_.Tensor [CPU]" in ranges)


def test_nvtx_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(ImportError, match=r"pip install 'gputensor\[nvtx\]'"):
        profile(nvtx=True)
