"""Host time of autograd: forward and backward of small programs.

The programs are a multilayer perceptron of mm, add, maximum and mean, and a chain of 1,000
operators. They alternate with PyTorch on the CPU, with one thread each. The cost of an autograd
kernel that records nothing is measured, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gputensor as gt

from ..measurement import peers, timing

NAME = "autograd"
# Upper bound of our time divided by PyTorch's, for each case.
BUDGET_RATIO = 2.0
# Upper bound, in microseconds, of the time that the autograd kernel adds to an operator.
BUDGET_NOTHING_US = 0.15
CHAIN = 1000

Side = Callable[[], Any]


def _cases(lib: Any, device: str) -> dict[str, Side]:
    def leaf(*sizes: int) -> Any:
        values = np.random.default_rng(sum(sizes)).uniform(-1, 1, sizes).astype(np.float32)
        made = lib.from_numpy(values)
        return (made if device == "cpu" else made.to(device)).requires_grad_()

    x, w1, b1, w2, b2 = leaf(8, 16).detach(), leaf(16, 32), leaf(32), leaf(32, 4), leaf(4)
    weights = (w1, b1, w2, b2)
    zero = lib.zeros((), dtype=lib.float32, device=device)
    start = leaf(4)

    def perceptron() -> None:
        hidden = lib.maximum(lib.mm(x, w1) + b1, zero)
        y = lib.mm(hidden, w2) + b2
        (y * y).mean().backward()
        for w in weights:
            w.grad = None

    def chain() -> None:
        y = start
        for _ in range(CHAIN // 2):
            y = y * 0.5 + start
        y.sum().backward()
        start.grad = None

    return {"perceptron, forward and backward": perceptron, f"a chain of {CHAIN} operators": chain}


def _what_nothing_costs() -> dict[str, float]:
    """Return nanoseconds of a + b with and without the autograd kernel: the fastest of many rounds.

    The difference is a tenth of either time. Other load on the machine only adds time, so the
    fastest round is the most accurate.
    """
    from gputensor._generated import operators
    from gputensor.dispatch import keys

    a, b = gt.ones(4), gt.ones(4)
    table, above = operators.add_Tensor.table, a._keys
    below = above & keys.below("AutogradOther")
    through, under = timing.alternate(
        [lambda: table[above](above, a, b, 1), lambda: table[below](below, a, b, 1)],
        rounds=200,
    )  # fmt: skip
    return {"through": through.best_ns, "below": under.best_ns}


def run(device: str = "cpu", rounds: int = 11) -> dict[str, Any]:
    """Measure all cases; return the record that `bench run` prints and writes."""
    libraries = peers.with_torch(device)
    sides = {name: _cases(lib, device) for name, lib in libraries.items()}
    cases = []
    for name in timing.progress(list(sides["gputensor"]), str):
        samples = timing.alternate(
            [side[name] for side in sides.values()],
            rounds,
            round_ms=40,
            finish=peers.synchronizer(device),
        )
        cases.append(
            {"name": name, "us": {lib: s.median_ns / 1000 for lib, s in zip(sides, samples)}}
        )
    return {
        "benchmark": NAME, "device": device, "cases": cases, "peers": list(libraries)[1:],
        "nothing_ns": _what_nothing_costs(),
    }  # fmt: skip


def report(record: dict[str, Any]) -> str:
    """Return a Markdown table of a record."""
    libraries = ["gputensor", *record["peers"]]
    head = [f"{lib} µs" for lib in libraries] + [f"/ {peer}" for peer in record["peers"]]
    lines = [f"| {record['device']} | " + " | ".join(head) + " |", "|---|" + "---:|" * len(head)]
    for case in record["cases"]:
        us = case["us"]
        cells = [f"{us[lib]:.0f}" for lib in libraries]
        cells += [f"{us['gputensor'] / us[peer]:.2f}" for peer in record["peers"]]
        lines.append(f"| {case['name']} | " + " | ".join(cells) + " |")
    nothing = record["nothing_ns"]
    lines += ["", f"The autograd kernel of `a + b` where nothing requires grad: "
              f"{nothing['through'] - nothing['below']:.0f} ns, budget "
              f"{BUDGET_NOTHING_US * 1000:.0f}."]  # fmt: skip
    return "\n".join(lines)


def failures(record: dict[str, Any]) -> list[str]:
    """Return a sentence for each budget that the record misses."""
    found = []
    for case in record["cases"]:
        us = case["us"]
        if "torch" in us and us["gputensor"] > BUDGET_RATIO * us["torch"]:
            ratio = us["gputensor"] / us["torch"]
            found.append(
                f"{case['name']} takes {ratio:.2f} times PyTorch's time, above {BUDGET_RATIO}"
            )
    nothing = record["nothing_ns"]
    if nothing["through"] - nothing["below"] > BUDGET_NOTHING_US * 1000:
        found.append("the autograd kernel costs more than its budget where nothing requires grad")
    return found
