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

from ...core.arguments import NUMBERS
from ...kernels import stub
from ...kernels.compiled import library
from ..chain import Chain, Instruction, Recorded

# The maximum number of steps in a program; with the casts between steps, the library allows 128.
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

    inputs: the values that these steps read. stores: the values that other steps read. run: a
    function `(*stores, *inputs, scalars, may_share)`. If it returns False, it has written nothing,
    and the steps must run one by one.
    """

    __slots__ = ("first", "last", "inputs", "stores", "run")

    def __init__(self, chain: Chain, stores: tuple[int, ...], first: int, last: int) -> None:
        count, steps = len(chain.inputs), chain.instructions
        own = range(count + first, count + last)
        read = [x for step in steps[first:last] for x in step.operands if x >= 0]
        wanted = {*stores, *[x for step in steps[last:] for x in step.operands]}
        self.first: int = first
        self.last: int = last
        self.inputs: list[int] = [x for x in dict.fromkeys(read) if x not in own]
        self.stores: list[int] = [x for x in own if x in wanted]
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
        """Layout copy -> its operand, for copies of computed values.

        The program stores the operand directly in the copy's layout, so the copy needs no step. If
        the operand is stored too, the copy is not listed.
        """
        found: dict[int, int] = {}
        count, taken = len(chain.inputs), {*self.stores}
        for x in own:
            step = chain.instructions[x - count]
            if not step.what.is_move:
                continue
            source = found.get(step.operands[0], step.operands[0])
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
