"""`python -m bench.gpu_check.sanitizer`: run random copies under compute-sanitizer, if installed.

memcheck finds accesses that are out of bounds or misaligned, racecheck finds races in shared
memory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .steps import SKIPPED

_PLACES = (
    "/usr/local/cuda/bin",
    "/usr/local/cuda/compute-sanitizer",
    "/opt/nvidia/compute-sanitizer",
)
_FUZZ = ("-m", "tests.cuda.kernels.test_copy_kernels", "12", "4", "3000", "12")
# Exit status if compute-sanitizer finds an error. It is not 1, because Python exits with status 1
# after an exception.
_FOUND = 86


def main() -> int:
    tool = find()
    if tool is None:
        print("compute-sanitizer is not here: nothing runs under it")
        return SKIPPED
    bad = []
    for check in ("memcheck", "racecheck"):
        command = [tool, "--tool", check, "--error-exitcode", str(_FOUND), sys.executable, *_FUZZ]
        status = subprocess.run(command, check=False).returncode
        print(f"{check}: exit {status}", flush=True)
        if status:
            bad.append(check)
    return 1 if bad else 0


def find() -> str | None:
    """Return the path of compute-sanitizer, or None if it is missing or GPUs are emulated."""
    if os.environ.get("GPUTENSOR_CUDA") == "emulator":
        return None
    beside = [os.path.join(place, "bin") for place in (os.environ.get("CUDA_PATH"),) if place]
    found = shutil.which("compute-sanitizer")
    return found or next(
        (
            str(p)
            for p in (Path(f, "compute-sanitizer") for f in (*beside, *_PLACES))
            if os.access(p, os.X_OK)
        ),
        None,
    )


if __name__ == "__main__":
    sys.exit(main())
