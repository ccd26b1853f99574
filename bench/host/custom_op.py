"""Host time that `custom_op` adds to a Python function.

The kernels do almost nothing, so the measured time is the time of the dispatcher, the checks of
results and the recording. The calls alternate with PyTorch's on the CPU, with one thread each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Tuple


from ..measurement import peers, timing

NAME = "custom_op"
# Upper bounds of our time divided by PyTorch's. BUDGET_CALL: for a call, whether autograd records
# it or not. BUDGET_BACKWARD: for a call with backward, where the autograd engine takes most of the
# time.
BUDGET_CALL, BUDGET_BACKWARD = 1.0, 2.0

Side = Callable[[], Any]


def _cases(lib: Any, device: str) -> dict[str, Side]:
    """Define operators in the namespace `bench_custom_op` of a library. Return a dict from case to
    call."""
    made = lib.ones(4, device=device)
    empty = lib.empty

    def op(
        name: str, schema: str, function: Callable[..., Any], mutates_args: Sequence[str] = ()
    ) -> Any:
        return lib.library.custom_op(
            f"bench_custom_op::{name}", function, mutates_args=mutates_args, schema=schema
        )

    one = op("one", "(Tensor x) -> Tensor", lambda x: made)
    two = op("two", "(Tensor x, Tensor y) -> Tensor", lambda x, y: made)
    more = op(
        "more", "(Tensor x, Tensor[] ys, float a, *, int n=1) -> (Tensor, Tensor)", _pair(lib)
    )
    writes = op("writes", "(Tensor(a!) x) -> ()", lambda x: None, ["x"])
    recorded = op("recorded", "(Tensor x) -> Tensor", lambda x: empty(4))
    recorded.register_autograd(lambda ctx, g: g, setup_context=lambda ctx, inputs, output: None)

    x, y, written = (lib.ones(4, device=device) for _ in range(3))
    leaf = lib.ones(4, device=device, requires_grad=True)
    ready = lib.ones(4, device=device)

    def there_and_back() -> None:
        recorded(leaf).backward(ready)
        leaf.grad = None

    return {
        "one tensor": lambda: one(x), "two tensors": lambda: two(x, y),
        "a list, a number, a keyword, two results": lambda: more(x, [y], 2.0, n=3),
        "one that is written to": lambda: writes(written),
        "one tensor, recorded": lambda: recorded(leaf),
        "the same, and backward": there_and_back,
    }  # fmt: skip


def _pair(lib: Any) -> Callable[..., Tuple[Any, Any]]:
    pair = lib.ones(4), lib.ones(4)
    return lambda x, ys, a, *, n=1: pair


def run(device: str = "cpu", rounds: int = 61) -> dict[str, Any]:
    """Measure all cases; return the record that `bench run` prints and writes."""
    libraries = peers.with_torch(device)
    sides = {name: _cases(lib, device) for name, lib in libraries.items()}
    cases: list[dict[str, Any]] = []
    for name in timing.progress(list(sides["gputensor"]), str):
        samples = timing.alternate(
            [side[name] for side in sides.values()], rounds, finish=peers.synchronizer(device)
        )
        cases.append({"name": name, "ns": {lib: s.median_ns for lib, s in zip(sides, samples)},
                      "quartiles_ns": {lib: s.quartiles_ns for lib, s in zip(sides,
                      samples)}})  # fmt: skip
    record: dict[str, Any] = {
        "benchmark": NAME,
        "device": device,
        "cases": cases,
        "peers": list(libraries)[1:],
    }
    for peer in record["peers"]:
        record[f"geomean_vs_{peer}"] = timing.geomean(
            [c["ns"]["gputensor"] / c["ns"][peer] for c in cases]
        )
    return record


def report(record: dict[str, Any]) -> str:
    """Return a Markdown table of a record."""
    libraries = ["gputensor", *record["peers"]]
    head = [f"{lib} ns" for lib in libraries] + [f"/ {peer}" for peer in record["peers"]]
    lines = [f"| {record['device']} | " + " | ".join(head) + " |", "|---|" + "---:|" * len(head)]
    for case in record["cases"]:
        ns = case["ns"]
        cells = [f"{ns[lib]:.0f}" for lib in libraries]
        cells += [f"{ns['gputensor'] / ns[peer]:.2f}" for peer in record["peers"]]
        lines.append(f"| {case['name']} | " + " | ".join(cells) + " |")
    means = [f"**{record[f'geomean_vs_{peer}']:.2f}**" for peer in record["peers"]]
    lines.append("| geometric mean | " + " | ".join([""] * len(libraries) + means) + " |")
    return "\n".join(lines)


def failures(record: dict[str, Any]) -> list[str]:
    """Return a sentence for each budget that the record misses."""
    found = []
    for case in record["cases"]:
        ns = case["ns"]
        budget = BUDGET_BACKWARD if "backward" in case["name"] else BUDGET_CALL
        if "torch" in ns and ns["gputensor"] > budget * ns["torch"]:
            found.append(
                f"{case['name']} takes {ns['gputensor'] / ns['torch']:.2f} times PyTorch's time, "
                f"above {budget}"
            )
    return found
