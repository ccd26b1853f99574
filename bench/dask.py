"""`python -m bench run dask`: Dask programs on chunks that are tensors, compared with the same
programs on chunks that are NumPy arrays.

Each program has 64 chunks, which are made before the measurement, and runs on Dask's threads. Both
graphs are built once and computed alternately in one process. As in real programs, most of the time
is spent in Dask's scheduler. Requires `pip install 'gputensor[clients]'`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module, util
from typing import Any

import numpy as np

import gputensor as gt

from .measurement import timing

NAME = "dask"
CHUNKS, ROWS, COLUMNS = 64, 1024, 256
BUDGET = 1.1  # upper bound of our time divided by NumPy's
Program = Callable[[Any, Any], Any]
LIBRARIES = ("gputensor", "numpy")


def _programs() -> dict[str, Program]:
    """Return programs on (x, y). x: an array with 64 chunks of rows. y: a matrix with one chunk."""
    svd = import_module("dask.array").linalg.svd
    return {
        "x.sum()": lambda x, y: x.sum(),
        "x.mean(axis=0)": lambda x, y: x.mean(axis=0),
        "x @ y": lambda x, y: x @ y,
        "x.rechunk(...)": lambda x, y: x.rechunk((x.chunks[0][0] * 3 // 2, -1)),
        "svd(x[:, :64])": lambda x, y: svd(x[:, :64])[1],
    }


def run(device: str = "cpu", rounds: int = 61, scale: int = 1) -> dict[str, Any]:
    """Measure all programs and return the record that `bench run` prints and writes.

    Raises: ValueError for a device other than the CPU.
    """
    if device != "cpu":
        raise ValueError(f"dask compares with NumPy's chunks, which are on the CPU (got {device})")
    found: dict[str, Any] = {
        "benchmark": NAME, "device": device, "cases": [], "peers": ["numpy"], "skipped": {},
        "threads": os.cpu_count(),
    }  # fmt: skip
    if util.find_spec("dask") is None:
        return found | {"skipped": {"dask": "dask is not installed"}}
    with import_module("dask.config").set(scheduler="threads", num_workers=os.cpu_count()):
        arrays = _arrays(ROWS // scale)
        for name, program in timing.progress(list(_programs().items()), lambda case: case[0]):
            graphs = [program(*arrays[library]) for library in LIBRARIES]
            samples = timing.alternate([graph.compute for graph in graphs], rounds)
            of = dict(zip(LIBRARIES, samples))
            found["cases"].append({
                "name": name, "ns": {library: s.median_ns for library, s in of.items()},
                "quartiles_ns": {library: s.quartiles_ns for library, s in of.items()},
                "samples_ns": {library: s.ns for library, s in of.items()},
            })  # fmt: skip
    return found


def _arrays(rows: int) -> dict[str, tuple[Any, Any]]:
    """Return (x, y) for each library, with equal elements.

    Each chunk is allocated separately, because parts of one NumPy array would be in large pages,
    which are faster to read.
    """
    da = import_module("dask.array")
    rng = np.random.default_rng(0)
    x = da.from_array(rng.random((CHUNKS * rows, COLUMNS), np.float32), chunks=(rows, COLUMNS))
    y = da.from_array(rng.random((COLUMNS, COLUMNS), np.float32), chunks=-1)
    meta = gt.empty((0, 0))
    arrays = [array.map_blocks(np.array).persist() for array in (x, y)]
    tensors = [array.map_blocks(gt.tensor, meta=meta).persist() for array in (x, y)]
    return {"numpy": (arrays[0], arrays[1]), "gputensor": (tensors[0], tensors[1])}


def _ratio(case: dict[str, Any]) -> float:
    ns: dict[str, float] = case["ns"]
    return ns["gputensor"] / ns["numpy"]


def report(record: dict[str, Any]) -> str:
    """Return a Markdown table of a record."""
    lines = ["| 64 chunks | NumPy's | tensors | ratio |", "|---|---:|---:|---:|"]
    for case in record["cases"]:
        cells = [f"{case['ns'][library] / 1e6:.1f} ms" for library in ("numpy", "gputensor")]
        lines.append(f"| `{case['name']}` | {' | '.join(cells)} | {_ratio(case):.2f} |")
    if record["cases"]:
        lines += ["", f"Medians; Dask's threads: {record['threads']}."]
    lines += [f"Left out: {what}: {reason}." for what, reason in record["skipped"].items()]
    return "\n".join(lines)


def failures(record: dict[str, Any]) -> list[str]:
    """Return a sentence for each budget that the record misses."""
    return [
        f"{case['name']} on chunks that are tensors takes {_ratio(case):.2f} times as long as on "
        f"NumPy's, above {BUDGET}"
        for case in record["cases"]
        if _ratio(case) > BUDGET
    ]
