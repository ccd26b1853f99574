"""Run tests of the compiled library under a sanitizer: `python -m tests.sanitize NAME`.

The library is built for the first capability of this machine, with -O1, to build/sanitize, and an
import hook replaces the package's. Interpreter and NumPy are not instrumented, but the library's
accesses to their memory are checked, because the sanitizer allocates it.

    address    reads and writes out of bounds, or after free
    thread     data races
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import build_library

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "sanitize"
OPTIONS = "-O1 -g1 -fno-omit-frame-pointer".split()

# Loads the instrumented library instead of the package's, in every process of a run.
HOOK = """\
import importlib.util, sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "gputensor.kernels.compiled._library":
            return importlib.util.spec_from_file_location(name, {library!r})

sys.meta_path.insert(0, Finder)
"""


class Sanitizer(NamedTuple):
    """runtime: the library that is loaded before Python. options: its settings, by the variable's
    name. fault: a program that the sanitizer must end. runs: arguments of `python -m` for commands
    that must pass."""

    runtime: str
    options: dict[str, str]
    fault: str
    runs: tuple[tuple[str, ...], ...]


def _pytest(chosen: str, *places: str, tier: str = "quick") -> tuple[str, ...]:
    """Return the command for the tests at these paths, without tests that need CUDA."""
    names = ("-k", f"{chosen} and not cuda")
    return ("pytest", "-q", "-p", "no:cacheprovider", "-n", "auto", "--tier", tier, *names, *places)


# A test that limits memory is left out, because a sanitizer needs much memory.
_SAFETY = _pytest("not address_space", "tests/kernels/library/test_library_safety.py", tier="full")


_PROGRAMS = ("tests.kernels.library.programs", "0", "150", os.devnull)
# Tests that call the loops directly, and every operator once: CI has a limit of 90 minutes.
_KERNELS = (
    *sorted(
        str(path.relative_to(ROOT))
        for path in ROOT.glob("tests/kernels/compiled/test_compiled_*.py")
    ),
    "tests/fusion/cpu/test_cpu_programs.py", "tests/fusion/test_shared_memory.py",
    "tests/errors/test_bad_tensors.py", "tests/operators/test_ops_forward.py",
)  # fmt: skip
_BEYOND = """
import numpy as np
from gputensor.kernels.compiled import library
library.function("histogram", "bincount i64")(np.zeros(3, np.int64), np.arange(200))
"""
_AT_ONCE = """
import threading
import gputensor as gt
x, out = gt.ones(1 << 20), gt.empty(1 << 20)
def work():
    for _ in range(5):
        gt.add(x, x, out=out)
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
# The waits of OpenBLAS's threads are not instrumented, so its writes to memory look like races.
_UNINSTRUMENTED = "race:libscipy_openblas"
_IGNORED = f"suppressions={FOLDER / 'thread' / 'ignored'}"
SANITIZERS = {
    "address": Sanitizer(
        "libasan.so",
        {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1", "PYTHONMALLOC": "malloc"},
        _BEYOND,
        (_PROGRAMS, _SAFETY, _pytest("not elementary", *_KERNELS)),
    ),
    "thread": Sanitizer(
        "libtsan.so",
        {"TSAN_OPTIONS": f"halt_on_error=1:die_after_fork=0:report_signal_unsafe=0:{_IGNORED}"},
        _AT_ONCE,
        (
            _PROGRAMS,
            _SAFETY,
            _pytest("thread", "tests/kernels", "tests/fusion/cpu/test_cpu_programs.py"),
        ),
    ),
}


def build(name: str) -> Path:
    """The library, instrumented, for the first capability."""
    folder = FOLDER / name
    first = next(iter(build_library.capabilities().items()))
    options = (*OPTIONS, f"-fsanitize={name}")
    plain = build_library.units(dict([first]), folder)
    units = [unit._replace(options=(*unit.options, *options)) for unit in plain]
    objects = build_library.all_compiled(units, folder)
    library = folder / build_library.LIBRARY.name
    command = [*build_library.compiler(), "-shared", f"-fsanitize={name}", "-o", str(library)]
    subprocess.run([*command, *map(str, objects)], check=True)
    return library


def settings(name: str, library: Path) -> dict[str, str]:
    """The environment in which Python loads the instrumented library."""
    sanitizer = SANITIZERS[name]
    site = library.parent / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(HOOK.format(library=str(library)))
    (library.parent / "ignored").write_text(_UNINSTRUMENTED)
    asked = [*build_library.compiler(), f"-print-file-name={sanitizer.runtime}"]
    runtime = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return {
        **os.environ, **sanitizer.options, "LD_PRELOAD": runtime,
        # CI requires the emulator in other runs: here it would fail the tests that ask for CUDA.
        "GPUTENSOR_CUDA": "off", "GPUTENSOR_REQUIRE_EMULATOR": "0",
        "PYTHONPATH": f"{site}{os.pathsep}{ROOT}",
        "GPUTENSOR_CPU_CAPABILITY": next(iter(build_library.capabilities())),
    }  # fmt: skip


def _may_fix_addresses() -> bool:
    """Containers may forbid it."""
    return (
        shutil.which("setarch") is not None
        and not subprocess.run(
            ["setarch", "-R", "true"], capture_output=True, check=False
        ).returncode
    )


def main(name: str) -> None:
    env = settings(name, build(name))
    # libtsan works only if the system randomises addresses little.
    fixed = ["setarch", "-R"] if name == "thread" and _may_fix_addresses() else []

    def run(*arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
        command = [*fixed, sys.executable, *arguments]
        return subprocess.run(command, env=env, cwd=ROOT, text=True, check=False, **how)

    fault = run("-c", SANITIZERS[name].fault, capture_output=True)
    if not fault.returncode or "Sanitizer" not in fault.stderr:
        sys.exit(f"sanitize: {name}: a fault is not found\n{fault.stderr}")
    for arguments in SANITIZERS[name].runs:
        done = run("-m", *arguments)
        if done.returncode:
            sys.exit(f"sanitize: {name}: {' '.join(arguments)} ended with {done.returncode}")


if __name__ == "__main__":
    main(sys.argv[1])
