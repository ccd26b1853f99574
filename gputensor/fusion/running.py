"""Running a chain: by its device's executor, or by the operators one by one.

Note [A device's stub for chains]
A backend for a further device, or a replacement for CUDA, registers a stub of family "chain":
`bind_op("chain", chain)` is called once for a chain of two or more operators, see Note [A chain],
and returns callable(device index, operands, scalars), or None to run the operators one by one.
Operands are the addresses of `chain.stores`, then of `chain.inputs`, with the layouts of
`chain.geometry`, inputs broadcasting to `chain.walk`; a 0-d CPU operand is passed as its number.
Random numbers are among the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ..core import errors
from ..core.device import CPU
from ..kernels import stub
from ..tensor.make import from_storage
from ..tensor.tensor import Tensor
from .chain import Chain
from .stages import Run, Stage, all_alone, alone, in_stages

_plans: dict[Chain, Run] = {}
_BOUND = 1 << 11
# Called with each chain and the reason why it ran; see explain.py.
watchers: list[Callable[[Chain, str], object]] = []


def run_chain(
    chain: Chain, inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any], reason: str
) -> None:
    """Compute the chain's stores."""
    for told in watchers:
        told(chain, reason)
    prepared(chain)(inputs, outputs, scalars)


def prepared(chain: Chain) -> Run:
    """The function that runs a chain."""
    run = _plans.get(chain)
    if run is None:
        if len(_plans) >= _BOUND:
            _plans.clear()
        run = _plans[chain] = _prepared(chain)
    return run


def _prepared(chain: Chain) -> Run:
    run: Run | None = None
    if len(chain.instructions) > 1 and (bind := _stub(chain)) is not None:
        run = None if chain.drawn else _bound(chain, bind)
    elif (executor := _executor(chain)) is not None:
        run = executor.prepare(chain)
    if run is None and chain.drawn and chain.device is not CPU:
        run = in_stages(chain, _drawn_first(chain))
    if run is None:
        run = in_stages(chain, all_alone(chain))
    if not any(chain.are_seen_otherwise):
        return run
    return partial(_with_the_walks_dimensions, run, chain)


def _drawn_first(chain: Chain) -> list[Stage]:
    """Return stages that draw a chain's random numbers before they run the rest, for executors that
    cannot draw within a chain."""
    stages = [alone(chain, n) for n in chain.drawn]
    rest = _without_draws(chain)
    if rest is not None:
        takes = [*range(len(chain.inputs)), *chain.drawn]
        stages.append(Stage(takes, _undrawn(chain), _prepared(rest)))
    return stages


def _without_draws(chain: Chain) -> Chain | None:
    """Return the chain with its random numbers as further inputs, or None if it consists only of
    random numbers."""
    count, drawn = len(chain.inputs), chain.drawn
    others = [n for n in range(count, count + len(chain.instructions)) if n not in drawn]
    stores = _undrawn(chain)
    return chain.cut([*range(count), *drawn], others, stores, chain.walk) if stores else None


def _undrawn(chain: Chain) -> list[int]:
    return [n for n in dict.fromkeys(chain.stores) if n not in chain.drawn]


def _with_the_walks_dimensions(
    run: Run, chain: Chain, inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]
) -> None:
    seen = [
        x if not is_seen_otherwise
        else from_storage(x._get_storage(), x._offset, chain.geometry(value), x._keys)
        for x, value, is_seen_otherwise in zip(outputs, chain.stores, chain.are_seen_otherwise)
    ]  # fmt: skip
    run(inputs, seen, scalars)


def _stub(chain: Chain) -> stub.Bind | None:
    return stub.registered(stub.CHAIN, stub.CHAIN, chain.device.type)


def _bound(chain: Chain, bind_op: stub.Bind) -> Run | None:
    """The launch of a device's own kernel for a chain. See Note [A device's stub for chains]."""
    place = chain.device
    launch = bind_op(stub.CHAIN, chain)
    if launch is None:
        return None
    if not callable(launch):
        raise errors.bound_nothing(stub.CHAIN, stub.CHAIN, place.type, bind_op, launch)

    def run(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> None:
        operands = [
            x._address() if x._device is place else x._get_array().item()
            for x in (*outputs, *inputs)
        ]  # fmt: skip
        launch(place.index, tuple(operands), tuple(scalars))

    return run


def _executor(chain: Chain) -> Any:
    """Return the executor module of a device, or None if there is none."""
    name = f"{__package__}.{chain.device.type}"
    if len(chain.instructions) < 2 or find_spec(name) is None:
        return None
    return import_module(name)


def source(chain: Chain) -> str | None:
    """The source that a chain is compiled from; None if nothing is compiled."""
    write: Callable[[Chain], str | None] | None = getattr(_executor(chain), "source", None)
    if write is None or _stub(chain) is not None:
        return None
    found = write(chain)
    if found is None and chain.drawn and (part := _without_draws(chain)) is not None:
        found = write(part)
    return found
