"""Running a chain in stages: kernels of several operators, and operators one by one.

Memory for values between stages is allocated when a stage makes them, and released after the last
stage that reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.device import CPU
from ..structured import pointwise
from ..tensor.make import allocate
from .chain import Chain, Instruction

Run = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], object]


class Stage(NamedTuple):
    """Instructions that run as one. takes: the values that it reads; makes: the values that it
    writes. run: takes tensors of these values, and the chain's scalars. It may return False if it
    has written nothing; then the operators with the results `steps` run one by one."""

    takes: Sequence[int]
    makes: Sequence[int]
    run: Run
    steps: Sequence[int] = ()


def in_stages(chain: Chain, stages: Sequence[Stage]) -> Run:
    """Return a function that runs a chain."""
    places = {x: chain.stores.index(x) for x in chain.stores}
    again = [(n, places[x]) for n, x in enumerate(chain.stores) if places[x] != n]
    last = {x: n for n, one in enumerate(stages) for x in (*one.takes, *one.makes)}
    plan = [
        (
            one, [(x, chain.geometry(x)) for x in one.makes if x not in places],
            [x for x, at in last.items() if at == n and x not in places],
        )
        for n, one in enumerate(stages)
    ]  # fmt: skip
    device = chain.device

    def run(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> None:
        values = dict(enumerate(inputs))
        for x, place in places.items():
            values[x] = outputs[place]
        for (takes, makes, run_stage, steps), new, dead in plan:
            for x, shape in new:
                values[x] = allocate(shape, device)
            given, made = [values[x] for x in takes], [values[x] for x in makes]
            if run_stage(given, made, scalars) is False:
                part = chain.cut(takes, steps, makes)
                in_stages(part, all_alone(part))(given, made, scalars)
            for x in dead:
                del values[x]
        for to, source in again:
            outputs[to].copy_(outputs[source])

    return run


def all_alone(chain: Chain) -> list[Stage]:
    """Return a stage for each operator of a chain."""
    count = len(chain.inputs)
    return [alone(chain, n) for n, x in enumerate(chain.instructions, count) if not x.what.part]


def alone(chain: Chain, value: int) -> Stage:
    """Return the stage of one operator, which gives this value."""
    step = chain.instructions[value - len(chain.inputs)]
    makes, all_results = results(chain, value)
    takes = [x for x in step.operands if x >= 0]

    def run(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> None:
        tensors = iter(inputs)
        given = tuple([next(tensors) if x >= 0 else scalars[~x] for x in step.operands])
        _write(step, all_results(outputs), given, tuple([scalars[~x] for x in step.params]))

    return Stage(takes, makes, run)


def results(chain: Chain, value: int) -> tuple[list[int], Callable[[Sequence[Any]], list[Any]]]:
    """Return the values that an operator gives, and a function that adds tensors for further
    results, which nothing reads, to those of these values."""
    further = {
        x.what.part: n for n, x in enumerate(chain.instructions, len(chain.inputs))
        if x.what.part and x.operands[0] == value
    }  # fmt: skip
    what = chain.instructions[value - len(chain.inputs)].what
    others = [] if what.whole is None else what.entry.plan.outputs[1:]

    def all_results(outputs: Sequence[Any]) -> list[Any]:
        found = dict(zip((0, *further), outputs))
        for part, output in enumerate(others, 1):
            if part not in found:
                found[part] = allocate(output.geometry, what.device)
        return [found[part] for part in sorted(found)]

    return [value, *further.values()], all_results


def _write(step: Instruction, outs: list[Any], given: Any, params: Any) -> None:
    what, entry = step.what, step.what.entry
    if what.takes_rows or what.family in ("copy", "random"):  # a member's entry
        entry.write(outs, given, params)
        return
    if what.device is not CPU:  # addresses select the launch
        entry = pointwise.find_entry(what.operator.table, what.rule, what.loop, outs[0], given)
    entry.write(outs[0], given, params)
