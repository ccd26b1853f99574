"""The steps of a chain on the CPU over a block of its operands: programs of the library, and loops
of single operators between them, on temporaries that are reused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.geometry import Geometry
from ...iterator import parallel
from ...runtime import cpu
from ..chain import Chain
from . import programs

# The minimum number of elements in a block, because threads with shorter calls lose time passing
# the interpreter's lock; and the maximum as a multiple of it, because larger blocks exceed the
# cache.
# Over 4 Mi floats, chains of 2 to 16 operators with blocks of 2^16, 2^17, 2^18, 2^19 and 2^20: 1.0,
# 0.67, 0.54, 0.57 and 0.70 of the time, on two cores of 1 MiB.
BLOCK = 1 << 16
_TIMES = 4
Array = Any
Arrays = list[Any]


def block_of(numel: int) -> int:
    """Elements in a block, chosen so that all threads get equal numbers of blocks."""
    threads = cpu.get_num_threads()
    rounds = max(1, -(-numel // (_TIMES * BLOCK * threads)))
    fair = -(-numel // (rounds * threads))
    even = min(_EVEN, BLOCK)
    return max(BLOCK, -(-fair // even) * even)


# Blocks begin at multiples of a loop's vector, of a page, and of a generator's draw.
_EVEN = 1 << 12
# Unused temporaries by size: the number kept of each, and the largest size kept.
_free: dict[int, list[Array]] = {}
_KEPT, _LONGEST = 8, 1 << 22
# Below this number of bytes, a loop's new array has no new pages.
_LONG = 1 << 15


class Pool(list[Array]):
    """Temporaries that later chains reuse, because the first access to a new page costs more than a
    loop's work on it."""

    __slots__ = ()
    free = _free

    def __init__(self, count: int, nbytes: int) -> None:
        size = 1 << max(nbytes - 1, 1).bit_length()
        free = _free.get(size, [])
        for _ in range(count):
            try:
                self.append(free.pop())
            except IndexError:
                self.append(cpu.allocate(size))

    def __del__(self) -> None:
        for memory in self:
            free = self.free.setdefault(memory.size, [])
            if memory.size <= _LONGEST and len(free) < _KEPT:
                free.append(memory)


class _Made(NamedTuple):
    """A result of a step. value: its number; None if nothing reads it. row: the sizes of a result
    with one element, or a few, per row, with 1 along the rows; None for a result with the block's
    sizes."""

    value: int | None
    row: tuple[int, ...] | None
    element: np.dtype[Any]


class _Step:
    """A program of several instructions, or the loop of one. run: takes the lists of operands,
    results and numbers; False if a program declines. params: the numbers; None for all. places: of each result, the index among the
    outputs, ~index among the temporaries, or None for new memory. otherwise: a program's
    instructions."""

    __slots__ = ("run", "operands", "params", "made", "places", "otherwise", "overwrites")

    def __init__(
        self, run: Callable[[Arrays, Arrays, list[Any]], object], operands: Sequence[int],
        params: Sequence[int] | None, made: list[_Made], overwrites: bool = False,
        otherwise: Sequence[_Step] = (),
    ) -> None:  # fmt: skip
        self.run, self.operands, self.params, self.made = run, operands, params, made
        self.overwrites, self.otherwise = overwrites, otherwise
        self.places: list[int | None] = [None] * len(made)


def of_row(sizes: tuple[int, ...], row: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of a value with one element per row, for a block of these sizes."""
    return tuple([1 if m == 1 else n for n, m in zip(sizes, row)])


class Body:
    """The steps of a chain, bound to arrays of one shape, a part of the walk. Reductions are among
    them if they are in `stores`, or if other instructions read their results.

    stores: the stored values, in the order of the outputs; walk: their layout, if it differs from
    the chain's. order: the walk's dimensions, slowest first. is_flat: all operands have the walk's
    layout or one element. has_rows: a block must have whole rows.
    """

    __slots__ = (
        "walk", "order", "steps", "n_temporaries", "copies", "widest", "is_flat", "has_rows",
        "block", "_unmade",
    )  # fmt: skip
    n_temporaries: int

    def __init__(
        self, chain: Chain, stores: tuple[int, ...], walk: Geometry | None = None
    ) -> None:  # fmt: skip
        self.is_flat: bool = is_flat(chain, stores, walk)
        walk = self.walk = walk or chain.walk
        self.block: int = block_of(walk.numel)
        self.steps = _steps(chain, stores)
        self.n_temporaries = _place(chain, stores, self.steps)
        self.copies = [
            (place, stores.index(value)) for place, value in enumerate(stores)
            if stores.index(value) != place
        ]  # fmt: skip
        self.order: tuple[int, ...] = tuple(
            sorted(range(walk.ndim), key=lambda d: -walk.strides[d])
        )
        self.has_rows: bool = any([
            x.what.takes_rows or x.what.walk.sizes != chain.walk.sizes for x in chain.instructions
        ])  # fmt: skip
        made = [x.element.itemsize for step in self.steps for x in step.made]
        self.widest: int = max(made, default=1)
        self._unmade = [None] * len(chain.instructions)

    def pool(self, numel: int) -> Pool:
        """Temporaries for blocks of this number of elements."""
        return Pool(self.n_temporaries, numel * self.widest)

    def whole_pool(self) -> Pool | None:
        """Temporaries for all elements at once; None if new memory costs no more."""
        numel = self.walk.numel
        return self.pool(numel) if numel * self.widest >= _LONG else None

    def temporary(self, sizes: tuple[int, ...], memory: Array, element: np.dtype[Any]) -> Array:
        """An array of these sizes, dense in the walk's order, over a buffer or new."""
        order = self.order
        inner = tuple([sizes[d] for d in order]) if len(sizes) == len(order) else sizes
        if memory is None:
            array = np.empty(inner, element)
        else:
            numel = 1
            for size in sizes:
                numel *= size
            array = memory[: numel * element.itemsize].view(element).reshape(inner)
        if inner is sizes or self.walk.is_row_major:
            return array
        return array.transpose([order.index(d) for d in range(len(order))])

    def go(
        self, values: list[Array], outputs: list[Array], scalars: list[Any], pool: Any,
        sizes: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        """Run all steps over arrays of one shape: `sizes`, or the first output's shape."""
        if sizes is None:
            sizes = outputs[0].shape if outputs else ()
        values += self._unmade
        for step in self.steps:
            if self._take(step, values, outputs, scalars, pool, sizes) is False:
                for one in step.otherwise:
                    self._take(one, values, outputs, scalars, pool, sizes)
        for to, source in self.copies:
            outputs[to][...] = outputs[source]

    def _take(
        self, step: _Step, values: list[Array], outputs: list[Array], scalars: list[Any], pool: Any,
        sizes: tuple[int, ...],
    ) -> object:  # fmt: skip
        outs = []
        for (value, row, element), at in zip(step.made, step.places):
            if at is not None and at >= 0:
                out = outputs[at]
            elif row is not None:
                out = np.empty(of_row(sizes, row), element)
            else:
                memory = None if pool is None or at is None else pool[~at]
                out = self.temporary(sizes, memory, element)
            if value is not None:
                values[value] = out
            outs.append(out)
        given = [values[x] if x >= 0 else scalars[~x] for x in step.operands]
        params = scalars if step.params is None else [scalars[~x] for x in step.params]
        return step.run(given, outs, params)

    def serial(
        self, values: list[Array], outputs: list[Array], scalars: list[Any], pool: Any, axis: int
    ) -> None:
        """Run `go` block by block in this thread. axis: the dimension that is cut into blocks,
        counted from the end; unused if all operands are contiguous."""
        if not outputs:
            return
        numel, rows = outputs[0].size, outputs[0].shape[axis] if outputs[0].ndim else 1
        if numel <= self.block:
            return self.go([*values], outputs, scalars, pool)
        step = max(1, self.block * rows // numel)
        if self.is_flat:
            values, outputs, rows, step = self.flat(values), self.flat(outputs), numel, self.block
            axis = -1
        for first in range(0, rows, step):
            parts = [parallel.part(x, axis, first, first + step) for x in values]
            into = [parallel.part(x, axis, first, first + step) for x in outputs]
            self.go(parts, into, scalars, pool)

    def flat(self, arrays: list[Array]) -> list[Array]:
        """Return operands as 1-d arrays. An operand with one element is returned unchanged."""
        return [
            x.reshape(1) if x.size == 1
            else x if x.ndim == 1
            else x.transpose(self.order).reshape(-1)
            for x in arrays
        ]  # fmt: skip


def along(shape: Geometry) -> int:
    """Return the dimension with the smallest stride."""
    strides = [s if n > 1 and s else shape.extent for n, s in zip(shape.sizes, shape.strides)]
    return strides.index(min(strides))


def is_flat(chain: Chain, stores: tuple[int, ...], walk: Geometry | None = None) -> bool:
    """True if a chain's operands all have the walk's layout or one element. walk: the layout of the
    stored values, if it differs from the chain's."""
    count, to = len(chain.inputs), walk or chain.walk
    stored = [
        chain.geometry(x) for x in stores
        if walk is None and chain.instructions[x - count].what.reduces is None
    ]  # fmt: skip
    return all([
        x.numel <= 1 or x.sizes == to.sizes and x.strides == to.strides
        for x in (*chain.inputs, *stored)
    ])  # fmt: skip


def _steps(chain: Chain, stores: tuple[int, ...]) -> list[_Step]:
    """Return the steps of a chain: programs where possible."""
    read = {x for step in chain.instructions for x in step.operands}
    found = []
    for part in programs.parts(chain, stores):
        if isinstance(part, programs.Part):
            found.append(_of_program(chain, part))
            continue
        what, value = chain.instructions[part].what, len(chain.inputs) + part
        is_end = what.reduces is not None and what.whole is None
        if not what.part and (not is_end or value in read or value in stores):
            found.append(_of_one(chain, part))
    return found


def _of_program(chain: Chain, part: programs.Part) -> _Step:
    call = part.run

    def run(given: Arrays, outs: Arrays, scalars: list[Any]) -> object:
        return call(*outs, *given, scalars, cpu.free_threads() > 1)

    made = [_made(chain, x) for x in part.stores]
    otherwise = [_of_one(chain, n) for n in range(part.first, part.last)]
    return _Step(run, part.inputs, None, made, otherwise=otherwise)


def _of_one(chain: Chain, place: int) -> _Step:
    """Return the step of one instruction."""
    step, value = chain.instructions[place], len(chain.inputs) + place
    what, entry = step.what, step.what.entry
    if what.whole is not None:
        further = {
            x.what.part: n for n, x in enumerate(chain.instructions, len(chain.inputs))
            if x.what.part and x.operands[0] == value
        }  # fmt: skip
        made = [_Made(value, what.seen.sizes if what.reduces else None, what.result.np)]
        made += [
            _Made(further.get(n), x.geometry.sizes, x.geometry.dtype.np)
            for n, x in enumerate(entry.plan.outputs[1:], 1)
        ]
        return _Step(entry.block, step.operands, step.params, made)
    if what.reduces is not None:
        reduce, axes, keepdim = entry.run, entry.axes, entry.keepdim

        def run(given: Arrays, outs: Arrays, scalars: list[Any]) -> None:
            reduce(given[0], axes, None, outs[0], keepdim)

        return _Step(run, step.operands, (), [_Made(value, what.seen.sizes, what.result.np)])
    loop, has_params = entry.loop, bool(step.params)

    def run_loop(given: Arrays, outs: Arrays, params: list[Any]) -> None:
        if has_params:
            given += params
        loop(*given, outs[0])

    overwrites = isinstance(loop, np.ufunc)
    return _Step(run_loop, step.operands, step.params, [_made(chain, value)], overwrites)


def _made(chain: Chain, value: int) -> _Made:
    """An elementwise result."""
    what = chain.instructions[value - len(chain.inputs)].what
    row = None if what.walk.sizes == chain.walk.sizes else what.walk.sizes
    return _Made(value, row, what.geometry.dtype.np)


def _place(chain: Chain, stores: tuple[int, ...], steps: list[_Step]) -> int:
    """Choose the memory of each step's results; return the number of temporaries. After the last
    step that reads a temporary, later results reuse it."""
    last = {x: n for n, step in enumerate(steps) for x in step.operands}
    places: dict[int, int] = {}
    free: list[int] = []
    used = 0
    for n, step in enumerate(steps):
        ending = [x for x in {*step.operands} if x in places and last[x] == n]
        if step.overwrites:  # the result may overwrite an operand that ends here
            for x in ending:
                if chain.geometry(x).dtype.np == step.made[0].element:
                    free.append(places[x])
                    ending.remove(x)
                    break
        for k, (value, row, _) in enumerate(step.made):
            if value in stores:
                step.places[k] = stores.index(value)
            elif row is None and value is not None:
                if not free:
                    used += 1
                    free.append(~(used - 1))
                step.places[k] = places[value] = free.pop()
        free += [places[x] for x in ending]
    return used
