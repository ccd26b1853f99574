"""Parts of a chain on the CPU, each one program of the compiled library.

A program runs blocks of its operands through all of its steps in the first-level cache, on the
library's threads (kernels/compiled/engine/chain.cpp). It uses the operators' own loops, so the bits
are the same. Operations without a loop in the library are separate steps between programs: NumPy
functions, random numbers, reductions of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...core.arguments import NUMBERS
from ...core.geometry import Geometry
from ...kernels import stub
from ...kernels.compiled import library
from ...runtime import cpu
from . import blocks
from ..chain import Chain, Instruction, Recorded

Array = Any
# The maximum number of steps in a program; with the casts between them there may be 128.
_LONGEST = 64


class Program(NamedTuple):
    """A chain as one call of the library, `run(*stores, *inputs, scalars, may_share)`, where stores
    and inputs are arrays. If the library declines, `run` returns False and has written nothing.
    stores: the distinct stored values. inputs: the values that the program reads. shapes: the shape
    in which the program takes each array; None for the array's own shape."""

    run: Callable[..., bool]
    stores: list[int]
    inputs: list[int]
    shapes: list[tuple[int, ...] | None]


class Part:
    """Steps `first` to `last` of a chain.

    inputs: the values that these steps read. stores: the values that other steps read. made: sizes
    and NumPy dtypes of the stores. run: a function `(*stores, *inputs, scalars, may_share)`. If it
    returns False, it has written nothing, and the steps must run one by one.
    """

    __slots__ = ("first", "last", "inputs", "stores", "made", "run")

    def __init__(self, chain: Chain, stores: tuple[int, ...], first: int, last: int) -> None:
        count, steps = len(chain.inputs), chain.instructions
        own = range(count + first, count + last)
        read = [x for step in steps[first:last] for x in step.operands if x >= 0]
        wanted = {*stores, *[x for step in steps[last:] for x in step.operands]}
        self.first: int = first
        self.last: int = last
        self.inputs: list[int] = [x for x in dict.fromkeys(read) if x not in own]
        self.stores: list[int] = [x for x in own if x in wanted]
        self.made: dict[int, tuple[tuple[int, ...], Any]] = {
            x: (steps[x - count].what.walk.sizes, chain.geometry(x).dtype.np) for x in self.stores
        }
        moves = self._moves(chain, own)
        done = [x for x in own if x not in moves]
        numbers = {x: n for n, x in enumerate([*self.inputs, *done])}
        numbers |= {x: numbers[source] for x, source in moves.items()}
        said = [_said(chain, steps[x - count], numbers) for x in done]
        self.run: Any = library.program(
            tuple([chain.geometry(x).dtype.code for x in self.inputs]),
            tuple([numbers[x] for x in self.stores]), tuple(said),
        )  # fmt: skip

    def _moves(self, chain: Chain, own: range) -> dict[int, int]:
        """The layout copies of computed values, each with its operand. The program stores the
        operand directly in the copy's layout, so no step is needed. A copy is left out if its
        operand is stored too."""
        found: dict[int, int] = {}
        count, taken = len(chain.inputs), {*self.stores}
        for x in own:
            what, operands = (
                chain.instructions[x - count].what,
                chain.instructions[x - count].operands,
            )
            if what.family != "copy" or what.kinds[0] is not what.result:
                continue
            source = found.get(operands[0], operands[0])
            if source in own and not (x in taken and source in taken):
                found[x] = source
                taken |= {source} if x in taken else set()
        return found


def _said(chain: Chain, step: Instruction, numbers: dict[int, int]) -> tuple[Any, ...]:
    """Return a step in the form that the library reads."""
    what = step.what
    operands = tuple([numbers.get(x, x) for x in step.operands])
    return what.family, what.loop, what.compute.code, what.result.code, operands, step.params


def parts(chain: Chain, stores: tuple[int, ...]) -> list[Part | int]:
    """Split a chain into programs and the numbers of instructions that no program can run."""
    found: list[Part | int] = []
    steps, first = chain.instructions, 0
    are_known = [is_known(chain, step) for step in steps]
    while first < len(steps):
        last, sizes = first, steps[first].what.walk.sizes
        while (
            last < len(steps) and last - first < _LONGEST and are_known[last]
            and steps[last].what.walk.sizes == sizes
        ):  # fmt: skip
            last += 1
        found += _built(chain, stores, first, last)
        if last == first:
            found.append(first)
        first = max(last, first + 1)
    return found


def _built(chain: Chain, stores: tuple[int, ...], first: int, last: int) -> list[Part | int]:
    """Return the steps as one program, or as several if one program cannot take all operands."""
    if last - first < 2:
        return [*range(first, last)]
    part = Part(chain, stores, first, last)
    if part.run is not None:
        return [part]
    middle = (first + last) // 2
    return _built(chain, stores, first, middle) + _built(chain, stores, middle, last)


def is_known(chain: Chain, step: Instruction) -> bool:
    """True if the library has this loop for these operands."""
    kinds = tuple([
        chain.geometry(x).dtype.code if x >= 0 else -1 for x in step.operands
    ])  # fmt: skip
    return _has_loop(step.what, kinds, len(step.params))


@cache
def _has_loop(what: Recorded, kinds: tuple[int, ...], n_params: int) -> bool:
    if what.takes_rows or what.part:
        return False
    if stub.registered(what.family, what.loop, "cpu") is not None:
        return False
    if what.family == "copy":
        if what.geometry.dtype.is_complex or what.kinds[0].is_complex:
            return False
    elif not stub.is_compiled(getattr(what.entry, "loop", None)):
        return False
    else:  # a loop may take an operand without dimensions as a number
        expected = tuple([-1 if kind in NUMBERS else kind.code for kind in what.kinds])
        if kinds != expected:
            return False
    dtypes = tuple([kind for kind in kinds if kind >= 0])
    places = iter(range(len(dtypes)))
    operands = tuple([-1 if kind < 0 else next(places) for kind in kinds])
    step = (
        what.family, what.loop, what.compute.code, what.result.code, operands, (-1,) * n_params
    )  # fmt: skip
    return library.program(dtypes, (len(dtypes),), (step,)) is not None


def whole(chain: Chain) -> Program | None:
    """The program of a whole chain without reductions; None if one program cannot run it."""
    found = parts(chain, chain.stores)
    if len(found) != 1 or not isinstance(found[0], Part):
        return None
    part = found[0]
    shapes: list[tuple[int, ...] | None] = [None] * (len(part.stores) + len(part.inputs))
    return Program(part.run, part.stores, part.inputs, shapes)


def body(chain: Chain, stores: tuple[int, ...], walk: Geometry | None = None) -> blocks.Body:
    """The elementwise part of a chain, with programs where possible."""
    found = parts(chain, stores)
    if any([isinstance(part, Part) for part in found]):
        return Body(chain, stores, found, walk)
    return blocks.Body(chain, stores, walk)


class Body(blocks.Body):
    """The elementwise part of a chain, partly run by programs. places: for each store of each
    program, its index among the outputs, or a negative number for a temporary; None for a value
    with one element per row."""

    __slots__ = ("parts", "places")

    def __init__(
        self, chain: Chain, stores: tuple[int, ...], found: list[Part | int],
        walk: Geometry | None = None,
    ) -> None:  # fmt: skip
        super().__init__(chain, stores, walk)
        self.parts: list[Part | int] = found
        self.places: dict[int, int | None] = self._placed(chain, stores)
        self.widest = max([self.widest, *[chain.geometry(x).dtype.itemsize for x in self.places]])

    def _placed(self, chain: Chain, stores: tuple[int, ...]) -> dict[int, int | None]:
        """Assign temporaries to values; a temporary is reused after the last part that reads its
        value."""
        count = len(chain.inputs)
        reads = [
            part.inputs if isinstance(part, Part) else chain.instructions[part].operands
            for part in self.parts
        ]
        last = {x: n for n, read in enumerate(reads) for x in read}
        found: dict[int, int | None] = {}
        free: list[int] = []
        for n, part in enumerate(self.parts):
            for x in part.stores if isinstance(part, Part) else ():
                if x in stores:
                    found[x] = stores.index(x)
                elif chain.instructions[x - count].what.walk.sizes != self.walk.sizes or (
                    chain.instructions[x - count].what.reduces is not None
                ):
                    found[x] = None
                else:
                    if not free:
                        self.n_temporaries += 1
                        free.append(~(self.n_temporaries - 1))
                    found[x] = free.pop()
            for x in {*reads[n]}:
                at = found.get(x)
                if last[x] == n and at is not None and at < 0:
                    free.append(at)
        return found

    def go(
        self, values: list[Array], outputs: list[Array], scalars: list[Any], pool: Any,
        sizes: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        """`go` of cpu/blocks.py, which runs the block again if a program declines."""
        if sizes is None:
            sizes = outputs[0].shape if outputs else ()
        begins = {cpu.address_of(x) for x in values}
        # If a program declines, its operands are read again, so they must not be overwritten.
        into = [
            x if cpu.address_of(x) not in begins else self.temporary(x.shape, None, x.dtype)
            for x in outputs
        ]
        if self._is_odd([*values], into, scalars, pool, sizes):
            return super().go(values, outputs, scalars, pool, sizes)
        for out, made in zip(outputs, into):
            if made is not out:
                out[...] = made
        self.copy(outputs)

    def _is_odd(
        self, values: list[Array], outputs: list[Array], scalars: list[Any], pool: Any,
        sizes: tuple[int, ...],
    ) -> bool:  # fmt: skip
        results: dict[int, list[Array]] = {}
        may_share = cpu.free_threads() > 1
        for part in self.parts:
            if not isinstance(part, Part):
                self.take(part, part + 1, values, outputs, scalars, pool, sizes, results)
                continue
            values += [None] * (part.last - part.first)
            for x in part.stores:
                values[x] = self._place(part, x, outputs, pool, sizes)
            arrays = [values[x] for x in (*part.stores, *part.inputs)]
            if not part.run(*arrays, scalars, may_share):
                return True
        return False

    def _place(
        self, part: Part, x: int, outputs: list[Array], pool: Any, sizes: tuple[int, ...]
    ) -> Array:
        at = self.places[x]
        if at is not None and at >= 0:
            return outputs[at]
        row, element = part.made[x]
        if at is None:
            return np.empty(blocks.of_row(sizes, row), element)
        return self.temporary(sizes, None if pool is None else pool[~at], element)
