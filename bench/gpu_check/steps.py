"""The steps of `correct` and `measure`: commands, time limits, and shorter versions for a dry run.

The limits of a mode add up to at most its budget, so a step that hangs takes no time from others.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.copies import layout, layout_cases
from bench.records import checkout

MODES = ("correct", "measure")
# Factor by which time limits are longer in a dry run, which compiles kernels for the emulator on a
# shared machine.
SLACK = 6
# Exit status of a step that cannot run on this machine.
SKIPPED = 77
# Cases of `layout`, divided into parts, so that a part that hangs does not stop the others.
PARTS = {
    "planes": (1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 38),
    "images": (14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24),
    "others": (4, 5, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37),
}
# The number of processes that share a device while tests run.
_JOBS = 16
# All tests that use a device, except for the tests of earlier steps.
WHOLE = (
    "tests/amp", "tests/autograd", "tests/backend", "tests/cuda", "tests/custom_op",
    "tests/dispatch", "tests/errors", "tests/exchange", "tests/fusion", "tests/iterator",
    "tests/layout", "tests/makers", "tests/nn", "tests/op_db", "tests/operators", "tests/optim",
    "tests/random_numbers", "tests/runtime", "tests/tensor", *(
        str(path.relative_to(checkout.ROOT))
        for path in sorted((checkout.ROOT / "tests").glob("test_*.py"))
        if path.name != "test_pytest_plugin.py"
    ),
    "--ignore=tests/operators/test_ops_cpu_vs_cuda.py",
)  # fmt: skip
# Options of pytest that exclude tests of compilers and of the emulator. These tests do not depend
# on a GPU.
OF_NO_GPU = (
    "--ignore-glob=*_compile.py", "--ignore-glob=*_emulator*", "--ignore-glob=*hostile*",
    "--ignore=tests/cuda/emulator/test_samples.py",
    "--ignore=tests/cuda/kernels/plans/test_bank_conflicts.py",
    "--ignore=tests/cuda/kernels/test_copy_kernels.py",
    "--ignore=tests/cuda/runtime/test_runtime_conformance.py",
    "--ignore=tests/cuda/runtime/test_runtime_cuda.py",
)  # fmt: skip


class Step:
    """A command and its limit in seconds.

    kind: where its result is found (verdicts.py): in the last line of the output (exit), in the
    log, in the lines of tests, in the logs of seeds, or in a record.
    """

    __slots__ = ("name", "seconds", "command", "kind")

    def __init__(self, name: str, seconds: float, command: list[str], kind: str = "exit") -> None:
        self.name, self.seconds, self.command, self.kind = name, seconds, command, kind


def of(mode: str, work: Path, *, is_dry: bool) -> list[Step]:
    """Return the steps of a mode, in order. They write to the folder `work`."""
    found = (_correct if mode == "correct" else _measure)(work, is_dry)
    for step in found if is_dry else ():
        step.seconds *= SLACK
    return found


def _python(*arguments: object) -> list[str]:
    return [sys.executable, "-m", *map(str, arguments)]


def _first(is_dry: bool, seconds: float) -> list[Step]:
    # a dry run compiles no kernels in advance: each step compiles its kernels for the emulator on
    # first use
    warm = ["cache", "list"] if is_dry else ["cache", "warm", "--all"]
    return [
        Step("doctor", 10, _python("gputensor", "doctor"), "log"),
        Step("environment", 10, _python("bench", "env", "--device", "cuda:0"), "log"),
        Step("kernels", seconds, _python("gputensor", *warm), "log"),
    ]


def _correct(work: Path, is_dry: bool) -> list[Step]:
    def suite(name: str, seconds: float, *tests: str, few: str | None = None) -> Step:
        chosen = ["-k", few] if is_dry and few else []
        jobs = 1 if is_dry else max(1, min(_JOBS, len(os.sched_getaffinity(0))))
        results = work / f"{name}.jsonl"
        command = _python("bench.gpu_check.suite", results, "--jobs", jobs, *tests, *chosen)
        return Step(name, seconds, command, "tests")

    where = "emulator" if is_dry else "gpu"
    sizes = ("--dry",) if is_dry else ()
    return [
        *_first(is_dry, 60),
        suite("runtime", 40, "tests/cuda/runtime/test_runtime_conformance.py", few="denormals"),
        suite("device", 70, "tests/device", few="replay or graphed or legacy"),
        suite("operators", 70, "tests/operators/test_ops_cpu_vs_cuda.py", few="[add] or [sum]"),
        Step("copies", 45, _python("bench.gpu_check.fuzz", work / "copies", *sizes), "copies"),
        suite("whole", 150, *WHOLE, *OF_NO_GPU, few="test_a_copy or test_seed"),
        Step(
            "examples", 30,
            [*_python("gputensor", "kernel", "check", "--on", where, "--no-compile"),
            *_examples(is_dry)],
        ),
        Step("sanitizer", 40, _python("bench.gpu_check.sanitizer"), "exit"),
    ]  # fmt: skip


def _examples(is_dry: bool) -> list[str]:
    found = sorted(str(path) for path in Path("examples/blur").glob("*.cu"))
    return found[:1] if is_dry else found


def _measure(work: Path, is_dry: bool) -> list[Step]:
    device = "cuda:0"
    if is_dry:
        peers = compiled = ["--peers", "", "--rounds", "1", "--scale", "128"]
    else:
        peers, compiled = ["--peers", "torch,cupy"], ["--peers", "torch,torch.compile,cupy"]

    def bench(name: str, seconds: float, benchmark: str, *more: object) -> Step:
        command = ["bench", "run", benchmark, "--device", device, "--out", work / name]
        return Step(name, seconds, _python(*command, *more), f"record {benchmark}")

    # torch.compile takes seconds per case, so only one part measures it
    parts = [
        bench(
            f"layout-{name}", seconds, "layout", *beside, "--cases", ",".join(map(str,
            PARTS[name]))
        )
        for name, seconds, beside in (
            ("planes", 80, compiled), ("images", 45, peers), ("others", 50, peers),
        )
    ]  # fmt: skip
    records = [work / f"layout-{name}" / "layout-cuda.json" for name in (*PARTS, "rest")]
    return [
        *_first(is_dry, 40),
        bench("memcpy", 25, "memcpy", *peers),
        *parts,
        # this step measures the cases that no part has measured
        bench("layout-rest", 30, "layout", *peers, "--beside", ",".join(map(str, records[:-1]))),
        bench("pack", 50, "pack", *peers),
        bench("overhead", 35, "overhead", *(["--rounds", "3"] if is_dry else [])),
        bench("bandwidth", 30, "bandwidth", *peers),
        bench("fuse", 90, "fuse", *(["--rounds", "1", "--scale", "128"] if is_dry else [])),
        Step(
            "merge",
            15,
            _python("bench", "merge", "--out", work / "layout", *records),
            "record layout",
        ),
    ]


assert sorted(sum(PARTS.values(), ())) == [case.number for case in layout_cases.CASES]
assert layout.COUNT == len(layout_cases.CASES)
