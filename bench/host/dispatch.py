"""Time of the dispatcher alone: calls of operators whose Python kernels only return an argument.

The same operators are registered with `gt.library` and `torch.library` and called alternately as
`gt.ops.<ns>.<op>.<overload>(...)` and `torch.ops.<ns>.<op>.<overload>(...)`. Plain tensors have
Autograd keys; tensors made in inference mode do not. PyTorch boxes the arguments of every Python
kernel, so our boxed kernels are compared with PyTorch's ordinary kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import gputensor as gt

from ..measurement import peers, timing
from ..measurement.places import WrongResult

NAME = "dispatch"
NAMESPACE = "bench_dispatch"
# Budgets for two plain tensors: our time in ns, and PyTorch's time divided by ours.
TWO = "two tensors"
BUDGET_NS = 500.0
BUDGET_RATIO = 2.0

Side = Callable[[], Any]
_SCHEMAS = (
    "one(Tensor x) -> Tensor", "two(Tensor x, Tensor y) -> Tensor", "many(Tensor[] xs) -> Tensor",
    "boxed(Tensor x, Tensor y) -> Tensor", "deep(Tensor x, Tensor y) -> Tensor",
)  # fmt: skip


def _first(x: Any, y: Any) -> Any:
    return x


def _first_boxed(operator: Any, key_set: Any, stack: list[Any]) -> None:
    del stack[-1]


def _go_on(operator: Any, below: Any) -> Callable[..., Any]:
    """Return a kernel that redispatches to the keys in `below`, as autograd kernels do."""
    redispatch = operator.redispatch

    def go_on(key_set: Any, x: Any, y: Any) -> Any:
        return redispatch(key_set & below, x, y)

    return go_on


def _below(lib: Any, key: str) -> Any:
    """Return a library's key set that contains all keys below `key`."""
    if lib is gt:
        return gt.dispatch.full_after(key)
    return lib._C._dispatch_keyset_full_after(getattr(lib._C.DispatchKey, key))


@contextmanager
def _cases(lib: Any, device: str) -> Iterator[dict[str, tuple[Side, Any]]]:
    """Yield a dict from case to (call, expected result). The operators are removed when the `with`
    block ends."""
    backend = "CPU" if device == "cpu" else "CUDA"
    with ExitStack() as undo:
        define = lib.library.Library(NAMESPACE, "DEF")
        undo.callback(define._destroy)
        for schema in _SCHEMAS:
            define.define(schema)
        kernels = lib.library.Library(NAMESPACE, "IMPL")
        undo.callback(kernels._destroy)
        ops = getattr(lib.ops, NAMESPACE)
        one, two, many = ops.one.default, ops.two.default, ops.many.default
        boxed, deep = ops.boxed.default, ops.deep.default
        kernels.impl("one", lambda x: x, backend)
        kernels.impl("two", _first, backend)
        kernels.impl("many", lambda xs: xs[0], backend)
        if lib is gt:
            kernels.impl("boxed", _first_boxed, backend, boxed=True)
        else:
            kernels.impl("boxed", _first, backend)
        kernels.impl("deep", _first, backend)
        for key in ("Autograd" + backend, "ADInplaceOrView", "BackendSelect"):
            kernels.impl("deep", _go_on(deep, _below(lib, key)), key, with_keyset=True)
        xs = [lib.ones((4,), device=device) for _ in range(8)]
        with lib.inference_mode():
            us = [lib.ones((4,), device=device) for _ in range(8)]
        (x, y), (u, v) = xs[:2], us[:2]
        yield {
            "one tensor": (lambda: one(x), x),
            "one tensor, no Autograd keys": (lambda: one(u), u),
            TWO: (lambda: two(x, y), x),
            "two tensors, no Autograd keys": (lambda: two(u, v), u),
            "list of 8": (lambda: many(xs), x),
            "list of 8, no Autograd keys": (lambda: many(us), u),
            "two tensors, boxed kernel": (lambda: boxed(x, y), x),
            "two tensors, three redispatches": (lambda: deep(x, y), x),
        }


def run(device: str = "cpu", rounds: int = 101) -> dict[str, Any]:
    """Measure all cases; return the record that `bench run` prints and writes."""
    libraries = {"gputensor": gt}
    torch = peers.torch(device)
    if torch is not None:
        libraries["torch"] = torch
    with ExitStack() as stack:
        sides = {name: stack.enter_context(_cases(lib, device)) for name, lib in libraries.items()}
        cases = [
            _measured(case, {lib: calls[case] for lib, calls in sides.items()}, rounds)
            for case in timing.progress(list(sides["gputensor"]), str)
        ]
    record: dict[str, Any] = {
        "benchmark": NAME, "device": device, "cases": cases, "peers": list(libraries)[1:],
        "threads": 1,
    }  # fmt: skip
    if torch is None:
        record["skipped"] = {"torch": peers.why_not("torch", device)}
    else:
        record["geomean_vs_torch"] = timing.geomean(1 / case["ratio"]["torch"] for case in cases)
    return record


def _measured(case: str, sides: dict[str, tuple[Side, Any]], rounds: int) -> dict[str, Any]:
    for library, (call, expected) in sides.items():
        if call() is not expected:
            raise WrongResult(f"{case}: {library} did not return its first tensor")
    samples = dict(
        zip(sides, timing.alternate([call for call, _ in sides.values()], rounds=rounds))
    )
    ours = samples["gputensor"]
    return {
        "name": case,
        "ns": {library: sample.median_ns for library, sample in samples.items()},
        "quartiles_ns": {library: sample.quartiles_ns for library, sample in samples.items()},
        "ratio": {
            library: timing.ratio(sample, ours) for library,
            sample in samples.items() if sample is not ours
        },
    }  # fmt: skip


def report(record: dict[str, Any]) -> str:
    """Return a Markdown table of a record."""
    libraries = ["gputensor", *record["peers"]]
    head = [f"{lib} ns" for lib in libraries] + [f"× {peer}" for peer in record["peers"]]
    lines = [f"| {record['device']} | " + " | ".join(head) + " |", "|---|" + "---:|" * len(head)]
    for case in record["cases"]:
        cells = [f"{case['ns'][lib]:.0f}" for lib in libraries]
        cells += [f"{case['ratio'][peer]:.2f}" for peer in record["peers"]]
        lines.append(f"| {case['name']} | " + " | ".join(cells) + " |")
    lines.append("")
    if "geomean_vs_torch" in record:
        lines.append(
            f"Over all cases PyTorch takes {1 / record['geomean_vs_torch']:.2f} times as long. "
        )
    lines[-1] += f"Budget of two tensors: {BUDGET_NS:.0f} ns, and {BUDGET_RATIO:.0f} times as long."
    lines += [f"Skipped: {name} ({why})." for name, why in record.get("skipped", {}).items()]
    return "\n".join(lines)


def failures(record: dict[str, Any]) -> list[str]:
    """Return a sentence for each budget that the record misses."""
    two = next(case for case in record["cases"] if case["name"] == TWO)
    found = []
    if two["ns"]["gputensor"] > BUDGET_NS:
        found.append(
            f"a call with two tensors takes {two['ns']['gputensor']:.0f} ns, above {BUDGET_NS:.0f}"
        )
    if two["ratio"].get("torch", BUDGET_RATIO) < BUDGET_RATIO:
        found.append(
            f"PyTorch takes {two['ratio']['torch']:.2f} times as long, below {BUDGET_RATIO:.0f}"
        )
    return found
