"""The elementwise part of a chain on the CPU, bound to NumPy's loops and reused temporaries."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.geometry import Geometry
from ...iterator import parallel
from ...runtime import cpu
from ..chain import Chain

# The minimum number of elements in a block, because threads with shorter calls lose time passing
# the interpreter's lock; and the maximum as a multiple of it, because larger blocks exceed the
# cache.
# Over 4 Mi floats, chains of 2 to 16 operators with blocks of 2^16, 2^17, 2^18, 2^19 and 2^20: 1.0,
# 0.67, 0.54, 0.57 and 0.70 of the time, on two cores of 1 MiB.
BLOCK = 1 << 16
_TIMES = 4
Array = Any


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


class _Step:
    """An instruction with its loop and the places of its arrays. out: the index of the result among
    the outputs, or ~index among the temporaries. row: the sizes of a result with one element per
    row, with 1 along the rows; such a result has no temporary."""

    __slots__ = ("loop", "operands", "params", "element", "out", "row")

    def __init__(self, instruction: Any, out: int, walk: Geometry) -> None:
        what = instruction.what
        self.row = None if what.walk.sizes == walk.sizes else what.walk.sizes
        self.loop = instruction.what.entry.loop
        self.operands, self.params = instruction.operands, instruction.params
        self.element, self.out = instruction.what.geometry.dtype.np, out


class _Inline:
    """A reduction whose result later instructions read. Its block has whole rows. out: the index
    among the outputs, or -1 if the result is not stored."""

    __slots__ = ("loop", "source", "axes", "element", "out")

    def __init__(self, instruction: Any, out: int) -> None:
        entry = instruction.what.entry
        self.loop: Any = entry.run
        self.source, self.axes = instruction.operands[0], entry.axes
        self.element, self.out = instruction.what.geometry.dtype.np, out

    def made(self, values: list[Array], outputs: list[Array]) -> Array:
        array = values[self.source]
        if self.out >= 0:
            out = outputs[self.out]
        else:
            sizes = [1 if d in self.axes else n for d, n in enumerate(array.shape)]
            out = np.empty(sizes, self.element)
        self.loop(array, self.axes, None, out, True)
        return out


class _Rows:
    """An operator of rows.py. out: as of `_Step`, where its first result has the walk's sizes;
    further: of its other results, the place among the outputs, or -1."""

    __slots__ = ("block", "operands", "params", "element", "out", "further", "kinds", "row")

    def __init__(self, instruction: Any, out: int, further: list[int]) -> None:
        what = instruction.what
        self.block, self.out, self.further = what.entry.block, out, further
        self.operands, self.params = instruction.operands, instruction.params
        self.element = what.geometry.dtype.np
        self.row: Any = what.seen.sizes if what.reduces is not None else None
        self.kinds = [
            (x.geometry.sizes, x.geometry.dtype.np) for x in what.entry.plan.outputs[1:]
        ]  # fmt: skip

    def made(
        self, first: Array, values: list[Array], outputs: list[Array], scalars: list[Any],
        sizes: tuple[int, ...],
    ) -> list[Array]:  # fmt: skip
        """Arrays of all results of the operator."""
        outs = [first]
        for place, (row, element) in zip(self.further, self.kinds):
            outs.append(
                outputs[place] if place >= 0 else np.empty(of_row(sizes, row), element)
            )  # fmt: skip
        given = [values[x] for x in self.operands]
        self.block(given, outs, [scalars[-1 - x] for x in self.params])
        return outs


class _Further:
    """The second or a later result of an operator of rows.py."""

    __slots__ = ("of", "part", "element")

    def __init__(self, instruction: Any) -> None:
        self.of, self.part = instruction.operands[0], instruction.what.part
        self.element = instruction.what.geometry.dtype.np


def of_row(sizes: tuple[int, ...], row: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of a value with one element per row, for a block of these sizes."""
    return tuple([1 if m == 1 else n for n, m in zip(sizes, row)])


class Body:
    """The elementwise part of a chain, bound to arrays of one shape, a part of the walk; and the
    reductions of rows whose results it reads.

    stores: the stored values, in the order of the outputs; walk: their layout, if it differs from
    the chain's. order: the walk's dimensions, slowest first. is_flat: all operands have the walk's
    layout or one element.
    """

    __slots__ = (
        "walk", "order", "steps", "n_temporaries", "copies", "widest", "is_flat", "has_inline",
        "block",
    )  # fmt: skip
    n_temporaries: int

    def __init__(
        self, chain: Chain, stores: tuple[int, ...], walk: Geometry | None = None
    ) -> None:  # fmt: skip
        is_elsewhere = walk is not None
        walk = self.walk = walk or chain.walk
        self.block: int = block_of(walk.numel)
        self.steps, self.n_temporaries = _steps(chain, stores)
        self.copies = [
            (place, stores.index(value)) for place, value in enumerate(stores)
            if stores.index(value) != place
        ]  # fmt: skip
        self.order: tuple[int, ...] = tuple(
            sorted(range(walk.ndim), key=lambda d: -walk.strides[d])
        )
        self.has_inline: bool = any([
            type(x) in (_Inline, _Rows) or type(x) is _Step and x.row is not None
            for x in self.steps
        ])  # fmt: skip
        self.widest: int = max([x.element.itemsize for x in self.steps if x is not None], default=1)
        count = len(chain.inputs)
        stored = [
            chain.geometry(x) for x in stores
            if not is_elsewhere and chain.instructions[x - count].what.reduces is None
        ]  # fmt: skip
        others = [
            x for x in (*chain.inputs, *stored)
            if x.numel > 1 and (x.sizes != walk.sizes or x.strides != walk.strides)
        ]  # fmt: skip
        self.is_flat: bool = not others

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
        self.take(0, len(self.steps), values, outputs, scalars, pool, sizes, {})
        self.copy(outputs)

    def copy(self, outputs: list[Array]) -> None:
        """Copy values that are stored twice."""
        for to, source in self.copies:
            outputs[to][...] = outputs[source]

    def take(
        self, first: int, last: int, values: list[Array], outputs: list[Array], scalars: list[Any],
        pool: Any, sizes: tuple[int, ...], results: dict[int, list[Array]],
    ) -> None:  # fmt: skip
        """Run some of the steps. results: the steps with several results, by the number of the
        first result."""
        for step in self.steps[first:last]:
            kind = type(step)
            if kind is not _Step and kind is not _Rows:
                if kind is _Further:
                    values.append(results[step.of][step.part])
                else:
                    values.append(None if step is None else step.made(values, outputs))
                continue
            if step.out >= 0:
                out = outputs[step.out]
            elif step.row is not None:
                out = np.empty(of_row(sizes, step.row), step.element)
            else:
                memory = None if pool is None else pool[~step.out]
                out = self.temporary(sizes, memory, step.element)
            if kind is _Rows:
                results[len(values)] = step.made(out, values, outputs, scalars, sizes)
                values.append(out)
                continue
            given = [values[x] if x >= 0 else scalars[-1 - x] for x in step.operands]
            step.loop(*given, *[scalars[-1 - x] for x in step.params], out)
            values.append(out)

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


def _steps(chain: Chain, stores: tuple[int, ...]) -> tuple[list[Any], int]:
    """Return the instructions with the places of their results (None for a reduction), and the
    number of temporaries. After the last instruction that reads a temporary, later results reuse
    it."""
    count = len(chain.inputs)
    last_read = {
        x: n for n, step in enumerate(chain.instructions) for x in step.operands if x >= count
    }
    steps: list[Any] = []
    free: list[int] = []
    used = 0

    further = {
        (x.operands[0], x.what.part): count + n for n, x in enumerate(chain.instructions)
        if x.what.part
    }  # fmt: skip

    def place_of(x: int | None) -> int:
        return stores.index(x) if x in stores else -1

    def is_temporary(x: int) -> bool:
        step = steps[x - count]
        return type(step) in (_Step, _Rows) and step.row is None and step.out < 0

    for n, instruction in enumerate(chain.instructions):
        what, value = instruction.what, count + n
        if what.part:
            steps.append(_Further(instruction))
            continue
        is_rows = what.whole is not None
        is_reduction = what.reduces is not None and not is_rows
        if is_reduction and value not in last_read:
            steps.append(None)
            continue
        ending = {x for x in instruction.operands if x >= count and last_read[x] == n}
        if is_reduction:
            steps.append(_Inline(instruction, place_of(value)))
            free += [steps[x - count].out for x in ending if is_temporary(x)]
            continue
        has_walk = what.reduces is None and what.walk.sizes == chain.walk.sizes
        if has_walk and not is_rows and isinstance(what.entry.loop, np.ufunc):
            for x in ending:  # the result may overwrite an operand that ends here
                if is_temporary(x) and chain.geometry(x).dtype is what.result:
                    free.append(steps[x - count].out)
                    ending.remove(x)
                    break
        place = place_of(value)
        if place < 0 and has_walk:
            if free:
                place = free.pop()
            else:
                used, place = used + 1, ~used
        if is_rows:
            others = range(1, len(what.entry.plan.outputs))
            places = [place_of(further.get((value, part))) for part in others]
            steps.append(_Rows(instruction, place, places))
        else:
            steps.append(_Step(instruction, place, chain.walk))
        free += [steps[x - count].out for x in ending if is_temporary(x)]
    return steps, used
