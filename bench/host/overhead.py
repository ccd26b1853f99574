"""Host time of calls on tensors that are so small that the work on their elements takes no time.

On the CPU, twelve operators alternate with PyTorch and NumPy, with one thread each. Calls with new
shapes, for which no plan is cached, are measured, too. On a CUDA device the same operators
alternate with PyTorch and CuPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gputensor as gt

from ..measurement import peers, timing

NAME = "overhead"
# Budgets on the CPU: our time / PyTorch's, as a geometric mean and for the worst operator.
BUDGET_GEOMEAN = 0.55
BUDGET_WORST = 0.9
CHURN_SHAPES = 10_000
NEW_SHAPE_US = 12.0

Side = Callable[[], Any]


def _cases_torch_like(lib: Any, device: str) -> dict[str, Side]:
    """Return calls of the twelve operators for a library that has PyTorch's names."""
    f32 = lib.float32
    a = lib.ones((4,), dtype=f32, device=device)
    b = lib.ones((4,), dtype=f32, device=device)
    acc = lib.zeros((4,), dtype=f32, device=device)
    zero = lib.zeros((4,), dtype=f32, device=device)
    x = lib.ones((2, 3, 4, 5), dtype=f32, device=device)
    q = lib.ones((3, 4), dtype=f32, device=device)
    empty, empty_like = lib.empty, lib.empty_like
    on_device = {} if device == "cpu" else {"device": device}
    return {
        "empty((4,))": lambda: empty((4,), **on_device),
        "a + b": lambda: a + b,
        "a + 1": lambda: a + 1,
        "a.add_(b)": lambda: acc.add_(zero),
        "a * b": lambda: a * b,
        "x.view(-1)": lambda: x.view(-1),
        "x.permute(0, 2, 3, 1)": lambda: x.permute(0, 2, 3, 1),
        "x.permute(0, 2, 3, 1).contiguous()": lambda: x.permute(0, 2, 3, 1).contiguous(),
        "empty_like(x)": lambda: empty_like(x),
        "q.t()": lambda: q.t(),
        "q[1]": lambda: q[1],
        "q.sum()": lambda: q.sum(),
    }


def _cases_numpy_like(np_: Any) -> dict[str, Side]:
    a, b, acc = np_.ones(4, np.float32), np_.ones(4, np.float32), np_.zeros(4, np.float32)
    zero = np_.zeros(4, np.float32)
    x, q = np_.ones((2, 3, 4, 5), np.float32), np_.ones((3, 4), np.float32)
    empty, empty_like, add = np_.empty, np_.empty_like, np_.add
    contiguous = np_.ascontiguousarray
    return {
        "empty((4,))": lambda: empty((4,), np.float32),
        "a + b": lambda: a + b,
        "a + 1": lambda: a + 1,
        "a.add_(b)": lambda: add(acc, zero, acc),
        "a * b": lambda: a * b,
        "x.view(-1)": lambda: x.reshape(-1),
        "x.permute(0, 2, 3, 1)": lambda: x.transpose(0, 2, 3, 1),
        "x.permute(0, 2, 3, 1).contiguous()": lambda: contiguous(x.transpose(0, 2, 3, 1)),
        "empty_like(x)": lambda: empty_like(x),
        "q.t()": lambda: q.T,
        "q[1]": lambda: q[1],
        "q.sum()": lambda: q.sum(),
    }


def _sides(device: str) -> dict[str, dict[str, Side]]:
    """Return a dict from library to a dict from case to callable. Peers that cannot be imported are
    omitted."""
    sides = {"gputensor": _cases_torch_like(gt, device)}
    torch = peers.torch(device)
    if torch is not None:
        torch.set_num_threads(1)
        sides["torch"] = _cases_torch_like(torch, device)
    if device == "cpu":
        sides["numpy"] = _cases_numpy_like(np)
    else:
        cupy = peers.cupy(device)
        if cupy is not None:
            sides["cupy"] = _cases_numpy_like(cupy)
    return sides


def _churn(lib: Any, device: str) -> Side:
    """Return a function that adds tensors whose shape is new in every call."""
    base = lib.ones((CHURN_SHAPES * 4,), dtype=lib.float32, device=device)
    sizes: Iterator[int] = iter(())

    def step() -> Any:
        nonlocal sizes
        try:
            n = next(sizes)
        except StopIteration:
            sizes = iter(range(1, CHURN_SHAPES))
            if lib is gt:
                _forget(gt)
            n = next(sizes)
        part = base.as_strided((2, n), (n, 1))
        return part + part

    return step


def _forget(lib: Any) -> None:
    from gputensor.dispatch import dispatcher

    for operator in dispatcher.operators():
        operator.table.plans.clear()


def run(device: str = "cpu", rounds: int = 101) -> dict[str, Any]:
    """Measure all cases; return the record that `bench run` prints and writes."""
    gt.set_num_threads(1)
    sides = _sides(device)
    finish = peers.synchronizer(device)
    names = list(sides["gputensor"])
    cases: list[dict[str, Any]] = []
    for name in timing.progress(names, str):
        libraries = list(sides)
        samples = timing.alternate(
            [sides[lib][name] for lib in libraries], rounds=rounds, finish=finish
        )
        cases.append({"name": name, "ns": {lib: s.median_ns for lib, s in zip(libraries, samples)},
                      "quartiles_ns": {lib: s.quartiles_ns for lib, s in zip(libraries,
                      samples)}})  # fmt: skip
    wanted = ("torch", "numpy") if device == "cpu" else ("torch", "cupy")
    record: dict[str, Any] = {
        "benchmark": NAME, "device": device, "cases": cases, "peers": list(sides)[1:],
        "skipped": {peer: peers.why_not(peer, device) for peer in wanted if peer not in sides},
    }  # fmt: skip
    for peer in record["peers"]:
        ratios = [c["ns"]["gputensor"] / c["ns"][peer] for c in cases]
        record[f"geomean_vs_{peer}"] = timing.geomean(ratios)
    record["churn"] = _run_churn(device, finish)
    return record


def _run_churn(device: str, finish: Any) -> dict[str, Any]:
    libraries = {"gputensor": gt, "torch": peers.torch(device)}
    present = {name: lib for name, lib in libraries.items() if lib is not None}
    samples = timing.alternate(
        [_churn(lib, device) for lib in present.values()], rounds=21, round_ms=20, finish=finish
    )
    us = {name: s.median_ns / 1000 for name, s in zip(present, samples)}
    return {"shapes": CHURN_SHAPES, "operators_per_call": 2, "us_per_call": us,
            "us_per_operator": us["gputensor"] / 2, "budget_us": NEW_SHAPE_US}  # fmt: skip


def report(record: dict[str, Any]) -> str:
    """Return a Markdown table of a record."""
    libraries = ["gputensor", *record["peers"]]
    head = [f"{lib} ns" for lib in libraries] + [f"/ {peer}" for peer in record["peers"]]
    lines = [f"| {record['device']} | " + " | ".join(head) + " |", "|---|" + "---:|" * len(head)]
    for case in record["cases"]:
        ours = case["ns"]["gputensor"]
        cells = [f"{case['ns'][lib]:.0f}" for lib in libraries]
        cells += [f"{ours / case['ns'][peer]:.2f}" for peer in record["peers"]]
        lines.append(f"| `{case['name']}` | " + " | ".join(cells) + " |")
    means = [f"**{record[f'geomean_vs_{peer}']:.2f}**" for peer in record["peers"]]
    lines.append("| geometric mean | " + " | ".join([""] * len(libraries) + means) + " |")
    churn = record["churn"]
    peer_us = ", ".join(f"{k} {v:.1f}" for k, v in churn["us_per_call"].items())
    lines += ["", "A shape never seen before (as_strided, then add): µs per call: "
              f"{peer_us}; {churn['us_per_operator']:.1f} µs an operator, "
              f"budget {churn['budget_us']:.0f}."]  # fmt: skip
    lines += [f"Skipped: {peer} ({why})." for peer, why in record.get("skipped", {}).items()]
    return "\n".join(lines)


def failures(record: dict[str, Any]) -> list[str]:
    """Return a sentence for each budget that the record misses."""
    found = []
    against_torch = record.get("geomean_vs_torch")
    if against_torch is not None and record["device"] == "cpu":
        if against_torch > BUDGET_GEOMEAN:
            found.append(f"geomean vs PyTorch {against_torch:.2f} is above {BUDGET_GEOMEAN}")
        for case in record["cases"]:
            ratio = case["ns"]["gputensor"] / case["ns"]["torch"]
            if ratio > BUDGET_WORST:
                found.append(
                    f"{case['name']} takes {ratio:.2f} of PyTorch's time, above {BUDGET_WORST}"
                )
    if record["churn"]["us_per_operator"] > NEW_SHAPE_US:
        found.append(
            f"a new shape costs {record['churn']['us_per_operator']:.1f} µs, above {NEW_SHAPE_US}"
        )
    return found
