"""`python -m bench.gpu_check.suite RESULTS [--jobs N] TEST… [-k …]`: run tests on a device.

With `--jobs` the tests are divided among processes, which share the device. If a failing kernel
destroys the CUDA context of its process, or crashes it, another process runs the remaining tests. A
line for each test is appended to RESULTS when the test ends.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from pathlib import Path

from .lines import DEAD, read

# Exit status of pytest if there is no test to run. This happens after a crash in the last test.
_NONE_LEFT = 5

# The step gives up after this number of crashed processes.
_MOST = 12


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    given, tests = parser.parse_known_args(argv)
    is_whole = [False] * given.jobs

    def part(number: int) -> None:
        is_whole[number] = _part(given.results, (number, given.jobs), tests)

    threads = [threading.Thread(target=part, args=(number,)) for number in range(given.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcomes = read(given.results)
    bad = [name for name, line in outcomes.items() if line["outcome"] in ("failed", "died")]
    print(f"{len(outcomes)} tests, {len(bad)} of them bad: {' '.join(bad)}")
    return 0 if all(is_whole) and outcomes and not bad else 1


def _part(results: Path, part: tuple[int, int], tests: list[str]) -> bool:
    """Run one part of the tests. After a crash, run the tests that were not started. Return True if
    every test was started."""
    is_emulated = os.environ.get("GPUTENSOR_CUDA") == "emulator"
    marked = "not oracle" if is_emulated else "not oracle and not emulator"
    command = [
        sys.executable, "-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider",
        "-p", "bench.gpu_check.lines", "--lines", str(results), "--part", f"{part[0]}/{part[1]}",
        "-W", "default", "-m", marked, *tests,
    ]  # fmt: skip
    for _ in range(_MOST):
        before = len(read(results))
        status = subprocess.run(command, check=False).returncode
        if status >= 0 and status != DEAD or len(read(results)) == before:
            break
    return status in (0, 1) or status == _NONE_LEFT and bool(read(results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
