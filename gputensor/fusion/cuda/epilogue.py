"""Chains on CUDA with operators after reductions: see Note [A chain that goes on over results].
They run in the reduction's kernel or in a separate one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...tensor.make import allocate
from .. import running
from ..chain import Chain
from .body import Run
from .reductions import Reduced, copy_again
from ..epilogue import Tail


def prepared(whole: Chain, head: Chain, tails: list[Tail], rows: Run | None) -> Run | None:
    """A function that runs a chain and its tails. rows: runs the head, if it reads rows."""
    within: dict[int, Tail] = {}
    run_head: Callable[..., object] | None = rows
    if rows is None:
        reduced = Reduced(head, tails, whole.stores)
        within, run_head = reduced.tails, reduced.prepared()
    if run_head is None:
        return None
    apart = [(x, running.prepared(x.chain)) for x in tails if x not in within.values()]
    # A result is stored unless only a tail within its kernel reads it.
    read = [n for x, _ in apart for n in x.takes]
    read += [n for x in within.values() for n in x.takes[1:]]
    kept = [n for n in head.stores if n not in within or n in read]

    def run(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> None:
        values = dict(enumerate(inputs))
        for n, out in zip(whole.stores, outputs):
            values.setdefault(n, out)
        for n in kept:
            if n not in values:
                values[n] = allocate(head.geometry(n), head.device)
        places = [values.get(n) for n in head.stores]
        if within:
            run_head(inputs, places, scalars, values)
        else:
            run_head(inputs, places, scalars)
        for tail, run_tail in apart:
            of = [values[n] for n in tail.takes], [values[n] for n in tail.stores]
            run_tail(*of, list(scalars))
        copy_again(whole, outputs)

    return run
