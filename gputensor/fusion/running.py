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

from .._generated import calls
from ..core import errors
from ..kernels import stub
from ..structured import pointwise
from ..tensor.make import allocate, from_storage
from ..tensor.tensor import Tensor
from . import drawn
from .chain import Chain

Run = Callable[[list[Tensor], list[Tensor], list[Any]], object]

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
    if run is None and chain.drawn:
        rest = drawn.without(chain)
        run = partial(drawn.first, chain, None if rest is None else _prepared(rest))
    if run is None:
        run = partial(one_by_one, chain)
    if not any(chain.are_seen_otherwise):
        return run
    return partial(_with_the_walks_dimensions, run, chain)


def _with_the_walks_dimensions(
    run: Run, chain: Chain, inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]
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

    def run(inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]) -> None:
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
    if found is None and chain.drawn and (part := drawn.without(chain)) is not None:
        found = write(part)
    return found


def one_by_one(
    chain: Chain, inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]
) -> None:
    """Run the chain's operators one by one."""
    values: list[Any] = [*inputs]
    further: dict[int, list[Any]] = {}  # results of operators with several results
    for step in chain.instructions:
        number = len(values)
        given = tuple([values[x] if x >= 0 else scalars[-1 - x] for x in step.operands])
        params = tuple([scalars[-1 - x] for x in step.params])
        what = step.what
        places = [n for n, x in enumerate(chain.stores) if x == number]
        if what.part:
            out = further[step.operands[0]][what.part]
        else:
            out = outputs[places[0]] if places else allocate(what.seen, what.device)
        if what.part:
            pass
        elif what.whole is not None:
            further[number] = [out, *further_results(chain, number, outputs)]
            what.entry.write(further[number], given, params)
        elif what.reduces is not None:
            what.entry.write(out, given[0])
        elif what.family == "copy":
            calls.copy_(out, given[0], False)
        else:
            table = what.operator.table
            entry = pointwise.find_entry(table, what.rule, what.loop, out, given)
            entry.write(out, given, params)
        for place in places[1:]:
            outputs[place].copy_(out)
        values.append(out)


def further_results(chain: Chain, number: int, outputs: Sequence[Tensor]) -> list[Tensor]:
    """Tensors for the second and later results of an instruction: outputs of the chain, or new
    memory.
    """
    found = []
    what = chain.instructions[number - len(chain.inputs)].what
    stored = {
        step.what.part: n for n, step in enumerate(chain.instructions, len(chain.inputs))
        if step.what.part and step.operands[0] == number
    }  # fmt: skip
    for part, output in enumerate(what.entry.plan.outputs[1:], 1):
        value = stored.get(part)
        if value is not None and value in chain.stores:
            found.append(outputs[chain.stores.index(value)])
        else:
            found.append(allocate(output.geometry, what.device))
    return found
