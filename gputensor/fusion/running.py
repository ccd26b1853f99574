"""Run a chain, either by its device's executor or in stages. A stage is one operator, or one kernel
for several operators.

Memory for values between stages is allocated when a stage makes them, and released after the last
stage that reads them.

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
from typing import Any, NamedTuple

from ..core import errors
from ..core.device import CPU, device
from ..core.geometry import Geometry
from ..iterator import parallel
from ..kernels import stub
from ..kernels.cpu import quiet
from ..structured import pointwise
from ..tensor.make import allocate, from_storage
from ..tensor.tensor import Tensor
from .chain import Chain

Run = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], object]
_plans: dict[Chain, Run] = {}
_BOUND = 1 << 11
# Functions that are called with each chain and the reason why it ran; see `explain` in fuse.py.
watchers: list[Callable[[Chain, str], object]] = []
# Functions that are called with each operand whose memory other code may write to. Operators on
# this operand are not recorded.
unrecorded: list[Callable[[Tensor], None]] = []


def run_chain(
    chain: Chain, inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any], reason: str
) -> None:
    """Run the chain and write its results to `outputs`."""
    for told in watchers:
        told(chain, reason)
    prepared(chain)(inputs, outputs, scalars)


def prepared(chain: Chain) -> Run:
    """Return the function that runs a chain."""
    run = _plans.get(chain)
    if run is None:
        if len(_plans) >= _BOUND:
            _plans.clear()
        run = _plans[chain] = _prepared(chain)
    return run


def _prepared(chain: Chain) -> Run:
    run: Run | None = None
    bind = stub.registered(stub.CHAIN, stub.CHAIN, chain.device.type)
    if len(chain.instructions) > 1 and bind is not None:
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
    """Return stages for executors that cannot draw random numbers within a chain: the first stages
    draw the chain's random numbers, then the rest runs."""
    stages, drawn = [alone(chain, n) for n in chain.drawn], chain.drawn
    if (rest := _without_draws(chain)) is not None:
        stores = [n for n in dict.fromkeys(chain.stores) if n not in drawn]
        stages.append(Stage([*range(len(chain.inputs)), *drawn], stores, _prepared(rest)))
    return stages


def _without_draws(chain: Chain) -> Chain | None:
    """Return the chain with its random numbers as further inputs, or None if all values that it
    stores are random numbers."""
    drawn, takes = chain.drawn, [*range(len(chain.inputs)), *chain.drawn]
    stores = [n for n in dict.fromkeys(chain.stores) if n not in drawn]
    others = [n for n in chain.steps if n not in drawn]
    return chain.cut(takes, others, stores, chain.walk) if stores else None


def _with_the_walks_dimensions(
    run: Run, chain: Chain, inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]
) -> None:
    seen = [
        x if not is_seen_otherwise
        else from_storage(x._get_storage(), x._offset, chain.geometry(value), x._keys)
        for x, value, is_seen_otherwise in zip(outputs, chain.stores, chain.are_seen_otherwise)
    ]  # fmt: skip
    run(inputs, seen, scalars)


def _bound(chain: Chain, bind_op: stub.Bind) -> Run | None:
    """Return a device's own kernel for a chain: see Note [A device's stub for chains]."""
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
    """Return the source from which a chain is compiled, or None if nothing is compiled."""
    write: Callable[[Chain], str | None] | None = getattr(_executor(chain), "source", None)
    if write is None or stub.registered(stub.CHAIN, stub.CHAIN, chain.device.type) is not None:
        return None
    found = write(chain)
    if found is None and chain.drawn and (part := _without_draws(chain)) is not None:
        found = write(part)
    return found


class Stage(NamedTuple):
    """Instructions that run together. takes: the values that they read. makes: the values that they
    write. run: a function of these values and the chain's scalars; values are ndarrays on the CPU,
    otherwise tensors. If `run` returns False, it has written nothing, and the operators that
    compute the values `steps` run one by one. program: a function for the same computation, called
    as `(*makes, *takes, scalars, True)`, if there is one."""

    takes: Sequence[int]
    makes: Sequence[int]
    run: Run
    steps: Sequence[int] = ()
    program: Callable[..., bool] | None = None


def of_program(
    program: Callable[..., Any], takes: Sequence[int], makes: Sequence[int],
    steps: Sequence[int] = (),
) -> Stage:  # fmt: skip
    """Return the stage that makes one call of a program."""

    def run(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> object:
        return program(*outputs, *inputs, scalars, True)

    return Stage(takes, makes, run, steps, program)


def memory(shape: Geometry, place: device) -> Any:
    """Return memory for a value between stages."""
    made = allocate(shape, place)
    return made._get_array() if place is CPU else made


def in_stages(chain: Chain, stages: Sequence[Stage]) -> Run:
    """Return a function over tensors that runs a chain in these stages."""
    run = _over_values(chain, stages)
    if chain.device is not CPU:
        return run

    def over_tensors(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> None:
        run([x._get_array() for x in inputs], [x._get_array() for x in outputs], scalars)

    return over_tensors


def _over_values(chain: Chain, stages: Sequence[Stage]) -> Run:
    place, unknown = chain.device, [None] * len(chain.instructions)
    stored = [(x, chain.stores.index(x)) for x in dict.fromkeys(chain.stores)]
    again = [(n, x) for n, x in enumerate(chain.stores) if (x, n) not in stored]
    last = {x: n for n, one in enumerate(stages) for x in (*one.takes, *one.makes)}
    plan = [
        (
            one, [(x, chain.geometry(x)) for x in one.makes if x not in chain.stores],
            [x for x, at in last.items() if at == n and x not in chain.stores],
        )
        for n, one in enumerate(stages)
    ]  # fmt: skip

    def run(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> None:
        values = [*inputs, *unknown]
        for x, output in stored:
            values[x] = outputs[output]
        for one, new, dead in plan:
            for x, shape in new:
                values[x] = memory(shape, place)
            of = [values[x] for x in one.takes], [values[x] for x in one.makes], scalars
            if one.run(*of) is False:
                otherwise(chain, one)(*of)
            del of  # drop the references to values that are no longer needed
            for x in dead:
                values[x] = None
        for n, x in again:
            if place is CPU:
                outputs[n][...] = values[x]
            else:
                outputs[n].copy_(values[x])

    return run


def otherwise(chain: Chain, stage: Stage) -> Run:
    """Return a function over a stage's values that runs its operators one by one."""
    part = chain.cut(stage.takes, stage.steps, stage.makes)
    return _over_values(part, all_alone(part))


def all_alone(chain: Chain) -> list[Stage]:
    """Return a stage for each operator of a chain."""
    return [alone(chain, n) for n, x in chain.steps.items() if not x.what.part]


def alone(chain: Chain, value: int) -> Stage:
    """Return the stage of the single operator that computes this value."""
    step = chain.steps[value]
    what, entry, params = step.what, step.what.entry, step.params
    makes, all_results = results(chain, value)
    takes = [x for x in step.operands if x >= 0]
    numbers = [(n, ~x) for n, x in enumerate(step.operands) if x < 0]
    is_member = what.takes_rows or what.family in ("copy", "random")
    if (program := getattr(entry, "program", None)) is not None:
        return of_program(program, takes, makes)

    def run(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> None:
        given = inputs
        if numbers:
            given = [*inputs]
            for n, x in numbers:
                given.insert(n, scalars[x])
        beside = tuple([scalars[~x] for x in params]) if params else ()
        if is_member:
            entry.write(all_results(outputs), given, beside)
        elif what.device is CPU:
            if entry.block:
                parallel.pointwise(entry.loop, given, beside, outputs[0], entry.block)
            else:
                quiet.run(entry.loop, *given, *beside, outputs[0])
        else:  # the addresses of operands select the launch
            table, out = what.operator.table, outputs[0]
            found = pointwise.find_entry(table, entry.rule, what.loop, out, tuple(given))
            found.write(out, tuple(given), beside)

    return Stage(takes, makes, run)


def results(chain: Chain, value: int) -> tuple[list[int], Callable[[Sequence[Any]], Sequence[Any]]]:
    """Return an operator's results that the chain has as values, and a function. The function takes
    the outputs for these values and adds memory for the operator's other results, which nothing
    reads."""
    steps, what = chain.steps.items(), chain.steps[value].what
    further = {x.what.part: n for n, x in steps if x.what.part and x.operands[0] == value}
    others = [] if what.whole is None else what.entry.plan.outputs[1:]

    def all_results(outputs: Sequence[Any]) -> Sequence[Any]:
        if not others:
            return outputs
        found = dict(zip((0, *further), outputs))
        for part, output in enumerate(others, 1):
            if part not in found:
                found[part] = memory(output.geometry, what.device)
        return [found[part] for part in sorted(found)]

    return [value, *further.values()], all_results
