"""Eight models (forward pass and training step) and single layers, compared with PyTorch and
torch.compile.

`networks.py` has the models, `layers.py` convolutions, attention and recurrent layers. Both
libraries start with the same weights. Results, gradients and the loss after a step are compared
before the timing. The memory of a model is the peak of a new process that imports a library, builds
the model and runs it (`__main__.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gputensor as gt

from ..measurement import peers, timing
from ..operators.sides import THREADS
from . import sides
from .layers import LAYERS
from .networks import NETWORKS
from .totals import draw, failures, report, summary

__all__ = ["COUNT", "NAME", "draw", "failures", "report", "run", "summary"]

NAME = "models"
COUNT = len(NETWORKS) + len(LAYERS)
PEERS = ("torch", "torch.compile")
Case = dict[str, Any]


def run(
    device: str = "cpu", rounds: int | None = None, libraries: Sequence[str] = PEERS,
    scale: int = 1, only: Sequence[int] = (), matching: Sequence[str] = (),
    note: Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Measure all models and layers, or some of them. Needs PyTorch, to compare results.

    scale: values above 1 make models small, for tests. only: numbers of models and layers.
    matching: parts of their names. note: called with the data after each of them.
    """
    on, torch = gt.device(device), peers.torch("cpu")
    data: dict[str, Any] = {
        "benchmark": NAME, "device": "cpu", "threads": THREADS, "peers": [*libraries],
        "skipped": {}, "scale": scale, "cases": [],
    }  # fmt: skip
    if torch is None or on.type != "cpu":
        why = peers.why_not("torch", "cpu") if torch is None else "this benchmark is the CPU's"
        return data | {"skipped": dict.fromkeys(libraries, why)}
    chosen = [
        (number, name)
        for number, name in enumerate([*NETWORKS, *LAYERS], 1)
        if (not only or number in only) and (not matching or any(m in name for m in matching))
    ]
    before = gt.get_num_threads()
    gt.set_num_threads(THREADS)
    peers.set_threads("torch", THREADS)
    try:
        for number, name in timing.progress(chosen, lambda one: one[1]):
            of = _of_model if name in NETWORKS else _of_layer
            for case in of(name, torch, libraries, rounds, scale):
                data["cases"].append({"number": number, "verified": True} | case)
            if note is not None:
                note(data | {"summary": summary(data)})
    finally:
        gt.set_num_threads(before)
    return data | {"summary": summary(data)}


def _of_model(
    name: str, torch: Any, libraries: Sequence[str], rounds: int | None, scale: int
) -> Iterator[Case]:
    torch.manual_seed(0)
    ours, theirs = (NETWORKS[name](lib, scale > 1) for lib in (gt, torch))
    sides.compare(name, torch, ours, theirs)
    for what in ("forward", "step"):
        peak = {lib: sides.peak_bytes(lib, name, what, scale) for lib in ("gputensor", "torch")}
        yield {"kind": what, "name": f"{name}: {what}", "peak_bytes": peak} | sides.measure(
            what, torch, ours, theirs, libraries, rounds
        )


def _of_layer(
    name: str, torch: Any, libraries: Sequence[str], rounds: int | None, scale: int
) -> Iterator[Case]:
    layer = LAYERS[name]
    for what, times in sides.of_layer(name, layer, torch, libraries, rounds).items():
        yield {"kind": layer.kind, "name": f"{name}: {what}"} | times
