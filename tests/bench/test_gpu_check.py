"""bench/gpu_check.sh without a GPU: limits, steps that fail, hang or crash, and results after any
end.

Most tests replace the steps by small ones; one real step is killed half-way, and `.ci/run` runs
both modes on the emulator.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gputensor as gt
from bench.copies import layout_cases
from bench.gpu_check import __main__ as command, fuzz, lines, run, sanitizer, steps, verdicts
from bench.gpu_check.steps import Step
from bench.records import checkout, record
from gputensor.runtime import trust

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "bench" / "gpu_check.sh"
EMULATED = {"GPUTENSOR_CUDA": "emulator"}


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def until(holds: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait for an action of another process. If it does not happen, the test fails instead of
    hanging."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)
    return found


def ran(tmp_path: Path, *wanted: Step, budget: float = 60.0) -> tuple[int, dict[str, Any], str]:
    """Return exit status, results and table of a run of steps."""
    out = tmp_path / "out"
    status = run.Run("correct", list(wanted), tmp_path / "work", out, budget, EMULATED).run()
    found = json.loads((out / "gpu_check-correct.json").read_text())
    return status, found, (out / "gpu_check-correct.md").read_text()


def packed(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar.getmembers()}


# --- the lists ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", steps.MODES)
def test_the_limits_add_up_to_less_than_nine_minutes(tmp_path: Path, mode: str) -> None:
    found = steps.of(mode, tmp_path, is_dry=False)
    assert len({step.name for step in found}) == len(found) > 8
    assert sum(step.seconds for step in found) <= command.BUDGET_S < 9 * 60
    assert [s.name for s in found] == [s.name for s in steps.of(mode, tmp_path, is_dry=True)]


def test_what_is_right_is_asked_of_all_that_can_be_wrong(tmp_path: Path) -> None:
    names = [step.name for step in steps.of("correct", tmp_path, is_dry=False)]
    assert names == [
        "doctor", "environment", "kernels", "runtime", "device", "operators", "copies", "whole",
        "examples", "sanitizer",
    ]  # fmt: skip
    for step in steps.of("correct", tmp_path, is_dry=False):
        for word in step.command:
            assert not word.startswith(("tests/", "examples/")) or (ROOT / word).exists(), word


def test_every_case_of_the_layouts_is_measured_once(tmp_path: Path) -> None:
    found = steps.of("measure", tmp_path, is_dry=False)
    chosen = [s.command[s.command.index("--cases") + 1] for s in found if "--cases" in s.command]
    numbers = [int(n) for part in chosen for n in part.split(",")]
    assert sorted(numbers) == [case.number for case in layout_cases.CASES]
    assert not any("--rounds" in step.command for step in found)  # a record for publication


def test_the_copies_have_the_emulators_seeds() -> None:
    text = (ROOT / "tests" / "cuda" / "kernels" / "test_copy_kernels.py").read_text()
    for _, seed, most, _ in fuzz.SEEDS[:3]:
        assert f"Random({seed})" in text and f"{most:_}" in text
    assert len({seed for _, seed, *_ in fuzz.SEEDS}) == len(fuzz.SEEDS)


# --- the environment of a GPU's steps -------------------------------------------------------------


def test_carried_cubins_are_used_from_a_folder_that_nobody_else_may_write(
    tmp_path, monkeypatch, tmp_path_factory
):
    monkeypatch.setattr(command.checkout, "ROOT", tmp_path)
    monkeypatch.setattr(command, "CUBINS", tmp_path / ".carried" / "cubins.tar.xz")
    monkeypatch.delenv("GPUTENSOR_CACHE_DIR", raising=False)
    found = command.settings(False)
    assert "GPUTENSOR_CARRIED_CUBINS" not in found and found["GPUTENSOR_CUDA"] == "required"
    (tmp_path / "a.cubin").write_bytes(b"x")
    (tmp_path / "a.cubin").chmod(0o777)
    command.CUBINS.parent.mkdir()
    with tarfile.open(command.CUBINS, "w:xz") as archive:
        archive.add(tmp_path / "a.cubin", arcname="a.cubin")
    mine = Path(command.settings(False)["GPUTENSOR_CARRIED_CUBINS"])
    assert mine.stat().st_mode & 0o777 == 0o700 and (mine / "a.cubin").read_bytes() == b"x"
    assert mine.parent == tmp_path / "out" and not trust.wrong_folder(str(mine))
    # Code must not be loaded from a checkout that other users may change.
    tmp_path.chmod(0o777)
    monkeypatch.setattr(command.tempfile, "gettempdir", lambda: str(tmp_path_factory.mktemp("t")))
    elsewhere = command.settings(False)
    assert not elsewhere["GPUTENSOR_CACHE_DIR"].startswith(str(tmp_path / "out"))
    assert not trust.wrong_folder(elsewhere["GPUTENSOR_CARRIED_CUBINS"])
    assert command.settings(True)["GPUTENSOR_CUDA"] == "emulator"


def test_prepare_compiles_for_the_gpu_and_notes_the_commit(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "CARRIED", tmp_path)
    monkeypatch.setattr(command, "CUBINS", tmp_path / "cubins.tar.xz")
    monkeypatch.setattr(command, "PACKAGES", tmp_path / "python")
    monkeypatch.setattr(checkout, "NOTE", tmp_path / "commit.json")
    monkeypatch.setattr(checkout, "_of_git", lambda: {"hash": "f" * 40, "dirty": False})
    called = []
    with monkeypatch.context() as patch:

        def compile_all(words: list[str], check: bool) -> Any:
            called.append(words)
            (Path(words[-1]) / "a.cubin").write_bytes(b"x")
            return subprocess.CompletedProcess(words, 0)

        patch.setattr(command.subprocess, "run", compile_all)
        assert command.main(["prepare"]) == 0
    assert called[0][1:-1] == [
        "-m", "gputensor", "cache", "warm", "--all", "--arch", "sm_90", "--to",
    ]  # fmt: skip
    with tarfile.open(command.CUBINS) as archive:
        assert [m.name for m in archive.getmembers() if m.isfile()] == ["./a.cubin"]
    assert json.loads(checkout.NOTE.read_text())["hash"] == "f" * 40
    assert "carry the folder" in capsys.readouterr().out
    # The tests of operators read the YAML, even if the package that reads it is not installed.
    monkeypatch.setattr(command, "is_there", lambda name: False)
    monkeypatch.setattr(command.checkout, "ROOT", tmp_path)
    with_yaml = os.environ | command.settings(False)
    read = "import yaml; print(yaml.__file__, yaml.safe_load('a: [1]'))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = "
                                     f"{with_yaml['PYTHONPATH'].split(':')}; {read}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith(str(tmp_path / "python")) and "{'a': [1]}" in done.stdout


def test_what_is_carried_is_no_part_of_the_tree() -> None:
    assert f"/{command.CARRIED.name}/" in (ROOT / ".gitignore").read_text().split()
    assert command.CARRIED.name in (ROOT / ".dockerignore").read_text().split()


# --- running --------------------------------------------------------------------------------------

_HANGS = "import time; print('half', flush=True); time.sleep(60)"


@pytest.mark.full
def test_a_step_that_fails_hangs_or_dies_costs_only_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "GRACE_S", 0.5)
    status, found, table = ran(
        tmp_path,
        Step("good", 30, python("print('fine')")),
        Step("fails", 30, python("raise SystemExit(3)")),
        Step("hangs", 0.4, python(_HANGS)),
        Step("dies", 30, python("import os; os.kill(os.getpid(), 9)")),
        Step("stubborn", 0.4, python(f"import signal; signal.signal(signal.SIGTERM, "
                                     f"signal.SIG_IGN); {_HANGS}")),
        Step("skipped", 30, python(f"raise SystemExit({steps.SKIPPED})")),
        Step("absent", 30, ["/nowhere/python"]),
        Step("last", 30, python("print('still here')")),
    )  # fmt: skip
    exits = {step["name"]: step["exit"] for step in found["steps"]}
    assert status == 1 and found["status"] == "done" and found["not_begun"] == []
    assert exits["good"] == exits["last"] == 0 and exits["fails"] == 3
    assert (
        exits["hangs"] == -signal.SIGTERM and exits["dies"] == exits["stubborn"] == -signal.SIGKILL
    )
    assert (
        exits["absent"] == 127 and "| **it did not start (No such file or directory)** |" in table
    )
    kept = packed(tmp_path / "out" / "gpu_check-correct.tar.gz")
    assert (
        kept["work/logs/hangs.log"] == b"half\n" and kept["work/logs/last.log"] == b"still here\n"
    )
    assert "| good | exit 0 | fine | holds |" in table and "it was ended after its 0 s" in table
    assert "| fails | exit 0 | – | **failed** (exit 3) |" in table and "| skipped |" in table


def test_a_file_that_cannot_be_written_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "work" / "gpu_check-correct.json").mkdir(parents=True)
    (tmp_path / "work" / "gpu_check-correct.md").mkdir()
    status, found, page = ran(tmp_path, Step("one", 5, python("print('done')")))
    assert status == 0 and found["status"] == "done" and "one" in page
    assert (tmp_path / "out" / "gpu_check-correct.tar.gz").exists()


def test_what_a_step_started_ends_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "GRACE_S", 0.5)
    child = "[sys.executable, '-c', 'import time; time.sleep(60)']"
    left = f"import subprocess, sys; print(subprocess.Popen({child}).pid)"
    ran(tmp_path, Step("leaves", 30, python(left)))
    pid = int((tmp_path / "work" / "logs" / "leaves.log").read_text())
    until(lambda: not _runs(pid), 10)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_no_step_begins_behind_the_budget(tmp_path):
    status, found, table = ran(
        tmp_path, Step("long", 30, python("import time; time.sleep(60)")),
        Step("late", 30, python("print(1)")), budget=0.5,
    )  # fmt: skip
    assert status == 1 and [step["exit"] for step in found["steps"]] == [-signal.SIGTERM, None]
    assert "**no time was left**" in table and "**it was ended after its " in table


_RUN = """
import sys
from pathlib import Path
from bench.gpu_check import run
from bench.gpu_check.steps import Step
run.REFRESH_S = 0.1
code = "import time; print('half', flush=True); time.sleep(60)"
steps = [Step("done", 30, [sys.executable, "-c", "print(1)"]),
         Step("half", 60, [sys.executable, "-c", code]),
         Step("never", 30, [sys.executable, "-c", "print(2)"])]
place = Path(sys.argv[1])
environment = {"GPUTENSOR_CUDA": "emulator"}
sys.exit(run.Run("measure", steps, place / "work", place / "out", 60.0, environment).run())
"""


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda n: n.name)
def test_what_was_done_is_there_when_the_whole_command_is_killed(tmp_path, number):
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, str(tmp_path)], cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    archive = tmp_path / "out" / "gpu_check-measure.tar.gz"
    try:
        until(lambda: archive.exists() and packed(archive).get("work/logs/half.log") == b"half\n")
        found = json.loads((archive.parent / "gpu_check-measure.json").read_text())
        group = until(lambda: _child(process.pid))
        process.send_signal(number)
        process.wait(20)
        if number == signal.SIGTERM:
            assert process.returncode == 1
            found = json.loads((archive.parent / "gpu_check-measure.json").read_text())
            assert found["status"] == "stopped" and not _runs(group)
    finally:
        if process.poll() is None:
            process.kill()
        if number == signal.SIGKILL:
            os.killpg(group, signal.SIGKILL)  # its parent has ended
    assert [step["name"] for step in found["steps"]] == ["done", "half"]
    assert found["steps"][0]["exit"] == 0 and found["not_begun"] == ["never"]
    assert (
        "| never | exit 0 | – | not begun |"
        in (archive.parent / "gpu_check-measure.md").read_text()
    )


def _child(pid: int) -> int | None:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(found[0]) if found else None


def test_an_archive_keeps_its_bounds_and_says_what_it_left_out(tmp_path, monkeypatch):
    work = tmp_path / "work"
    (work / "logs").mkdir(parents=True)
    (work / "small.json").write_text("{}")
    (work / "large.bin").write_bytes(os.urandom(60_000))
    (work / "logs" / "long.log").write_bytes(b"begin" + b"x" * 1_000_000 + b"end")
    data, left_out = run.archive(work)
    assert left_out == [] and len(data) < 300_000
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        log = tar.extractfile("work/logs/long.log").read()
    assert log.startswith(b"begin") and log.endswith(b"end") and len(log) < run.HEAD + run.TAIL + 99
    assert "bytes …]".encode() in log
    monkeypatch.setattr(run, "ARCHIVE_BYTES", 20_000)
    data, left_out = run.archive(work)
    assert len(data) <= 20_000 and left_out == ["large.bin"]
    assert 2 * run.ARCHIVE_BYTES < 16 << 20


def test_three_files_come_back(tmp_path):
    ran(tmp_path, Step("good", 30, python("print(1)")))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "gpu_check-correct.json", "gpu_check-correct.md", "gpu_check-correct.tar.gz",
    ]  # fmt: skip


# --- tests as steps -------------------------------------------------------------------------------

_TESTS = """
import os
import pytest
import gputensor as gt

def test_first(): pass
def test_wild(): os.kill(os.getpid(), 11)
def test_sticky(monkeypatch):
    def dead(device=None): raise RuntimeError("an illegal memory access was encountered")
    gt.cuda.synchronize = dead
    assert False, "asynchronously"
def test_plain(): assert 1 == 2
@pytest.mark.skip(reason="for a reason")
def test_skipped(): pass
def test_last(): gt.cuda.synchronize()
"""


@pytest.mark.full
@pytest.mark.emulator
@pytest.mark.parametrize("jobs", [1, 3])
def test_tests_go_on_in_another_process_when_one_dies_or_its_device_does(tmp_path, jobs):
    if not gt.cuda.is_available():
        pytest.skip(str(gt.cuda.unavailable_reason()))
    tests, results = tmp_path / "test_made_up.py", tmp_path / "results.jsonl"
    tests.write_text(_TESTS)
    step = [sys.executable, "-m", "bench.gpu_check.suite", str(results), "--jobs", str(jobs)]
    done = subprocess.run(
        [*step, str(tests), "--rootdir", str(tmp_path)], cwd=ROOT,
        env=os.environ | EMULATED | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = {name.partition("::")[2]: line for name, line in lines.read(results).items()}
    assert {name: line["outcome"] for name, line in found.items()} == {
        "test_first": "passed", "test_wild": "died", "test_sticky": "failed",
        "test_plain": "failed",
        "test_skipped": "skipped", "test_last": "passed",
    }, done.stdout[-3000:]  # fmt: skip
    assert (
        "illegal memory access" in found["test_sticky"]["dead"]
        and "dead" not in found["test_plain"]
    )
    assert "for a reason" in found["test_skipped"]["why"] and done.returncode == 1
    # A new process follows each process that died or lost its device.
    assert done.stdout.count("test session starts") == jobs + 2


def test_a_device_that_reports_one_failure_and_works_on_is_not_dead(monkeypatch):
    answers = iter([RuntimeError("late"), None])

    def synchronize(device=None):
        if (answer := next(answers)) is not None:
            raise answer

    monkeypatch.setattr(gt.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(gt.cuda, "synchronize", synchronize)
    assert lines.dead_device() is None
    answers = iter([RuntimeError("sticky")] * 2)
    assert lines.dead_device() == "RuntimeError: sticky"


# --- copies, the sanitizer ------------------------------------------------------------------------


def test_a_seed_that_fails_costs_no_other(tmp_path, monkeypatch, capsys):
    fake = tmp_path / "tests" / "cuda" / "kernels"
    fake.mkdir(parents=True)
    for folder in (fake, fake.parent, fake.parents[1]):
        (folder / "__init__.py").write_text("")
    (fake / "test_copy_kernels.py").write_text(
        "import sys; print('3 copies equal NumPy' if sys.argv[2] != '8' else 'wrong'); "
        "sys.exit(sys.argv[2] == '8')"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert fuzz.main([str(tmp_path / "copies")]) == 1
    said = capsys.readouterr().out
    assert (
        said.count("copies equal NumPy") == len(fuzz.SEEDS) - 1 and "seeds that failed: [8]" in said
    )
    step = Step("copies", 1, [], "copies")
    assert verdicts._copies(step, tmp_path)[1] == f"{len(fuzz.SEEDS) - 1} do, 0 were cut off"


@pytest.mark.parametrize(("status", "expected"), [(0, 0), (86, 1)])
def test_a_small_fuzz_runs_under_the_sanitizer_where_it_is(
    tmp_path, monkeypatch, capfd, status, expected
):
    monkeypatch.setenv("GPUTENSOR_CUDA", "emulator")
    assert sanitizer.main() == steps.SKIPPED
    monkeypatch.setenv("GPUTENSOR_CUDA", "required")
    monkeypatch.setattr(sanitizer, "_PLACES", ())
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(f'#!/bin/sh\necho "$@"\nexit {status}\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert sanitizer.main() == expected
    said = capfd.readouterr().out
    assert "--tool memcheck" in said and "--tool racecheck" in said and "test_copy_kernels" in said
    monkeypatch.setenv("PATH", "")
    assert sanitizer.main() == steps.SKIPPED


# --- the table ------------------------------------------------------------------------------------


def case(number: int, share: float, torch: float, kind: str = "tile") -> dict[str, Any]:
    return {
        "number": number, "name": f"{number}", "kind": kind, "sizes": [1], "bytes": 1, "again": 1.0,
        "ns": {"gputensor": 1.0}, "quartiles_ns": {"gputensor": [1.0, 1.0]}, "verified": True,
        "share_of_memcpy": share, "share_of_sectors": share, "ratio": {"torch": torch,
        "cupy": torch},
        "above_roofline": [],
    }  # fmt: skip


def written(path: Path, benchmark: str, **data: Any) -> None:
    from bench.records.environment import environment

    around = environment("cpu", []) | {
        "gpu": {"name": "a GPU", "emulated": False, "capability": [9, 0]}
    }
    whole = {
        "benchmark": benchmark,
        "device": "cuda:0",
        "peers": ["torch", "cupy"],
        "skipped": {},
    } | data
    record.write(record.build(whole, around), path)


def test_a_budget_is_held_against_the_records_of_all_parts(tmp_path):
    cases = [case(n, 0.9, 3.0) for n in range(1, 39)]
    cases[7] = case(8, 0.55, 0.5)
    for name, numbers in steps.PARTS.items():
        part = [cases[n - 1] for n in numbers]
        written(
            tmp_path / f"layout-{name}" / "layout-cuda.json",
            "layout",
            cases=part,
            is_emulated=False,
        )
    ns = {"gputensor": 4000.0, "torch": 5000.0, "cupy": 7000.0}
    hosts = [{"name": name, "ns": ns} for name in verdicts.HOST_CASES]
    churn = {"us_per_operator": 11.0}
    written(tmp_path / "overhead" / "overhead-cuda.json", "overhead", cases=hosts, churn=churn)
    table = verdicts.table("measure", [], [], tmp_path, False)
    what = "layout copies, 38 of 38 cases"
    assert (
        f"| {what}: share of memcpy by sectors, geometric mean | ≥ 0.88 | 0.89 | holds |" in table
    )
    assert f"| {what}: share of memcpy by sectors, worst | ≥ 0.6 | 0.55 | **missed** |" in table
    assert f"| {what}: × PyTorch, worst | ≥ 0.97 | 0.50 | **missed** |" in table
    assert "× PyTorch's, geometric mean | ≤ 1 | 0.80 | holds |" in table
    assert "× CuPy's, geometric mean | ≤ 0.5 | 0.57 | **missed** |" in table
    assert "a shape never seen before, µs an operator | ≤ 12 | 11.00 | holds |" in table
    emulated = verdicts.table("measure", [], [], tmp_path, True)
    assert "0.89" not in emulated and "holds" not in emulated and "nothing of a GPU" in emulated
    (tmp_path / "layout-others" / "layout-cuda.json").unlink()
    part = verdicts.table("measure", [], [], tmp_path, False)
    assert (
        "23 of 38 cases: share of memcpy by sectors, worst | ≥ 0.6 | 0.55 | **missed**, of these |"
        in part
    )
    (tmp_path / "overhead" / "overhead-cuda.json").write_text("{")
    assert "× CuPy's, geometric mean | ≤ 0.5 | – | not measured |" in verdicts.table(
        "measure", [], [], tmp_path, False
    )


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.emulator
def test_a_real_step_that_is_killed_half_way_leaves_its_cases_and_costs_no_other(tmp_path):
    if not gt.cuda.is_available():
        pytest.skip(str(gt.cuda.unavailable_reason()))
    work, out = tmp_path / "work", tmp_path / "out"
    words = ["measure", "--dry", "--work", str(work), "--only", "layout-others,bandwidth,merge"]
    process = subprocess.Popen(
        [str(SCRIPT), *words], env=os.environ | {"OUT": str(out), "PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    half = work / "layout-others" / "layout-cuda.json"
    until(half.exists, 120)
    os.killpg(_child(process.pid), signal.SIGKILL)
    assert process.wait(120) == 1
    found = json.loads((out / "gpu_check-measure.json").read_text())
    assert [step["exit"] for step in found["steps"]] == [-signal.SIGKILL, 0, 0]
    assert 1 <= len(record.read(half)["cases"]) < len(steps.PARTS["others"])
    kept = packed(out / "gpu_check-measure.tar.gz")
    assert kept["work/layout-others/layout-cuda.json"] == half.read_bytes()
    merged, others = (
        json.loads(kept[f"work/{name}"])["gputensor"]
        for name in ("layout/layout-cuda.json", "bandwidth/bandwidth-cuda.json")
    )
    assert merged["cases"] == record.read(half)["cases"] and len(others["cases"]) == 10
    assert merged["environment"]["commit"] == checkout.commit()
    assert f"(it has {len(merged['cases'])} of 38 cases)" in " ".join(
        merged["environment"]["missing"]
    )


@pytest.mark.full
@pytest.mark.parametrize(
    "words", [["--fast"], ["correct", "--fast"], [], ["correct", "--only", "nothing"]]
)
def test_what_it_does_not_know_is_refused(tmp_path, words):
    done = subprocess.run(
        [str(SCRIPT), *words], env=os.environ | {"OUT": str(tmp_path), "PYTHON": sys.executable},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    named = "what" if words in ([], ["--fast"]) else words[-1]
    assert done.returncode == 2 and named in done.stderr and not list(tmp_path.iterdir())
