"""The logic of bench/gpu_check.sh: order, limits, failing and hanging steps, what it leaves behind.

A stand-in for Python notes how it is called, and fails or sleeps where it is told to.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from bench import layout_cases

SCRIPT = Path(__file__).parents[2] / "bench" / "gpu_check.sh"
_STAND_IN = """#!/bin/bash
echo "$GPUTENSOR_CUDA $*" >> "$CALLS"
case "$*" in *"$HANGS"*) exec sleep 60;; *"$FAILS"*) exit 3;; esac
"""


def steps() -> list[tuple[str, int]]:
    """(name, seconds) of the script's steps."""
    return [(n, int(s)) for n, s in re.findall(r"^ *step (\S+) (\d+)", SCRIPT.read_text(), re.M)]


def run(tmp_path: Path, *arguments: str, **environment: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, gpu_check.json, and the calls of Python."""
    stand_in, calls = tmp_path / "python", tmp_path / "calls"
    stand_in.write_text(_STAND_IN)
    stand_in.chmod(0o755)
    given = {
        **os.environ, "PYTHON": str(stand_in), "CALLS": str(calls), "OUT": str(tmp_path / "out"),
        "FAILS": "nothing", "HANGS": "nothing", **environment,
    }  # fmt: skip
    done = subprocess.run(
        [str(SCRIPT), *arguments], env=given, capture_output=True, text=True, check=False
    )
    found = json.loads((tmp_path / "out" / "gpu_check.json").read_text())
    return done.returncode, found, calls.read_text()


def test_the_limits_add_up() -> None:
    found = steps()
    loops = 3  # of report-$part
    total = sum(seconds for _, seconds in found) + (loops - 1) * found[-1][1]
    budget = int(re.search(r"GPU_CHECK_BUDGET:-(\d+)", SCRIPT.read_text())[1])
    assert len(found) > 8 and total <= budget < 480


def test_what_is_right_comes_before_what_is_fast(tmp_path: Path) -> None:
    status, found, calls = run(tmp_path)
    names = [step["name"] for step in found["steps"]]
    assert status == 0 and found["status"] == 0 and all(s["exit"] == 0 for s in found["steps"])
    assert names[:5] == ["doctor", "copies", "runtime", "examples", "operators"]
    assert [n for n in names if n.startswith("report")] == [
        "report-planes", "report-images", "report-others",
    ]  # fmt: skip
    assert all(line.startswith("required ") for line in calls.splitlines())
    assert "--on gpu" in calls and "tests.cuda.test_copy_kernels" in calls


def test_every_case_of_the_layouts_is_measured_once(tmp_path: Path) -> None:
    _, _, calls = run(tmp_path)
    numbers = [int(n) for part in re.findall(r"--cases (\S+)", calls) for n in part.split(",")]
    assert sorted(numbers) == sorted(case.number for case in layout_cases.CASES)


def test_a_failing_and_a_hanging_step_stop_nothing(tmp_path: Path) -> None:
    status, found, calls = run(
        tmp_path, "--dry", FAILS="kernel check", HANGS="run overhead", GPU_CHECK_BUDGET="1"
    )
    by_name = {step["name"]: step["exit"] for step in found["steps"]}
    assert status == 1 and found["status"] == 1
    assert by_name["examples"] == 3 and by_name["operators"] == 0
    assert by_name["overhead"] == 124 and "report-others" in by_name
    assert all(line.startswith("emulator ") for line in calls.splitlines())
    assert "report" not in calls  # no time was left


def test_what_it_does_not_know_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(SCRIPT), "--fast"], env={**os.environ, "OUT": str(tmp_path)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "--fast" in done.stderr
