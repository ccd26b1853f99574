"""A model, or a layer, on all sides: compare its results, time it in turns, weigh its memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gputensor as gt

from .. import layout_sides, timing
from ..operators.sides import THREADS
from ..places import WrongResult
from .layers import Layer
from .networks import Network

Side = Callable[[], Any]

# Rounds at least and at most; seconds after which no more begin.
LEAST_ROUNDS, ROUNDS, LIMIT_S = 7, 41, 8.0
# Of the norm: what libraries that add up otherwise may differ by. Gradients differ most: a rounding
# error may choose another maximum, or the other side of a relu.
TOLERANCE = {"result": 1e-3, "gradients": 2e-2, "loss": 1e-3}


# --- results --------------------------------------------------------------------------------------


def compare(name: str, torch: Any, ours: Network, theirs: Network) -> None:
    """Give ours the weights of theirs; compare a pass forward and backward, and two steps.

    Raises: WrongResult where results, gradients or what a step leaves differ.
    """
    state = {key: gt.from_numpy(x.numpy()) for key, x in theirs.module.state_dict().items()}
    ours.module.load_state_dict(state)
    found, wanted = ours.module(*ours.inputs), theirs.module(*theirs.inputs)
    _near(name, "result", [found], [wanted])
    for network, made in ((ours, found), (theirs, wanted)):
        network.loss(made).backward()
    of = dict(theirs.module.named_parameters())
    pairs = [(p.grad, of[key].grad) for key, p in ours.module.named_parameters()]
    _near(name, "gradients", [a for a, _ in pairs], [b for _, b in pairs])
    losses = []
    for lib, network in ((gt, ours), (torch, theirs)):
        step = stepping(lib, network)
        step()
        losses.append(step())
    _near(name, "loss", losses[:1], losses[1:])


def _near(name: str, what: str, found: Sequence[Any], wanted: Sequence[Any]) -> None:
    a, b = (
        np.concatenate([x.detach().numpy().astype(np.float64).ravel() for x in of])
        for of in (found, wanted)
    )
    if a.shape != b.shape or not np.linalg.norm(a - b) <= TOLERANCE[what] * np.linalg.norm(b):
        raise WrongResult(f"{name}: the {what} of gputensor and PyTorch differ")


# --- times ----------------------------------------------------------------------------------------


def forward(lib: Any, network: Network, module: Any = None) -> Side:
    """The forward pass without gradients; module: what is called in the place of network's."""
    call = network.module if module is None else module

    def side() -> Any:
        with lib.no_grad():
            return call(*network.inputs)

    return side


def stepping(lib: Any, network: Network, module: Any = None) -> Side:
    """A training step that returns the loss; module: as for `forward`."""
    optimizer = network.optimizer(list(network.module.parameters()))
    call = network.module if module is None else module

    def step() -> Any:
        optimizer.zero_grad()
        loss = network.loss(call(*network.inputs))
        loss.backward()
        if network.clip is not None:
            lib.nn.utils.clip_grad_norm_(network.module.parameters(), network.clip)
        optimizer.step()
        return loss

    return step


def measure(
    what: str, torch: Any, ours: Network, theirs: Network, libraries: Sequence[str],
    rounds: int | None,
) -> dict[str, Any]:  # fmt: skip
    """The figures of a model's forward pass or of its training step."""
    make = forward if what == "forward" else stepping
    for network in (ours, theirs):
        network.module.train(what == "step")
    sides, skipped = {"gputensor": make(gt, ours)}, {}
    if "torch" in libraries:
        sides["torch"] = make(torch, theirs)
    if "torch.compile" in libraries:
        compiled = make(torch, theirs, layout_sides.compiled_once(torch, theirs.module))
        try:
            compiled()
            sides["torch.compile"] = compiled
        except Exception as error:  # it needs a C++ compiler, and not every model compiles
            skipped["torch.compile"] = f"{type(error).__name__}: {error}".splitlines()[0]
    return _times(sides, rounds) | {"skipped": skipped}


def of_layer(
    name: str, layer: Layer, torch: Any, libraries: Sequence[str], rounds: int | None
) -> dict[str, dict[str, Any]]:
    """The figures of a layer forward, without gradients, and of both passes.

    Raises: WrongResult.
    """
    calls, passes = {}, {}
    inputs = {lib: layer.inputs(lib) for lib in (gt, torch)}
    for key, lib in (("gputensor", gt), ("torch", torch)):
        call = layer.call(lib, inputs[lib])
        weight = lib.ones_like(call().detach())
        calls[key] = _without_gradients(lib, call)
        passes[key] = _with_gradients(lib, call, inputs[lib], weight)
    _near(name, "result", [calls["gputensor"]()], [calls["torch"]()])
    _near(name, "gradients", passes["gputensor"](), passes["torch"]())
    of = {"forward": calls, "forward and backward": passes}
    if "torch" not in libraries:
        of = {what: {"gputensor": sides["gputensor"]} for what, sides in of.items()}
    return {what: _times(sides, rounds) | {"skipped": {}} for what, sides in of.items()}


def _without_gradients(lib: Any, call: Side) -> Side:
    def side() -> Any:
        with lib.no_grad():
            return call()

    return side


def _with_gradients(lib: Any, call: Side, inputs: list[Any], weight: Any) -> Side:
    return lambda: lib.autograd.grad(call(), inputs, weight)


def _times(sides: dict[str, Side], rounds: int | None) -> dict[str, Any]:
    is_steady = timing.steady(0.02, LIMIT_S)
    samples = dict(zip(sides, timing.alternate(
        [*sides.values()], rounds or ROUNDS, round_ms=20.0,
        until=lambda of: len(of[0].ns) >= LEAST_ROUNDS and is_steady(of),
    )))  # fmt: skip
    mine = samples["gputensor"]
    return {
        "ns": {name: s.median_ns for name, s in samples.items()},
        "quartiles_ns": {name: s.quartiles_ns for name, s in samples.items()},
        "ratio": {n: timing.ratio(s, mine) for n, s in samples.items() if s is not mine},
    }


# --- memory ---------------------------------------------------------------------------------------


def peak_bytes(library: str, name: str, what: str, scale: int) -> int:
    """The most memory that a process which does nothing else has resident."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.models", json.dumps([library, name, what, scale])],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
        env=os.environ | {"OMP_NUM_THREADS": str(THREADS), "GPUTENSOR_NUM_THREADS": str(THREADS)},
    )  # fmt: skip
    return int(done.stdout.split()[-1])
