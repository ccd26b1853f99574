"""Runs a chain that is reduced on the CPU: each block is computed in the cache and reduced there.

Note [The order of a fused sum]
The bits are those of the operators one by one, for any number of threads, as the cuts are such that
the very additions of kernels/cpu/reduce.py are made in its order. Blocks are parts of the walk's
slowest dimension. Where that stays, each block has results of its own; where it is reduced,

- integers and truth values take any blocks,
- a large operand takes the blocks that the reduction itself has,
- a sum of floats over a run of memory takes the parts that NumPy's pairwise sum cuts it to,

and what is none of these, or keeps dimensions in an order that is not memory's, is computed as a
whole first: at most `reduce._BLOCKS_FROM` elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtype import INTEGER, float16, float32, float64
from ..iterator import parallel
from ..kernels.cpu import quiet
from ..kernels.cpu.reduce import LOOPS, bind_whole, in_blocks
from ..runtime import cpu
from ..tensor.tensor import Tensor
from . import cpu_body as blocks
from . import native, native_body
from .chain import Chain
from .native_program import Program
from .reductions import lies_alike

Array = Any
_add: Callable[..., Any] = np.add.reduce
Run = Callable[[list[Tensor], list[Tensor], list[Any]], None]
# Elements that NumPy adds up without cutting them (PW_BLOCKSIZE), and what it cuts at multiples of.
_UNCUT, _LANES = 128, 8


class _Reduction:
    """One of a chain.

    source, place: the value that it takes, and its output. whole: the loop that the operator runs
    alone; loop: the same without blocks of its own. stays: it keeps the walk's slowest dimension,
    which is `axis`. is_exact: any order gives the same bits. is_by_rows: a row's result does not
    depend on how many there are beside it. is_pairwise: NumPy adds up the whole run pairwise.
    """

    __slots__ = (
        "source", "place", "loop", "whole", "axes", "keepdim", "axis", "stays", "is_exact",
        "is_by_rows", "is_pairwise", "divide_by", "part", "combine",
    )  # fmt: skip

    def __init__(self, chain: Chain, step: Any, value: int, axis: int) -> None:
        what, entry, walk = step.what, step.what.entry, chain.walk
        given, compute, result = what.kinds[0], what.compute, what.result
        self.source, self.place = step.operands[0], chain.stores.index(value)
        self.whole, self.axes, self.keepdim = entry.run, entry.axes, entry.keepdim
        self.loop: Any = entry.run.kept if type(entry.run) is in_blocks else entry.run
        self.axis, self.stays = axis, axis not in what.reduces
        has_places = what.family == "argreduce"
        self.is_exact: bool = what.loop in ("any", "all") or (
            max(given.category, compute.category) <= INTEGER and not has_places
        )
        # Where NumPy casts, it does so through a buffer that does not end where rows do.
        is_alone = given is compute and (given.itemsize > 2 or given is float16)
        self.is_by_rows: bool = (
            self.is_exact or has_places or is_alone and lies_alike(what, walk, self.keepdim)
        )
        is_one_run = len(what.reduces) == walk.ndim and (
            walk.is_row_major or walk.strides == tuple(sorted(walk.strides))
        )
        self.is_pairwise: bool = (
            what.loop in ("sum", "mean") and is_one_run and given in (float32, float64)
            and given is compute is result and not hasattr(self.loop, "ones")
        )  # fmt: skip
        self.divide_by: int = walk.numel if what.loop == "mean" else 1
        if has_places:
            self.part, self.combine = result.np, self.loop  # no parts of it are combined
        elif what.loop in LOOPS:
            self.part, self.combine = result.np, LOOPS[what.loop]
        else:
            ends = {"nansum": "sum"}.get(what.loop, what.loop)
            self.part, self.combine = compute.np, bind_whole(ends, compute, compute, result)

    def into(self, out: Array, first: int, last: int) -> Array:
        """The part of the result that rows of the operand give."""
        at = self.axis
        if not self.keepdim and self.axes is not None:
            at -= sum([d < self.axis for d in self.axes])
        return out[(*(slice(None),) * at, slice(first, last))]


class _Parts:
    """A chain's reductions, cut: pieces of the walk, [first, last) of its slowest dimension or, if
    is_flat, of its memory; and the reductions that take a piece at a time."""

    __slots__ = ("pieces", "is_flat", "of")
    pieces: list[tuple[int, int]]
    is_flat: bool
    of: list[_Reduction]

    def __init__(self, pieces: list[tuple[int, int]], is_flat: bool, of: list[_Reduction]) -> None:
        self.pieces, self.is_flat, self.of = pieces, is_flat, of


def _cut(body: blocks.Body, reductions: list[_Reduction], axis: int) -> _Parts:
    """See Note [The order of a fused sum]."""
    walk = body.walk
    numel, rows = walk.numel, walk.sizes[axis] if walk.ndim else 1
    if numel <= blocks.BLOCK:
        return _Parts([(0, rows)], False, [])
    is_full = not body.has_inline and all([r.axes is None for r in reductions])
    if body.is_flat and is_full and all([r.is_exact or r.is_pairwise for r in reductions]):
        pieces = [
            part for begin, end in _own_blocks(reductions, numel, rows)
            for part in _halves(begin, end, body.block)
        ]  # fmt: skip
        return _Parts(pieces, True, reductions)
    # Reductions that have blocks of their own must have those.
    own = {id(r): r.whole.rows(numel, rows) for r in reductions if type(r.whole) is in_blocks}
    bound = [own[id(r)] for r in reductions if not (r.stays or r.is_exact) and id(r) in own]
    step = bound[0] if bound else max(1, body.block * rows // numel)
    of = [
        r for r in reductions
        if r.is_exact or (r.stays and r.is_by_rows) or own.get(id(r)) == step
    ]  # fmt: skip
    pieces = [(first, min(first + step, rows)) for first in range(0, rows, step)]
    return _Parts(pieces, False, of)


def _own_blocks(reductions: list[_Reduction], numel: int, rows: int) -> list[tuple[int, int]]:
    """The blocks that sums over a run of memory have by themselves; they depend on sizes alone."""
    for r in reductions:
        if r.is_pairwise and type(r.whole) is in_blocks:
            size = r.whole.rows(numel, rows) * (numel // rows)
            return [(begin, min(begin + size, numel)) for begin in range(0, numel, size)]
    return [(0, numel)]


def _halves(begin: int, end: int, block: int) -> list[tuple[int, int]]:
    """A run in the parts that a pairwise sum halves it to, until they are blocks."""
    if end - begin <= max(block, _UNCUT):
        return [(begin, end)]
    middle = begin + (end - begin) // 2 // _LANES * _LANES
    return _halves(begin, middle, block) + _halves(middle, end, block)


def _folded(parts: Any, begin: int, end: int, block: int) -> Any:
    """The sum of what `_halves` gives, in its order. parts: an iterator over the parts' sums."""
    if end - begin <= max(block, _UNCUT):
        return next(parts)
    middle = begin + (end - begin) // 2 // _LANES * _LANES
    first = _folded(parts, begin, middle, block)
    return first + _folded(parts, middle, end, block)


def prepare(chain: Chain) -> Run:
    """See Note [An executor]."""
    count, walk = len(chain.inputs), chain.walk
    axis = max(
        range(walk.ndim), key=lambda d: walk.strides[d] if walk.sizes[d] > 1 else -1, default=0
    )
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
    body = native_body.body(chain, (*stored, *made))
    cut = _cut(body, reductions, axis)
    whole = [r for r in reductions if r not in cut.of]
    sums: Program | None = None
    if chain.is_native and cut.is_flat and all([r.is_pairwise for r in reductions]):
        sums = native.sums(chain, tuple(stored), [chain.stores[r.place] for r in reductions])
        if sums is not None:  # in their order
            cut.of.sort(key=lambda r: sums.sums.index(chain.stores[r.place]))
    whole_sources = {r.source for r in whole}
    longest = max([last - first for first, last in cut.pieces])
    row = 1 if cut.is_flat or not walk.ndim else walk.numel // walk.sizes[axis]

    def run(inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]) -> None:
        given, results = [x._get_array() for x in inputs], [x._get_array() for x in outputs]
        kept = [
            body.temporary(walk.sizes, None, element) if value in whole_sources else None
            for value, element in zip(made, elements)
        ]
        pieces = [results[n] for n in places] + kept
        shapes = [() if cut.is_flat else results[r.place].shape for r in cut.of]
        parts = [
            None if r.stays else np.empty((len(cut.pieces), *shape), _part(r))
            for r, shape in zip(cut.of, shapes)
        ]
        if sums is not None and _summed(given, pieces, parts, scalars):
            pass
        elif len(cut.pieces) > 1 or cut.of:
            _run_pieces(given, pieces, results, parts, scalars)
        elif pieces:
            quiet.run(body.go, [*given], pieces, scalars, body.whole_pool(), walk.sizes)
        for r, found in zip(cut.of, parts):
            if found is not None:
                out = results[r.place]
                quiet.run(_end, r, found, out.reshape(()) if cut.is_flat else out)
        sources = {**dict(enumerate(given)), **dict(zip((*stored, *made), pieces))}
        for r in whole:
            quiet.run(r.whole, sources[r.source], r.axes, None, results[r.place], r.keepdim)
        for n, value in enumerate(chain.stores):
            if (first := chain.stores.index(value)) != n:
                results[n][...] = results[first]

    def _summed(given: list[Array], pieces: list[Any], parts: list[Any], scalars: Any) -> bool:
        """Whether a program has done it."""
        arrays = body.flat([*pieces[: len(stored)], *given])
        begins = {cpu.address_of(x) for x in given}
        assert sums is not None
        kept = [arrays[stored.index(x)] for x in sums.stores]
        if any([cpu.address_of(x) in begins for x in kept]):
            return False
        taken = [arrays[len(stored) + x] for x in sums.inputs]
        threads, numbers = cpu.free_threads(), sums.numbers(scalars)
        return not sums.run_sums([*kept, *taken], numbers, cut.pieces, parts, threads)

    def _part(r: _Reduction) -> Any:
        has_own = not r.is_exact and not cut.is_flat
        return r.whole.part if has_own else r.part

    def _end(r: _Reduction, parts: Array, out: Array) -> None:
        if r.is_exact:
            r.combine(parts, (0,), None, out, False)
        elif not cut.is_flat:
            r.whole.whole(parts, (0,), None, out, False)
        else:
            own = _own_blocks([r], walk.numel, walk.sizes[axis])
            sums = iter(parts)
            found = [_folded(sums, begin, end, body.block) for begin, end in own]
            if type(r.whole) is in_blocks:
                r.whole.whole(np.array(found), (0,), None, out, False)
            else:
                np.true_divide(found[0], r.divide_by, out, casting="unsafe")

    def _run_pieces(
        given: list[Array], pieces: list[Any], results: list[Array], parts: list[Any],
        scalars: list[Any],
    ) -> None:  # fmt: skip
        if cut.is_flat:
            given, at = body.flat(given), -1
            pieces = [None if x is None else body.flat([x])[0] for x in pieces]
        else:
            at = axis - walk.ndim

        def make() -> Callable[[int], None]:
            numel = longest * row
            pool = body.pool(numel if body.has_inline else max(row, min(numel, body.block)))
            memory = [
                None if x is not None else cpu.allocate(longest * row * element.itemsize)
                for x, element in zip(pieces[len(stored) :], elements)
            ]

            def work(number: int) -> None:
                first, last = cut.pieces[number]
                values = [parallel.part(x, at, first, last) for x in given]
                outs = [None if x is None else parallel.part(x, at, first, last) for x in pieces]
                if cut.is_flat:
                    sizes: tuple[int, ...] = (last - first,)
                else:
                    sizes = (*walk.sizes[:axis], last - first, *walk.sizes[axis + 1 :])
                for n, buffer in enumerate(memory, len(stored)):
                    if buffer is not None:
                        outs[n] = body.temporary(sizes, buffer, elements[n - len(stored)])
                quiet.run(_one, values, outs, sizes, number)

            def _one(values: Any, outs: Any, sizes: Any, number: int) -> None:
                first, last = cut.pieces[number]
                if body.has_inline:
                    body.go(values, outs, scalars, pool, sizes)
                    values = values[: len(given)]
                else:
                    body.serial(values, outs, scalars, pool, at)
                found = {**dict(enumerate(values)), **dict(zip((*stored, *made), outs))}
                for r, into in zip(cut.of, parts):
                    array = found[r.source]
                    if r.stays:
                        out = r.into(results[r.place], first, last)
                        r.loop(array, r.axes, None, out, r.keepdim)
                    elif r.is_exact:
                        keepdim = r.keepdim and not cut.is_flat
                        r.loop(array, r.axes, None, into[number, ...], keepdim)
                    elif cut.is_flat:
                        _add(array, None, into.dtype, into[number, ...], False)
                    else:
                        r.whole.block(array, r.axes, None, into[number, ...], r.keepdim)

            return work

        cpu.share(len(cut.pieces), cpu.get_num_threads(), make)

    return run
