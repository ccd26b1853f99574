"""Measurement of a model or layer with all libraries: check of results, alternating times,
memory."""

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

from ..copies import layout_sides
from ..measurement import timing
from ..measurement.places import WrongResult
from ..operators.sides import THREADS
from .layers import Layer, Recurrent
from .networks import Network

Side = Callable[[], Any]

# The least and the greatest number of rounds, and the time limit in seconds. After the limit, no
# further round starts.
LEAST_ROUNDS, ROUNDS, LIMIT_S = 7, 41, 8.0
# Tolerances relative to the norm, because orders of summation differ. Gradients differ most: a
# rounding error may change which element is the maximum, or the sign of a relu's input.
TOLERANCE = {"result": 1e-3, "gradients": 2e-2, "loss": 1e-3}


# --- results --------------------------------------------------------------------------------------


def compare(name: str, torch: Any, ours: Network, theirs: Network) -> None:
    """Copy PyTorch's weights to our model. Then compare a forward and backward pass and two
    training steps.

    Raises: WrongResult if results, gradients or the losses after a step differ.
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
    """Return a function that runs a forward pass without gradients. module: if given, it is called
    in place of the network's module."""
    call = network.module if module is None else module

    def side() -> Any:
        with lib.no_grad():
            return call(*network.inputs)

    return side


def stepping(lib: Any, network: Network, module: Any = None) -> Side:
    """Return a function that runs a training step and returns the loss. module: as for
    `forward`."""
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
    """Return the measurements of a model's forward pass or training step."""
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
        except Exception as error:  # torch.compile needs a C++ compiler and fails for some models
            skipped["torch.compile"] = f"{type(error).__name__}: {error}".splitlines()[0]
    return _times(sides, rounds) | {"skipped": skipped}


def of_layer(
    name: str, layer: Layer | Recurrent, torch: Any, libraries: Sequence[str], rounds: int | None
) -> dict[str, dict[str, Any]]:
    """Return the measurements of a layer: forward without gradients, and forward with backward.

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
        [*sides.values()], rounds or ROUNDS, round_ms=20.0, rest_s=timing.REST_S,
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
    """Return the peak resident memory of a new process that only runs the model."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.models", json.dumps([library, name, what, scale])],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
        env=os.environ | {"OMP_NUM_THREADS": str(THREADS), "GPUTENSOR_NUM_THREADS": str(THREADS)},
    )  # fmt: skip
    return int(done.stdout.split()[-1])
