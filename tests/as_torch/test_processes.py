"""torch.multiprocessing.spawn and similar functions, in programs under run-as-torch."""

from __future__ import annotations

import os
import pickle
import signal
from pathlib import Path
from typing import Any

import pytest

import gputensor as gt
from gputensor.as_torch import processes

from .test_programs import run

PROGRAM = """
import os, signal, sys, time
import torch
import torch.multiprocessing as mp
import torch.multiprocessing.spawn


def add(index, shared, scale):
    shared[index] += scale * (index + 1)


def fail(index):
    if index == 1:
        raise ValueError(f"of process {index}" + "." * 200_000)
    time.sleep(600)


def die(index):
    if index == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


if __name__ == "__main__":
    mp.set_sharing_strategy("file_system")
    shared = torch.zeros(3).share_memory_()
    assert mp.spawn(add, (shared, 2.0), nprocs=3) is None
    print(shared.tolist())
    context = mp.spawn(add, args=(shared, 1.0), nprocs=2, join=False)
    assert len(context.pids()) == 2
    while not context.join(timeout=600):
        pass
    print(shared.tolist(), context.join())
    for function in (fail, die):
        try:
            mp.spawn(function, nprocs=2)
        except mp.spawn.__globals__["ProcessException"] as error:
            said = str(error)
            print(type(error).__name__, error.error_index, "ValueError: of process 1." in said,
                  "in fail" in said, getattr(error, "signal_name", None))
    mp.start_processes(add, (shared, 1.0), nprocs=1, start_method="fork")
    print(shared.tolist())
"""


@pytest.mark.full
def test_a_program_that_spawns(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = run(str(script))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[2.0, 4.0, 6.0]", "[3.0, 6.0, 6.0] True", "ProcessRaisedException 1 True True None",
        "ProcessExitedException 0 False False SIGKILL", "[4.0, 6.0, 6.0]",
    ]  # fmt: skip


def _exits(index: int, code: int) -> None:
    os._exit(code * index)


def test_an_exit_code_is_named() -> None:
    with pytest.raises(
        processes.ProcessExitedException, match="process 1 terminated with exit"
    ) as e:
        processes.start_processes(_exits, (3,), 2, start_method="fork")
    again = pickle.loads(pickle.dumps(e.value))
    assert (again.exit_code, again.error_index, again.signal_name) == (3, 1, None)
    raised = processes.ProcessRaisedException("said", 2, 30)
    assert pickle.loads(pickle.dumps(raised)).error_pid == 30


def test_refused() -> None:
    with pytest.raises(gt.GpuTensorError, match="spawn: 'fn' must be a function"):
        processes.spawn(3)  # type: ignore[arg-type]
    with pytest.raises(gt.GpuTensorError, match="'new_strategy' must be file_descriptor or"):
        processes.set_sharing_strategy("else")
    of: Any = processes.OF_MULTIPROCESSING
    assert of["get_sharing_strategy"]() in of["get_all_sharing_strategies"]()


def _waits(index: int) -> None:
    signal.pause()


def test_others_end_by_themselves_or_are_ended() -> None:
    context = processes.start_processes(_waits, (), 2, join=False, start_method="fork")
    assert context is not None and not context.join(timeout=0.05)
    os.kill(context.pids()[1], signal.SIGTERM)
    with pytest.raises(processes.ProcessExitedException, match="signal SIGTERM"):
        while not context.join(grace_period=0.05):
            pass
    assert not any(process.is_alive() for process in context.processes)
