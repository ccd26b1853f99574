"""Host time of calls on a CUDA device, without the driver's part. No GPU is needed.

In a separate process, gputensor's runtime calls CuPy's real `launchKernel` on a driver that does
nothing (stub_driver.py). With a GPU, the time of cuLaunchKernel would be added. Times are given as
multiples of the time of `launchKernel` alone (the floor), so that machines can be compared.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..measurement import timing
from ..measurement.places import WrongResult

NAME = "host_cuda"
FLOOR = "launchKernel alone"
# Upper bounds, as multiples of the time of FLOOR, which varies from 118 to 225 ns on one machine.
# Each bound is half of the time at commit 01360fa, which has no short cuts: 3.7, 2.3, 3.6, 4.3 and
# 7.0 us, or 30.0, 18.4, 25.0, 31.0 and 46.0 times FLOOR.
BUDGETS = {
    "a + b": 15.0, "a.add_(b)": 9.2, "empty((4,))": 12.5, "q.sum()": 15.5,
    "x.permute(0, 2, 3, 1).contiguous()": 23.0,
}  # fmt: skip


def run(device: str = "cpu", rounds: int = 101) -> dict[str, Any]:
    """Measure all cases; return the record that `bench run` prints and writes."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(rounds)],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise WrongResult(f"{NAME}: {done.stderr.strip()}")
    measured = json.loads(done.stdout)
    return {
        "benchmark": NAME, "device": device, "threads": 1, "peers": [], **measured,
    }  # fmt: skip


def _measure(rounds: int) -> dict[str, Any]:
    """Return the measured cases, or the reason why they cannot be measured. Call this before the
    process uses CUDA."""
    from . import stub_driver

    try:
        launches = stub_driver.install()
    except stub_driver.Unavailable as error:
        return {"cases": [], "skipped": {"cupy": str(error)}}
    cases = _cases()
    for name, (call, expected) in cases.items():
        call(), call()  # the first call plans and compiles, the second stores a short cut
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
    """Return a dict from case to (call, number of kernels that the call launches)."""
    import cupy

    import gputensor as gt

    empty = gt.empty
    a, b, acc = [empty(4, device="cuda") for _ in range(3)]
    x, q = empty(2, 3, 4, 5, device="cuda"), empty(3, 4, device="cuda")
    rows, images = empty(16, 32, device="cuda"), empty(2, 8, 8, 8, device="cuda")
    weight, mask = empty(32, device="cuda"), empty(16, 32, dtype=gt.bool, device="cuda")
    mean, var = empty(8, device="cuda"), empty(8, device="cuda")
    sizes, functional = itertools.count(5), gt.nn.functional
    flat, heads = empty(1 << 20, device="cuda"), empty(2, 4, 16, 8, device="cuda")
    square = empty(32, 32, device="cuda").requires_grad_()
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
        "x.softmax(-1)": (lambda: rows.softmax(-1), 1),
        "x.var(-1)": (lambda: rows.var(-1), 1),
        "x.masked_fill(mask, 0)": (lambda: rows.masked_fill(mask, 0.0), 1),
        "arange(64)": (lambda: gt.arange(64, device="cuda"), 1),
        "randn(16, 32)": (lambda: gt.randn(16, 32, device="cuda"), 1),
        "dropout": (lambda: functional.dropout(rows, 0.1), 1),
        "layer_norm": (lambda: functional.layer_norm(rows, (32,), weight, weight), 1),
        "rms_norm": (lambda: functional.rms_norm(rows, (32,), weight), 1),
        "batch_norm": (lambda: functional.batch_norm(images, mean, var, training=True), 2),
        "linear with gradients": (lambda: functional.linear(rows, square, weight), 1),
        "attention": (lambda: functional.scaled_dot_product_attention(heads, heads, heads), 1),
        "a + a of a new size": (lambda: (part := flat[: next(sizes)]) + part, 1),
        "a.sum() of a new size": (lambda: flat[: next(sizes)].sum(), 1),
        "a.softmax(0) of a new size": (lambda: flat[: next(sizes)].softmax(0), 1),
        FLOOR: (lambda: launch(1, 1, 1, 1, 1, 1, 1, 0, 0, address, 0), 1),
    }


def report(record: dict[str, Any]) -> str:
    """Return a Markdown table of a record."""
    lines = ["| before the driver | ns | floors | budget |", "|---|---:|---:|---:|"]
    for name, ns, floors in _in_floors(record):
        lines.append(f"| `{name}` | {ns:.0f} | {floors:.1f} | {BUDGETS.get(name, '')} |")
    lines += [f"\nSkipped: {peer} ({why})." for peer, why in record.get("skipped", {}).items()]
    return "\n".join(lines)


def failures(record: dict[str, Any]) -> list[str]:
    """Return a sentence for each budget that the record misses."""
    return [
        f"{name} takes {floors:.1f} times {FLOOR} before the driver, more than {BUDGETS[name]}"
        for name, _, floors in _in_floors(record)
        if floors > BUDGETS.get(name, floors)
    ]  # fmt: skip


def _in_floors(record: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Return (case, ns, ns divided by the time of FLOOR) for all cases."""
    ns = {case["name"]: case["ns"]["gputensor"] for case in record["cases"]}
    return [(name, value, value / ns[FLOOR]) for name, value in ns.items()]


if __name__ == "__main__":
    json.dump(_measure(int(sys.argv[1])), sys.stdout)
