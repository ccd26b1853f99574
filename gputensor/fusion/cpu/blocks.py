"""The steps of a chain on the CPU over a block of its operands: programs of the library, and loops
of single operators between them, on temporaries that are reused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...core.geometry import Geometry
from ...iterator import parallel
from ...runtime import cpu
from ..chain import Chain
from . import programs

# The minimum number of elements in a block, and the maximum as a multiple of it. With smaller
# blocks, threads lose time passing the interpreter's lock; larger ones exceed the cache. Over 4 Mi
# floats, chains of 2 to 16 operators with blocks of 2^16, 2^17, 2^18, 2^19 and 2^20: 1.0, 0.67,
# 0.54, 0.57 and 0.70 of the time, on two cores of 1 MiB.
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
# Unused temporaries by size; the number kept of each size; the largest size kept.
_free: dict[int, list[Array]] = {}
_KEPT, _LONGEST = 8, 1 << 22
# NumPy's new arrays below this number of bytes reuse memory pages.
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


class _New(NamedTuple):
    """Memory that a step needs for a result that is not stored. place: the array's index in the
    list of values. temporary: the index of a temporary; None for new memory. row: for a result with
    one or a few elements per row, its sizes, which are 1 along the rows; None for the block's
    sizes."""

    place: int
    temporary: int | None
    row: tuple[int, ...] | None
    element: np.dtype[Any]


class _Step(NamedTuple):
    """A program of several instructions, or the loop of one instruction. run: takes the values at
    the places `operands`, which include results; returns False if a program declines. new: memory
    for results. otherwise: the single steps that replace a program that declines.
    """

    run: Callable[..., object]
    operands: list[int]
    new: list[_New]
    otherwise: Sequence[Any] = ()


def order_of(walk: Geometry) -> tuple[int, ...]:
    """The dimensions, slowest first."""
    return tuple(sorted(range(walk.ndim), key=lambda d: -walk.strides[d]))


def dense(sizes: Sequence[int], order: Sequence[int], memory: Array, element: Any) -> Array:
    """Return an array of these sizes, dense in this order of dimensions, in `memory` or in new
    memory.
    """
    inner = [sizes[d] for d in order]
    if memory is None:
        array = np.empty(inner, element)
    else:
        array = memory[: prod(sizes) * element.itemsize].view(element).reshape(inner)
    return array.transpose([order.index(d) for d in range(len(order))])


def of_row(sizes: tuple[int, ...], row: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of a value with one element per row, for a block of these sizes."""
    return tuple([1 if m == 1 else n for n, m in zip(sizes, row)])


class Body:
    """The steps of a chain, to run on arrays of one shape that are parts of the operands. They
    include a reduction if it is in `stores`, or if other instructions read its result.

    stores: the stored values, in the order of the outputs; walk: their layout, if it differs from
    the chain's. order: the walk's dimensions, slowest first. is_flat: all operands have the walk's
    layout or one element. has_rows: a block must have whole rows.
    """

    __slots__ = (
        "walk", "order", "steps", "n_temporaries", "copies", "widest", "is_flat", "has_rows",
        "block", "unmade", "_is_short",
    )  # fmt: skip
    n_temporaries: int

    def __init__(
        self, chain: Chain, stores: tuple[int, ...], walk: Geometry | None = None
    ) -> None:  # fmt: skip
        self.is_flat: bool = is_flat(chain, stores, walk)
        walk = self.walk = walk or chain.walk
        self.block: int = block_of(walk.numel)
        made = _Steps(chain, stores)
        self.steps, self.n_temporaries, self.widest = made.steps, made.used, made.widest
        self.copies = [
            (place, stores.index(value)) for place, value in enumerate(stores)
            if stores.index(value) != place
        ]  # fmt: skip
        self.order: tuple[int, ...] = order_of(walk)
        self.has_rows: bool = any([
            x.what.takes_rows or x.what.walk.sizes != chain.walk.sizes for x in chain.instructions
        ])  # fmt: skip
        self._is_short: bool = walk.numel <= BLOCK
        self.unmade = [None] * (len(chain.instructions) + made.extra)

    def pool(self, numel: int) -> Pool:
        """Temporaries for blocks of this number of elements."""
        return Pool(self.n_temporaries, numel * self.widest)

    def whole_pool(self) -> Pool | None:
        """Temporaries for all elements at once; None if new memory costs no more."""
        numel = self.walk.numel
        return self.pool(numel) if numel * self.widest >= _LONG else None

    def temporary(self, sizes: tuple[int, ...], memory: Array, element: np.dtype[Any]) -> Array:
        """An array of these sizes, dense in the walk's order, in `memory` or in new memory."""
        is_flat = len(sizes) != len(self.order) or self.walk.is_row_major
        return dense(sizes, range(len(sizes)) if is_flat else self.order, memory, element)

    def go(
        self, values: list[Array], outputs: list[Array], scalars: list[Any], pool: Any,
        sizes: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        """Run all steps over arrays of one shape: `sizes`, or the first output's shape."""
        if sizes is None:
            sizes = outputs[0].shape if outputs else ()
        may_share = self._is_short or cpu.free_threads() > 1
        found = [*values, *self.unmade, *scalars, *outputs, scalars, may_share]
        self._run(self.steps, found, pool, sizes)
        for to, source in self.copies:
            outputs[to][...] = outputs[source]

    def _run(
        self, steps: Sequence[_Step], found: Arrays, pool: Any, sizes: tuple[int, ...]
    ) -> None:
        is_plain = pool is None and self.walk.is_row_major
        for run, operands, new, otherwise in steps:
            for place, at, row, element in new:
                if row is not None:
                    found[place] = np.empty(of_row(sizes, row), element)
                elif is_plain:
                    found[place] = np.empty(sizes, element)
                else:
                    memory = None if pool is None or at is None else pool[at]
                    found[place] = self.temporary(sizes, memory, element)
            if run(*[found[n] for n in operands]) is False:
                self._run(otherwise, found, pool, sizes)

    def serial(
        self, values: list[Array], outputs: list[Array], scalars: list[Any], pool: Any, axis: int
    ) -> None:
        """Run `go` block by block in this thread. axis: the dimension that is cut into blocks,
        counted from the end; unused if all operands are contiguous."""
        if not outputs:
            return
        numel, rows = outputs[0].size, outputs[0].shape[axis] if outputs[0].ndim else 1
        if numel <= self.block:
            return self.go(values, outputs, scalars, pool)
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


class _Steps:
    """The steps of a chain: programs where possible. After the last step that reads a temporary,
    later results reuse it. used: the number of temporaries; widest: the size of the largest
    element; extra: the number of results that nothing reads.

    Places in the list of values: the chain's values, results that nothing reads, numbers, outputs,
    the list of all numbers, and whether a program may share its work with other threads."""

    def __init__(self, chain: Chain, stores: tuple[int, ...]) -> None:
        self.chain, self.stores, count = chain, stores, len(chain.inputs)
        self.used, self.extra, self.widest = 0, 0, 1
        self.free: list[int] = []
        self.temporaries: dict[int, int] = {}
        parts = [x for x in programs.parts(chain, stores) if self._is_step(x)]
        reads = [
            {*(x.inputs if isinstance(x, programs.Part) else chain.instructions[x].operands)}
            for x in parts
        ]
        self.last = {x: n for n, read in enumerate(reads) for x in read}
        self.further = {
            (x.operands[0], x.what.part): n for n, x in enumerate(chain.instructions, count)
            if x.what.part
        }  # fmt: skip
        self.extra = sum([
            (value, part) not in self.further
            for value, x in enumerate(chain.instructions, count) if x.what.whole is not None
            for part in range(1, len(x.what.entry.plan.outputs))
        ])  # fmt: skip
        self.numbers = count + len(chain.instructions) + self.extra
        self.unread = self.numbers
        self.steps: list[_Step] = []
        for n, part in enumerate(parts):
            ending = [x for x in reads[n] if x in self.temporaries and self.last[x] == n]
            if isinstance(part, programs.Part):
                self.steps.append(self._of_program(part))
            else:
                self.steps.append(self._of_one(part, ending))
            self.free += [self.temporaries[x] for x in ending]

    def _is_step(self, part: programs.Part | int) -> bool:
        """False for a second or later result of an operator, and for a reduction whose result no
        step here needs.
        """
        if isinstance(part, programs.Part):
            return True
        what, value = self.chain.instructions[part].what, len(self.chain.inputs) + part
        read = {x for step in self.chain.instructions for x in step.operands}
        is_end = what.reduces is not None and what.whole is None
        return not what.part and (not is_end or value in read or value in self.stores)

    def _place(self, x: int) -> int:
        if x in self.stores:
            return self.numbers + len(self.chain.scalars) + self.stores.index(x)
        return x if x >= 0 else self.numbers + ~x

    def _new(self, value: int | None, row: Any, element: np.dtype[Any]) -> list[_New]:
        """Return the memory of a result; an empty list if it is one of the stores."""
        self.widest = max(self.widest, element.itemsize)
        if value in self.stores:
            return []
        if value is None:
            self.unread -= 1
            return [_New(self.unread, None, row, element)]
        if row is not None:
            return [_New(value, None, row, element)]
        if not self.free:
            self.free.append(self.used)
            self.used += 1
        at = self.temporaries[value] = self.free.pop()
        return [_New(value, at, None, element)]

    def _elementwise(self, value: int, is_alone: bool = False) -> list[_New]:
        """The memory of a pointwise operator's result. is_alone: use no temporary."""
        what = self.chain.instructions[value - len(self.chain.inputs)].what
        row, element = what.walk.sizes, what.result.np
        if row != self.chain.walk.sizes:
            return self._new(value, row, element)
        if is_alone:
            return [] if value in self.stores else [_New(value, None, None, element)]
        return self._new(value, None, element)

    def _of_program(self, part: programs.Part) -> _Step:
        new = [x for value in part.stores for x in self._elementwise(value)]
        operands = [self._place(x) for x in (*part.stores, *part.inputs)]
        end = self.numbers + len(self.chain.scalars) + len(self.stores)
        otherwise = []
        for n in range(part.first, part.last):
            step, value = self.chain.instructions[n], len(self.chain.inputs) + n
            own = [] if value in part.stores else self._elementwise(value, True)
            places = [self._place(x) for x in (*step.operands, *step.params, value)]
            otherwise.append(_Step(step.what.entry.loop, places, own))
        return _Step(part.run, [*operands, end, end + 1], new, otherwise)

    def _of_one(self, place: int, ending: list[int]) -> _Step:
        """The step of one instruction. ending: the temporaries that it reads last."""
        step, value = self.chain.instructions[place], len(self.chain.inputs) + place
        what, entry = step.what, step.what.entry
        operands = [self._place(x) for x in (*step.operands, *step.params)]
        row, element = what.seen.sizes, what.result.np
        if what.whole is not None:
            new = self._new(value, row if what.reduces is not None else None, element)
            results = [self._place(value)]
            for n, x in enumerate(entry.plan.outputs[1:], 1):
                further = self.further.get((value, n))
                new += self._new(further, x.geometry.sizes, x.geometry.dtype.np)
                results.append(self.unread if further is None else self._place(further))
            run = _of_rows(entry.block, len(step.operands), len(operands))
            return _Step(run, [*operands, *results], new)
        operands.append(self._place(value))
        if what.reduces is not None:
            run = _reducing(entry.run, entry.axes, entry.keepdim)
            return _Step(run, operands, self._new(value, row, element))
        if isinstance(entry.loop, np.ufunc):
            for x in ending:  # the result may overwrite a temporary that no later step reads
                if self.chain.geometry(x).dtype is what.result:
                    self.free.append(self.temporaries[x])
                    ending.remove(x)
                    break
        return _Step(entry.loop, operands, self._elementwise(value))


def _of_rows(block: Callable[..., None], n_inputs: int, n_given: int) -> Callable[..., None]:
    def run(*found: Any) -> None:
        given, numbers, results = found[:n_inputs], found[n_inputs:n_given], found[n_given:]
        block([*given], [*results], [*numbers])

    return run


def _reducing(reduce: Callable[..., None], axes: Any, keepdim: bool) -> Callable[..., None]:
    return lambda x, out: reduce(x, axes, None, out, keepdim)


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
