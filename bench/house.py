"""`make house`: what the house costs per operator, beside its budgets, as one table.

Nothing here is a test: wall-clock and ratios belong to a quiet machine. `--quick` leaves out what
takes minutes (a fresh clone's `make test`, the benchmarks of the host).
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen import generate, load, paths, stats

from . import autograd, dispatch, overhead, timing

ROOT = paths.ROOT
RESULTS = ROOT / "bench" / "results"
# Of gputensor at 4af9944, before families were loaded when named: the text as at 4aa97c9 (41,463
# lines), broken at 100 columns as it is now.
HANDWRITTEN = 43_139
# Noise of a shared machine: a ratio of two medians may be this much above its record.
TOLERANCE = 1.05


@dataclass(frozen=True)
class Row:
    """One line of the table. budget: the most that `value` may be."""

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
    """Files of the checkout that git knows, or would with the next `git add`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = (ROOT / name for name in listed.split("\0") if name.endswith(suffixes))
    return [path for path in found if path.exists()]


def _counts() -> Iterator[Row]:
    ours = tracked("gputensor", ".py")
    written = [path for path in ours if paths.GENERATED not in path.parents]
    sizes = [len(path.read_text(encoding="utf-8").splitlines()) for path in written]
    model = load.load()
    lines = sum(stats.counted(generate.files(model)).values())
    each = lines / len(model.ops)
    yield Row("generated lines an overload", each, stats.BUDGET, 1, f"{lines:,} in all")
    yield Row("handwritten lines of gputensor/", sum(sizes), HANDWRITTEN, note="Python")
    roots = [path for path in written if path.parent == paths.PACKAGE]
    yield Row("modules at the root", len(roots), 12)
    text = "\n".join(path.read_text(encoding="utf-8") for path in ours + tracked("codegen", ".py"))
    yield Row("`type: ignore`", len(re.findall(r"#\s*type:\s*ignore", text)), 39)
    ruff = [sys.executable, "-m", "ruff", "check", "--select", "E501", "--output-format", "json"]
    long = json.loads(subprocess.run(ruff, cwd=ROOT, capture_output=True, text=True).stdout)
    yield Row("lines that ruff finds too long", len(long), 0)


def _imports() -> Iterator[Row]:
    module = importlib.import_module("bench.import")
    record = module.run()
    times = {case["name"]: case["ns"]["import"] for case in record["cases"]}
    grown = next(name for name in times if "times the names" in name)
    for name in ("gputensor", grown):
        yield Row(
            f"import of {name}, against NumPy's", times[name] / times["numpy"], module.BUDGET, 2
        )


def _host() -> Iterator[Row]:
    """Ratios to PyTorch beside the records'; nothing where PyTorch is not installed."""
    for module in (overhead, dispatch, autograd):
        kept = json.loads((RESULTS / f"{module.NAME}-cpu.json").read_text(encoding="utf-8"))
        now, before = _mean(module.run("cpu")), _mean(kept["gputensor"])
        if now is not None and before is not None:
            note = f"record {before:.2f}"
            yield Row(f"{module.NAME}, against PyTorch", now, before * TOLERANCE, 2, note)


def _mean(record: dict[str, Any]) -> float | None:
    """Geometric mean of our times over PyTorch's."""
    times = [case.get("ns") or case["us"] for case in record["cases"]]
    ratios = [each["gputensor"] / each["torch"] for each in times if "torch" in each]
    return timing.geomean(ratios) if ratios else None


def _fresh_clone() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "gputensor"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        started = time.monotonic()
        done = subprocess.run(["make", "test"], cwd=clone, capture_output=True, text=True)
        seconds = time.monotonic() - started
    last = done.stdout.strip().splitlines()[-1:] or [done.stderr.strip()[-200:]]
    yield Row("`make test`, fresh clone, s", seconds, 180, note=last[0].strip("= "))
    yield Row("`make test`, exit status", done.returncode, 0)


if __name__ == "__main__":
    sys.exit(main())
