"""`python -m bench.gpu_check.fuzz FOLDER [--dry]`: random layout copies, compared with NumPy.

Each seed has its own process, so that a crash does not stop other seeds, and logs its progress in
`FOLDER/SEED.log`. The test suite runs the same copies with the first seeds on the emulator.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

# (number of copies, seed, maximum elements of a copy, maximum number of kernels)
SEEDS = (
    (120, 7, 12_000, 80), (40, 8, 6_000, 40), (6, 9, 2_000, 20), (60, 1, 300_000, 40),
    (60, 2, 300_000, 40), (60, 3, 300_000, 40), (60, 4, 300_000, 40), (20, 5, 4_000_000, 30),
)  # fmt: skip
DRY = ((4, 7, 3_000, 4), (3, 9, 2_000, 3))
# Texts that tests/cuda/kernels/test_copy_kernels.py prints: EQUAL at the end of a run, SO_FAR
# during the run.
EQUAL, SO_FAR = "copies equal NumPy", "so far"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dry", action="store_true")
    given = parser.parse_args(argv)
    given.folder.mkdir(parents=True, exist_ok=True)
    at_once = max(1, min(8, len(os.sched_getaffinity(0))))
    waiting = list(DRY if given.dry else SEEDS)
    running: list[tuple[int, subprocess.Popen[bytes]]] = []
    bad = []
    while waiting or running:
        while waiting and len(running) < at_once:
            numbers = waiting.pop(0)
            running.append((numbers[1], _begin(numbers, given.folder)))
        seed, process = running.pop(0)
        if process.wait():
            bad.append(seed)
        print(
            f"seed {seed}: exit {process.returncode}; {last_line(given.folder / f'{seed}.log')}",
            flush=True,
        )
    if bad:
        print(f"seeds that failed: {bad}")
    return 1 if bad else 0


def _begin(numbers: tuple[int, ...], folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.cuda.kernels.test_copy_kernels", *map(str, numbers)]
    with open(folder / f"{numbers[1]}.log", "wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def last_line(path: Path) -> str:
    """Return the last line of a log, or '' if the log is empty."""
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return lines[-1][:400] if lines else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
