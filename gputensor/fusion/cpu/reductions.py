"""Chains with reductions that cannot be a program of rows (cpu/rows.py): each block is computed and
reduced in the cache.

Note [The order of a fused sum]
The bits equal those of the operators run one by one, for any number of threads: the operators' own
loops get whole operands, or parts with whole rows if a row's result does not depend on other rows.
Blocks are parts of the walk's slowest dimension. If the reduction keeps that dimension, each block
has its own results. Otherwise integers and bools are reduced block by block; values of other types
are first computed as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dtype import INTEGER, float16
from ...iterator import parallel
from ...kernels import stub
from ...kernels.cpu import quiet
from ...kernels.cpu.reduce import LOOPS, bind
from ...runtime import cpu
from ...tensor.tensor import Tensor
from . import blocks
from ..chain import Chain
from ..members.reductions import lies_alike, slowest_dim

Array = Any
Run = Callable[[list[Tensor], list[Tensor], list[Any]], None]


class _Reduction:
    """One reduction of a chain.

    source: the number of the operand's value. place: the index of its output. loop: the operator's
    own loop. stays: True if it keeps the walk's slowest dimension, `axis`. is_exact: True if every
    order of additions gives the same bits; then `combine` merges partial results, whose dtype is
    `part`.
    is_by_rows: True if a row's result does not depend on the number of rows.
    """

    __slots__ = (
        "source", "place", "loop", "axes", "keepdim", "axis", "stays", "is_exact", "is_by_rows",
        "part", "combine",
    )  # fmt: skip

    def __init__(self, chain: Chain, step: Any, value: int, axis: int) -> None:
        what, entry, walk = step.what, step.what.entry, chain.walk
        given, compute, result = what.kinds[0], what.compute, what.result
        self.source, self.place = step.operands[0], chain.stores.index(value)
        self.loop, self.axes, self.keepdim = entry.run, entry.axes, entry.keepdim
        self.axis, self.stays = axis, axis not in what.reduces
        has_places = what.family == "argreduce"
        self.is_exact: bool = not has_places and (
            what.loop in ("any", "all") or max(given.category, compute.category) <= INTEGER
        )
        # If NumPy casts, it does so through a buffer whose ends are not the ends of rows.
        is_alone = given is compute and (given.itemsize > 2 or given is float16)
        self.is_by_rows: bool = (
            self.is_exact or has_places or stub.is_compiled(entry.run)
            or is_alone and lies_alike(what, walk, self.keepdim)
        )  # fmt: skip
        if what.loop in LOOPS or has_places:
            self.part, self.combine = result.np, LOOPS.get(what.loop)
        else:
            ends = {"nansum": "sum"}.get(what.loop, what.loop)
            self.part, self.combine = compute.np, bind(ends, compute, compute, result)

    def into(self, out: Array, first: int, last: int) -> Array:
        """Return the part of the result that the operand's rows `first` to `last` are reduced
        to."""
        at = self.axis
        if not self.keepdim and self.axes is not None:
            at -= sum([d < self.axis for d in self.axes])
        return out[(*(slice(None),) * at, slice(first, last))]


def _cut(
    body: blocks.Body, reductions: list[_Reduction], axis: int
) -> tuple[list[tuple[int, int]], list[_Reduction]]:
    """Cut the walk's slowest dimension into parts [first, last). Returns the parts, and the
    reductions that reduce one part at a time."""
    walk = body.walk
    numel, rows = walk.numel, walk.sizes[axis] if walk.ndim else 1
    step = max(1, body.block * rows // numel)
    of = [r for r in reductions if r.is_exact or (r.stays and r.is_by_rows)]
    pieces = [(first, min(first + step, rows)) for first in range(0, rows, step)]
    return pieces, of


def prepare(chain: Chain) -> Run:
    """See Note [An executor]."""
    count, walk = len(chain.inputs), chain.walk
    axis = slowest_dim(walk)
    reductions: list[_Reduction] = []
    stored: list[int] = []
    read = {x for step in chain.instructions for x in step.operands}
    for value in dict.fromkeys(chain.stores):
        step = chain.instructions[value - count]
        what = step.what
        if what.reduces is None or value in read or what.part or what.whole is not None:
            stored.append(value)
        else:
            reductions.append(_Reduction(chain, step, value, axis))
    made = list(dict.fromkeys([
        r.source for r in reductions if r.source >= count and r.source not in stored
    ]))  # fmt: skip
    elements = [chain.geometry(value).dtype.np for value in made]
    places = [chain.stores.index(value) for value in stored]
    body = blocks.Body(chain, (*stored, *made))
    cuts, cut = _cut(body, reductions, axis)
    whole = [r for r in reductions if r not in cut]
    whole_sources = {r.source for r in whole}
    longest = max([last - first for first, last in cuts])
    row = walk.numel // walk.sizes[axis] if walk.ndim else 1

    def run(inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]) -> None:
        given, results = [x._get_array() for x in inputs], [x._get_array() for x in outputs]
        kept = [
            body.temporary(walk.sizes, None, element) if value in whole_sources else None
            for value, element in zip(made, elements)
        ]
        pieces = [results[n] for n in places] + kept
        parts = [
            None if r.stays else np.empty((len(cuts), *results[r.place].shape), r.part) for r in cut
        ]
        if len(cuts) > 1 or cut:
            _run_pieces(given, pieces, results, parts, scalars)
        elif pieces:
            quiet.run(body.go, given, pieces, scalars, body.whole_pool(), walk.sizes)
        for r, found in zip(cut, parts):
            if found is not None:
                assert r.combine is not None, r.loop
                quiet.run(r.combine, found, (0,), None, results[r.place], False)
        sources = {**dict(enumerate(given)), **dict(zip((*stored, *made), pieces))}
        for r in whole:
            quiet.run(r.loop, sources[r.source], r.axes, None, results[r.place], r.keepdim)
        for n, value in enumerate(chain.stores):
            if (first := chain.stores.index(value)) != n:
                results[n][...] = results[first]

    def _run_pieces(
        given: list[Array], pieces: list[Any], results: list[Array], parts: list[Any],
        scalars: list[Any],
    ) -> None:  # fmt: skip
        at = axis - walk.ndim

        def make() -> Callable[[int], None]:
            numel = longest * row
            pool = body.pool(numel if body.has_rows else max(row, min(numel, body.block)))
            memory = [
                None if x is not None else cpu.allocate(longest * row * element.itemsize)
                for x, element in zip(pieces[len(stored) :], elements)
            ]

            def work(number: int) -> None:
                first, last = cuts[number]
                values = [parallel.part(x, at, first, last) for x in given]
                outs = [None if x is None else parallel.part(x, at, first, last) for x in pieces]
                sizes = (*walk.sizes[:axis], last - first, *walk.sizes[axis + 1 :])
                for n, buffer in enumerate(memory, len(stored)):
                    if buffer is not None:
                        outs[n] = body.temporary(sizes, buffer, elements[n - len(stored)])
                quiet.run(_one, values, outs, sizes, number)

            def _one(values: Any, outs: Any, sizes: Any, number: int) -> None:
                first, last = cuts[number]
                if body.has_rows:
                    body.go(values, outs, scalars, pool, sizes)
                else:
                    body.serial(values, outs, scalars, pool, at)
                found = {**dict(enumerate(values)), **dict(zip((*stored, *made), outs))}
                for r, into in zip(cut, parts):
                    array = found[r.source]
                    if r.stays:
                        out = r.into(results[r.place], first, last)
                        r.loop(array, r.axes, None, out, r.keepdim)
                    else:
                        r.loop(array, r.axes, None, into[number, ...], r.keepdim)

            return work

        cpu.share(len(cuts), cpu.get_num_threads(), make)

    return run
