"""Measurement at several CPU capabilities, each in its own process, and joining of the records.

GPUTENSOR_CPU_CAPABILITY is read when gputensor is imported, so a process has one capability.
PyTorch always uses the capability that it chooses itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gputensor as gt

from .totals import summary

VARIABLE = "GPUTENSOR_CPU_CAPABILITY"
# in increasing order
NAMES = ("default", "avx2", "avx512")
_ROOTS = (Path(__file__).parents[2], Path(gt.__file__).parents[1])


def chosen(names: Sequence[str]) -> list[str]:
    """Return the capabilities to measure, in increasing order; `all` stands for every
    capability."""
    return [name for name in NAMES if "all" in names or name in names]


def run(
    names: Sequence[str], note: Callable[[dict[str, Any]], object] | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Measure at each CPU capability and return the joined data. Its main figures were measured at
    the highest capability."""
    parts: dict[str, dict[str, Any]] = {}
    for name in reversed(chosen(names)):
        print(f"bench operators: CPU capability {name}", file=sys.stderr)
        parts[name] = _part(name, options)
        if note is not None:
            note(joined(parts))
    return joined(parts)


def _part(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Measure one CPU capability in a separate process, and return the data. Raises: RuntimeError
    if the process fails."""
    paths = [*map(str, dict.fromkeys(_ROOTS)), os.environ.get("PYTHONPATH", "")]
    around = {VARIABLE: name, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, "-m", "bench.operators", json.dumps(options)],
        env=os.environ | around, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the process of {VARIABLE}={name} ended with status {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def joined(parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Join the data of all capabilities into one record."""
    names = [name for name in NAMES if name in parts]
    main = parts[names[-1]]
    data = main | {
        "capabilities": {name: parts[name]["capability"] for name in names},
        "failed": {
            f"{case} ({name})": why for name in names for case, why in parts[name]["failed"].items()
        },
        "cases": [
            case | {"by_capability": {
                name: {"ns": there["ns"]["gputensor"], "ratio": there["ratio"]}
                for name in names for there in parts[name]["cases"]
                if there["number"] == case["number"]
            }}
            for case in main["cases"]
        ],
    }  # fmt: skip
    return data | {"summary": summary(data)}
