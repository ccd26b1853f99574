"""Host time of `gt.fuse` for eight operators on four elements, recorded and replayed.

The peers are eager operators, and NumPy's loops alone with preallocated outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gputensor as gt

from ..measurement import timing

OPERATORS, _TIMES = 8, 7
# Upper bounds. recording: the time to record an operator in a block of eight, divided by the
# operator's eager time. recording_further: the same ratio for the operators after the first eight
# in a longer block. replay: the time to replay all eight operators, divided by the eager time of
# one operator.
BUDGETS = {"recording": 1.5, "recording_further": 1.5, "replay": 2.0}


def _function(x: Any, y: Any) -> Any:
    return (x * y + 1) * (x - y) * 0.5 + x * x - y


def _loops(x: Any, y: Any) -> Any:
    a, b, c, d, e, f, g, h = (np.empty_like(x) for _ in range(OPERATORS))
    multiply, add, subtract = np.multiply, np.add, np.subtract

    def run() -> Any:
        product = multiply(add(multiply(x, y, a), 1, b), subtract(x, y, c), d)
        return subtract(add(multiply(product, 0.5, e), multiply(x, x, f), g), y, h)

    return run


def measure(rounds: int = 101) -> dict[str, float]:
    """Return the numbers that the budgets limit, and the eager time of one operator in ns."""
    values = [np.random.default_rng(n).random(4, np.float32) for n in range(2)]
    x, y = (gt.tensor(v) for v in values)
    fused = gt.fuse(_function)
    for _ in range(3):
        fused(x, y)  # the second call compiles, so it must come before the measurement

    def empty() -> None:
        with gt.fuse():
            pass

    def recorded() -> None:
        with gt.fuse():
            _function(x, y)  # nothing keeps the result, so the operators are recorded but not run

    def further() -> None:
        with gt.fuse():
            z = x
            for _ in range(_TIMES):
                z = _function(z, y)  # recorded but not run, because `del z` drops the result
            del z

    sides = (
        lambda: _function(x, y), lambda: fused(x, y), recorded, further, empty, _loops(*values),
    )  # fmt: skip
    eager, replay, block, longer, nothing, loops = (
        s.best_ns for s in timing.alternate(sides, rounds, round_ms=2.0)
    )
    return {
        "eager_ns": eager / OPERATORS, "recording": (block - nothing) / eager,
        "recording_further": (longer - block) / (_TIMES - 1) / eager,
        "replay": replay / eager * OPERATORS, "replay_numpy": replay / loops,
    }  # fmt: skip


def report(found: dict[str, float]) -> str:
    return (
        f"{OPERATORS} operators on 4 elements: recording an operator takes "
        f"{found['recording']:.2f} times what it takes alone, "
        f"{found['recording_further']:.2f} in a longer block; all of them replayed take "
        f"{found['replay']:.2f} operators' time, {found['replay_numpy']:.2f} times that of NumPy's "
        "loops."
    )


def failures(found: dict[str, float]) -> list[str]:
    return [
        f"{OPERATORS} small operators: {name} {found[name]:.2f} is above {budget}"
        for name, budget in BUDGETS.items() if found[name] > budget
    ]  # fmt: skip
