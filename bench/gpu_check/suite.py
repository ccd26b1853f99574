"""`python -m bench.gpu_check.suite RESULTS TEST… [-k …]`: tests on a device, each in its turn.

A kernel that fails asynchronously ends its process's context, and a wild one the process: the tests
after it are then run in another process. RESULTS has a line for each test as it ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from .lines import DEAD, read

_NONE_LEFT = 5  # pytest's status where no test is chosen, as after the last one killed its process
# Processes that may die before the step gives up.
_MOST = 12


def main(argv: list[str]) -> int:
    results, *tests = argv
    path = Path(results)
    is_emulated = os.environ.get("GPUTENSOR_CUDA") == "emulator"
    marked = "not oracle" if is_emulated else "not oracle and not emulator"
    command = [
        sys.executable, "-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider",
        "-p", "bench.gpu_check.lines", "--lines", results, "-W", "default", "-m", marked, *tests,
    ]  # fmt: skip
    for _ in range(_MOST):
        before = len(read(path))
        status = subprocess.run(command, check=False).returncode
        if status >= 0 and status != DEAD or len(read(path)) == before:
            break
    outcomes = read(path)
    bad = [name for name, line in outcomes.items() if line["outcome"] in ("failed", "died")]
    print(f"{len(outcomes)} tests, {len(bad)} of them bad: {' '.join(bad)}")
    is_whole = status == 0 or status == 1 or status == _NONE_LEFT and outcomes
    return 0 if is_whole and outcomes and not bad else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
