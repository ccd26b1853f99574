"""`python -m bench run import`: time of `import gputensor` divided by the time of `import numpy`.

New processes alternate, and the fastest of each kind counts, because other load only adds time. A
copy of the package with a several times larger index of operators is measured, too: the time must
not depend on the number of operators.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gputensor.runtime import files

from ..measurement import timing

NAME = "import"
BUDGET = 1.35
TIMES = 4  # number of names in the larger index, as a multiple of the real index
_CODE = """
import time
start = time.perf_counter_ns()
{statement}
print(time.perf_counter_ns() - start)
"""
PACKAGE = Path(__file__).parents[2] / "gputensor"


def run(device: str = "cpu", rounds: int = 40) -> dict[str, Any]:
    """Measure all cases; return the record that `bench run` prints and writes."""
    with tempfile.TemporaryDirectory() as folder:
        grown = Path(folder)
        grow(grown / "gputensor", TIMES)
        sides = {
            "start-up alone": ("pass", PACKAGE.parent),
            "numpy": ("import numpy", PACKAGE.parent),
            "numpy and ml_dtypes": ("import numpy, ml_dtypes", PACKAGE.parent),
            "gputensor": ("import gputensor", PACKAGE.parent),
            f"gputensor, {TIMES} times the names": ("import gputensor", grown),
        }
        within: dict[str, list[float]] = {name: [] for name in sides}
        whole: dict[str, list[float]] = {name: [] for name in sides}
        for _ in timing.progress(list(range(rounds + 1)), str):
            for name, (statement, path) in sides.items():
                start = time.perf_counter_ns()
                inside = _process(statement, path, grown / "caches")
                whole[name].append(time.perf_counter_ns() - start)
                within[name].append(inside)
    # the first round is not counted, because it fills the caches of bytecode and of the file system
    cases = [
        {
            "name": name,
            "ns": {"import": min(within[name][1:]), "process": min(whole[name][1:])},
        }
        for name in sides
    ]
    return {
        "benchmark": NAME, "device": device, "cases": cases, "peers": [], "skipped": {},
        "budget": BUDGET,
    }  # fmt: skip


def grow(package: Path, times: int) -> None:
    """Copy gputensor to `package`. In the copy's index, add `times` - 1 similar names for each
    name."""
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    index = package / "core" / "_generated" / "index.py"
    parts = index.read_text(encoding="utf-8").split('"""')
    for n, part in enumerate(parts):
        if parts[n - 1].endswith("_read("):
            parts[n] = " ".join(more for word in part.split() for more in _copies(word, times))
    files.write_text(index, '"""'.join(parts))


def _copies(word: str, times: int) -> list[str]:
    """Return a name followed by `times` - 1 similar names. The name of a family, which ends in a
    colon, is returned alone."""
    return [word] if word.endswith(":") else [word, *(f"{word}_{n}" for n in range(1, times))]


def _process(statement: str, path: Path, caches: Path) -> float:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(path), "PYTHONPYCACHEPREFIX": str(caches)}
    done = subprocess.run(
        [sys.executable, "-c", _CODE.format(statement=statement)],
        cwd=path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout)


def ratios(record: dict[str, Any]) -> dict[str, float]:
    """Return gputensor's time divided by NumPy's: for the import, and for the whole process."""
    ns = {case["name"]: case["ns"] for case in record["cases"]}
    return {kind: ns["gputensor"][kind] / ns["numpy"][kind] for kind in ("import", "process")}


def report(record: dict[str, Any]) -> str:
    """Return a Markdown table of a record."""
    ns = {case["name"]: case["ns"] for case in record["cases"]}
    lines = ["| import | ms | / numpy | whole process ms | / numpy |", "|---|---:|---:|---:|---:|"]
    for name, found in ns.items():
        cells = [
            text
            for kind in ("import", "process")
            for text in (f"{found[kind] / 1e6:.1f}", f"{found[kind] / ns['numpy'][kind]:.2f}")
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    found = ratios(record)["import"]
    verdict = "met" if found <= record["budget"] else "missed"
    return "\n".join([*lines, "", f"Budget {record['budget']} times NumPy's import: {verdict}."])


def failures(record: dict[str, Any]) -> list[str]:
    """Return a sentence for each budget that the record exceeds."""
    found = ratios(record)["import"]
    wanted = record["budget"]
    return [f"an import takes {found:.2f} times NumPy's, not {wanted}"] if found > wanted else []
