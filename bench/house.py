"""`make house`: a table of code size, host times and test times, with their budgets.

These are not tests, because times need a quiet machine. `--quick` omits the rows that take minutes
(`make test` in a fresh clone, benchmarks of host times).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from codegen import generate, load, paths, stats

from . import benchmarks
from .measurement import timing
from .records import record

ROOT = paths.ROOT
RESULTS = ROOT / "bench" / "results"
# Upper bound of the handwritten Python lines in gputensor/. One person can still know a package of
# this size.
HANDWRITTEN = 85_000
# HOST: benchmarks of host times. TURNS: how often each commit is measured, each time in a new
# process. TOLERANCE: the greatest allowed ratio of our time to the time of the record's commit. It
# exceeds 1, because times vary on a shared machine.
HOST = ("overhead", "dispatch", "autograd")
TURNS = 3
TOLERANCE = 1.05


@dataclass(frozen=True)
class Row:
    """One row of the table. budget: the upper bound of `value`."""

    what: str
    value: float
    budget: float
    digits: int = 0
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.value <= self.budget

    def cells(self) -> list[str]:
        shown = [f"{number:,.{self.digits}f}" for number in (self.value, self.budget)]
        return [self.what, *shown, "yes" if self.holds else "**no**", self.note]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.house", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="counts and the import only")
    args = parser.parse_args(argv)
    steps: list[Callable[[], Iterator[Row]]] = [_counts, _imports]
    if not args.quick:
        steps += [_host, _fresh_clone]
    rows = [
        row
        for step in timing.progress(steps, lambda step: step.__name__.strip("_"))
        for row in step()
    ]
    print(table(rows))
    return 0 if all(row.holds for row in rows) else 1


def table(rows: list[Row]) -> str:
    lines = ["| what | now | budget | holds | |", "|---|---:|---:|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row.cells())} |" for row in rows)])


def tracked(folder: str, *suffixes: str) -> list[Path]:
    """Return the files of the checkout that git tracks or that `git add` would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = (ROOT / name for name in listed.split("\0") if name.endswith(suffixes))
    return [path for path in found if path.exists()]


def _counts() -> Iterator[Row]:
    ours = tracked("gputensor", ".py")
    written = [path for path in ours if not paths.is_generated(path)]
    sizes = [len(path.read_text(encoding="utf-8").splitlines()) for path in written]
    model = load.load()
    lines = sum(stats.counted(generate.files(model)).values())
    each = lines / stats.overloads_of(model)
    yield Row("generated lines an overload", each, stats.BUDGET, 1, f"{lines:,} in all")
    yield Row("handwritten lines of gputensor/", sum(sizes), HANDWRITTEN, note="Python")
    roots = [path for path in written if path.parent == paths.PACKAGE]
    yield Row("modules at the root", len(roots), 12)
    text = "\n".join(path.read_text(encoding="utf-8") for path in ours + tracked("codegen", ".py"))
    yield Row("`type: ignore`", len(re.findall(r"#\s*type:\s*ignore", text)), 30)
    ruff = [sys.executable, "-m", "ruff", "check", "--select", "E501", "--output-format", "json"]
    long = json.loads(subprocess.run(ruff, cwd=ROOT, capture_output=True, text=True).stdout)
    yield Row("lines that ruff finds too long", len(long), 0)


def _imports() -> Iterator[Row]:
    module = benchmarks.module("import")
    cases = module.run()["cases"]
    times = {case["name"]: case["ns"]["import"] for case in cases}
    grown = next(name for name in times if "times the names" in name)
    for name in ("gputensor", grown):
        yield Row(
            f"import of {name}, against NumPy's", times[name] / times["numpy"], module.BUDGET, 2
        )


def _host() -> Iterator[Row]:
    """Yield a row for each benchmark of host times: the checkout's times divided by the times of
    the commit in the benchmark's record. Both commits are measured alternately on this machine,
    because the ratios to PyTorch in the record are valid only on the machine that measured them."""
    for name in HOST:
        kept = record.read(RESULTS / f"{name}-cpu.json")
        commit = kept["environment"]["commit"]["hash"]
        with _clone(commit) as before:
            rounds = [[_run(tree, name) for tree in (before, ROOT)] for _ in range(TURNS)]
        then, now = (_least(side) for side in zip(*rounds))
        ratio = timing.geomean([now[case] / then[case] for case in now if case in then])
        yield Row(f"{name}, against {commit[:7]}", ratio, TOLERANCE, 2, f"{len(now)} cases")


def _run(tree: Path, name: str) -> dict[str, float]:
    """Measure a checkout in a new process. Return our time for each case."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench", "run", name, "--out", folder]
        environment = os.environ | {"PYTHONPATH": str(tree)}
        subprocess.run(command, cwd=tree, env=environment, capture_output=True, check=True)
        found = record.read(Path(folder) / f"{name}-cpu.json")
    return {case["name"]: (case.get("ns") or case["us"])["gputensor"] for case in found["cases"]}


def _least(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    return {case: min(times[case] for times in rounds) for case in rounds[0]}


@contextmanager
def _clone(commit: str = "HEAD") -> Iterator[Path]:
    """Make a clone of the checkout at a commit. It is removed at the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "gputensor"
        subprocess.run(["git", "clone", "-q", "--no-checkout", ROOT, clone], check=True)
        subprocess.run(["git", "checkout", "-q", "--detach", commit], cwd=clone, check=True)
        yield clone


# Variables that a clone must not inherit. PYTHONPATH would make the clone import another package;
# the others would make `make` print its folder.
_OURS = ("PYTHONPATH", "MAKEFLAGS", "MAKELEVEL")


def _fresh_clone() -> Iterator[Row]:
    environment = {name: value for name, value in os.environ.items() if name not in _OURS}
    with _clone() as clone:
        started = time.monotonic()
        done = subprocess.run(
            ["make", "test"], cwd=clone, env=environment, capture_output=True, text=True
        )
        seconds = time.monotonic() - started
    if done.returncode:
        print(done.stdout[-8000:], done.stderr[-2000:], file=sys.stderr)
    last = done.stdout.strip().splitlines()[-1:] or [done.stderr.strip()[-200:]]
    yield Row("`make test`, fresh clone, s", seconds, 180, note=last[0].strip("= "))
    yield Row("`make test`, exit status", done.returncode, 0)


if __name__ == "__main__":
    sys.exit(main())
