"""The modules that `import gputensor` may load; bench/ measures milliseconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench import benchmarks

ROOT = Path(__file__).parents[2]

# Some versions of NumPy load some of these modules; only modules that gputensor adds are counted.
HEAVY = {
    "cupy",
    "cupy_backends",
    "torch",
    "yaml",
    "PIL",
    "matplotlib",
    "pytest",
    "dataclasses",
    "inspect",
    "argparse",
    "asyncio",
    "concurrent",
    "concurrent.futures",
    "importlib.metadata",
    "importlib.resources",
    "json",
    "logging",
    "multiprocessing",
    "subprocess",
    "tempfile",
    "typing_extensions",
    "unittest",
    "urllib",
    "email",
    "zipfile",
    "shutil",
    "hashlib",
    "gputensor.cli",
    "gputensor.iterator",
    "gputensor.kernels",
    "gputensor.makers",
    "gputensor.native",
    "gputensor.runtime.cuda",
    "gputensor.runtime.cuda_emulator",
    "gputensor.structured",
    "gputensor._generated.families",
    "gputensor.registrations",
}

CODE = """
import sys
import numpy, ml_dtypes
before = set(sys.modules)
import gputensor
print(*sorted(set(sys.modules) - before))
"""


# Count every instruction of an import, because times are unreliable on a shared machine.
COUNTED = """
import sys
import numpy, ml_dtypes
count = 0
def trace(frame, event, argument):
    global count
    frame.f_trace_opcodes, frame.f_trace_lines = True, False
    count += event == "opcode"
    return trace
def executed(code, offset):
    global count
    count += 1
if sys.version_info < (3, 12):
    sys.settrace(trace)
else:  # which traces no instructions of frames that begin while it is on
    watch = sys.monitoring
    watch.use_tool_id(watch.PROFILER_ID, "count")
    watch.register_callback(watch.PROFILER_ID, watch.events.INSTRUCTION, executed)
    watch.set_events(watch.PROFILER_ID, watch.events.INSTRUCTION)
import gputensor
if sys.version_info < (3, 12):
    sys.settrace(None)
else:
    watch.set_events(watch.PROFILER_ID, 0)
print(count, *sorted(m for m in sys.modules if m.startswith("gputensor")))
"""


def run(code: str, place: Path = ROOT) -> list[str]:
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=place, env=os.environ | {"PYTHONPATH": str(place)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return found.stdout.split()


def added_modules() -> set[str]:
    return set(run(CODE))


def test_import_loads_nothing_heavy() -> None:
    added = added_modules()
    assert "gputensor.tensor" in added
    assert not added & HEAVY


def test_import_stays_small() -> None:
    # modules of the standard library, whatever they are; a large increase needs a decision
    others = {m for m in added_modules() if not m.startswith("gputensor")}
    assert len(others) <= 12, sorted(others)


def test_import_loads_few_modules_of_ours() -> None:
    # no generated family, native code or kernels: they are loaded on first use
    ours = {m for m in added_modules() if m.partition(".")[0] == "gputensor"}
    assert len(ours) <= 45, sorted(ours)


def test_import_brings_numpy_and_ml_dtypes_and_nothing_else_foreign() -> None:
    roots = {m.partition(".")[0] for m in run("import sys, gputensor; print(*sys.modules)")}
    before = {m.partition(".")[0] for m in run("import sys; print(*sys.modules)")}
    assert roots - before - sys.stdlib_module_names == {"gputensor", "numpy", "ml_dtypes"}


def test_import_does_not_grow_with_the_operators(tmp_path: Path) -> None:
    grow = benchmarks.module("import").grow
    for times, place in ((1, tmp_path / "as it is"), (2, tmp_path / "doubled")):
        grow(place / "gputensor", times)
    count, *modules = run(COUNTED, tmp_path / "as it is")
    grown_count, *grown_modules = run(COUNTED, tmp_path / "doubled")
    assert grown_modules == modules
    assert int(count) <= int(grown_count) < 1.05 * int(count)
    index = [*tmp_path.glob("*/gputensor/core/_generated/index.py")]
    small, large = sorted(len(path.read_text(encoding="utf-8")) for path in index)
    assert large > 1.5 * small, "no names were added"
