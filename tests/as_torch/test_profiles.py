"""torch.profiler in programs: schedules and counts are PyTorch's, times come from our profiler."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.as_torch import profiles
from gputensor.as_torch.profiles import profile, record_function, schedule

SCHEDULES: list[dict[str, int]] = [
    {"wait": 1, "warmup": 1, "active": 3}, {"wait": 0, "warmup": 0, "active": 1, "repeat": 2},
    {"wait": 2, "warmup": 0, "active": 1, "skip_first": 3},
    {"wait": 2, "warmup": 1, "active": 2, "skip_first_wait": 1, "repeat": 2},
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", SCHEDULES, ids=str)
def test_a_schedule_is_pytorchs(options: dict[str, int]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = schedule(**options), torch.profiler.schedule(**options)
    assert [ours(n).name for n in range(20)] == [theirs(n).name for n in range(20)]
    for wrong in ({"wait": -1, "warmup": 0, "active": 1}, {"wait": 0, "warmup": 0, "active": 0}):
        with pytest.raises(gt.GpuTensorError):
            schedule(**wrong)


def _program(t: Any, p: Any) -> tuple[list[int], dict[str, int]]:
    """Return the steps at which a trace was ready, and the numbers of operator calls in the last
    trace."""
    ready: list[int] = []
    x = t.ones(4, 4)
    with p.profile(
        activities=[p.ProfilerActivity.CPU], record_shapes=True,
        schedule=p.schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda running: ready.append(running.step_num),
    ) as prof:  # fmt: skip
        for _ in range(9):
            with p.record_function("a step"):
                (x @ x).relu().sum()
                x.exp()
                x.exp()
            prof.step()
    counts = {row.key: row.count for row in prof.key_averages()}
    names = ("a step", "aten::relu", "aten::exp", "aten::sum", "aten::mm")
    return ready, {name: counts[name] for name in names}


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_counts_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    assert _program(gt, profiles) == _program(torch, torch.profiler)


def test_a_table_and_its_sums() -> None:
    x = gt.ones(64, 64)
    with profile() as prof:
        with record_function("mine"):
            x @ x
        x.exp()
    rows = prof.key_averages()
    by_name = {row.key: row for row in rows}
    assert by_name["mine"].count == 1 and by_name["mine"].cpu_time >= by_name["aten::mm"].cpu_time
    assert rows.total_average().self_cpu_time_total == rows.self_cpu_time_total > 0
    lines = rows.table(sort_by="self_cpu_time_total", row_limit=2).splitlines()
    assert len(lines) == 5 and lines[0].startswith("Name") and "Self CPU time total" in lines[-1]
    assert "aten::exp" in rows.table("cuda_time_total", -1)
    with pytest.raises(gt.GpuTensorError, match="sort_by"):
        rows.table(sort_by="colour")
    for name in ("export_chrome_trace", "export_stacks", "export_memory_timeline"):
        rule = f"profile: '{name}' must not be called, as there is no timeline"
        with pytest.raises(NotImplementedError, match=rule):
            getattr(prof, name)("trace.json")


def test_the_older_form() -> None:
    x = gt.ones(3)
    with profiles.OF_AUTOGRAD["profile"](use_cuda=True) as prof:
        x.exp()
    assert "aten::exp" in prof.table() and prof.total_average().count >= 1
    with profiles.OF_AUTOGRAD["profile"](enabled=False) as prof:
        x.exp()
    assert not prof.key_averages()


def test_a_name_outside_of_profiles_costs_nothing_else() -> None:
    @record_function("f")
    def f(n: int) -> int:
        return n if n == 0 else f(n - 1)

    assert f(3) == 0 and not profiles._running
    with profile() as prof:
        f(2)
    assert {row.key: row.count for row in prof.key_averages()}["f"] == 3
