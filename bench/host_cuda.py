"""What a call on a CUDA device costs the host, before the driver; needs no GPU.

gputensor's own runtime over CuPy's real `launchKernel`, on a driver that does nothing
(stub_driver.py), in a process of its own. A GPU adds what cuLaunchKernel takes. The floor is
`launchKernel` alone, so that machines can be told apart.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import timing
from .places import WrongResult

NAME = "host_cuda"
FLOOR = "launchKernel alone"
# Nanoseconds that must hold where the figures before the driver were 3.7, 2.3, 3.6, 4.3 and 7.0 us.
BUDGETS_NS = {
    "a + b": 1850, "a.add_(b)": 1150, "empty((4,))": 1800, "q.sum()": 2150,
    "x.permute(0, 2, 3, 1).contiguous()": 3500,
}  # fmt: skip


def run(device: str = "cpu", rounds: int = 101) -> dict[str, Any]:
    """Measure everything; returns the record that `bench run` prints and writes."""
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{NAME}", str(rounds)],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise WrongResult(f"{NAME}: {done.stderr.strip()}")
    measured = json.loads(done.stdout)
    return {
        "benchmark": NAME, "device": device, "threads": 1, "peers": [], **measured,
    }  # fmt: skip


def _measure(rounds: int) -> dict[str, Any]:
    """Cases, or why there are none; of a process that has not touched CUDA."""
    from . import stub_driver

    try:
        launches = stub_driver.install()
    except stub_driver.Unavailable as error:
        return {"cases": [], "skipped": {"cupy": str(error)}}
    cases = _cases()
    for name, (call, expected) in cases.items():
        call(), call()  # what plans and compiles, and what leaves a short cut
        before = launches.value
        call()
        if launches.value - before != expected:
            got = launches.value - before
            raise WrongResult(f"{name} launched {got} kernels, not {expected}")
    samples = timing.alternate([call for call, _ in cases.values()], rounds)
    return {
        "cases": [
            {
                "name": name, "ns": {"gputensor": sample.median_ns},
                "quartiles_ns": {"gputensor": sample.quartiles_ns},
                "samples_ns": {"gputensor": sample.ns},
            }
            for name, sample in zip(cases, samples)
        ],
        "skipped": {},
    }  # fmt: skip


def _cases() -> dict[str, tuple[Any, int]]:
    """case -> its call, and how many kernels it launches."""
    import cupy

    import gputensor as gt

    empty = gt.empty
    a, b, acc = [empty(4, device="cuda") for _ in range(3)]
    x, q = empty(2, 3, 4, 5, device="cuda"), empty(3, 4, device="cuda")
    launch, address = cupy.cuda.driver.launchKernel, a.data_ptr()
    return {
        "a + b": (lambda: a + b, 1),
        "a + 1": (lambda: a + 1, 1),
        "-a": (lambda: -a, 1),
        "a.add_(b)": (lambda: acc.add_(b), 1),
        "empty((4,))": (lambda: empty((4,), device="cuda"), 0),
        "empty_like(x)": (lambda: gt.empty_like(x), 0),
        "q.sum()": (lambda: q.sum(), 1),
        "x.permute(0, 2, 3, 1).contiguous()": (lambda: x.permute(0, 2, 3, 1).contiguous(), 1),
        FLOOR: (lambda: launch(1, 1, 1, 1, 1, 1, 1, 0, 0, address, 0), 1),
    }


def report(record: dict[str, Any]) -> str:
    """A Markdown table of a record."""
    lines = ["| before the driver | ns | budget ns |", "|---|---:|---:|"]
    for case in record["cases"]:
        budget = BUDGETS_NS.get(case["name"], "")
        lines.append(f"| `{case['name']}` | {case['ns']['gputensor']:.0f} | {budget} |")
    lines += [f"\nSkipped: {peer} ({why})." for peer, why in record.get("skipped", {}).items()]
    return "\n".join(lines)


def failures(record: dict[str, Any]) -> list[str]:
    """Which budgets the record misses, a sentence each."""
    return [
        f"{case['name']} takes {case['ns']['gputensor']:.0f} ns before the driver, above {budget}"
        for case in record["cases"]
        if (budget := BUDGETS_NS.get(case["name"])) and case["ns"]["gputensor"] > budget
    ]  # fmt: skip


if __name__ == "__main__":
    json.dump(_measure(int(sys.argv[1])), sys.stdout)
