"""Parts of a chain on the CPU, each one program of the compiled library.

A program runs blocks of its operands through all of its steps in the first-level cache, on the
library's threads (kernels/compiled/engine/chain.cpp). It uses the operators' own loops, so the bits
are the same. Operators without a loop in the library are separate stages between programs: NumPy
functions, random numbers, reductions of rows. So are copies to another layout for which the copy
loop is faster, because it reads and writes memory in long runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from ...core.arguments import NUMBERS
from ...core.geometry import Geometry
from ...kernels import stub
from ...kernels.compiled import library
from ..chain import Chain, Instruction, Recorded
from ..stages import Stage, alone

# The maximum number of steps in a program; with the casts between steps, the library allows 128.
_LONGEST = 64
# A program itself copies this number of elements to another layout, and runs of at least `_ALIKE`
# elements whose neighbours are up to `_NEAR` bytes apart in the operand.
_FEW, _ALIKE, _NEAR = 1 << 16, 256, 16


class Program(NamedTuple):
    """A chain as one call of the library, `run(*stores, *inputs, scalars, may_share)`, where stores
    and inputs are arrays. If the library declines, `run` returns False and has written nothing.
    stores: the distinct stored values. inputs: the values that the program reads. shapes: the shape
    in which the program takes each array; None for the array's own shape."""

    run: Callable[..., bool]
    stores: list[int]
    inputs: list[int]
    shapes: list[tuple[int, ...] | None]

    def stage(self, steps: Sequence[int]) -> Stage:
        """Return a stage that runs the program. steps: the results of its operators."""
        run_program, shapes = self.run, self.shapes
        is_shaped = any([x is not None for x in shapes])

        def run(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> bool:
            arrays = [x._get_array() for x in (*outputs, *inputs)]
            if is_shaped:
                arrays = [
                    x if shape is None else x.reshape(shape) for x, shape in zip(arrays, shapes)
                ]
            return run_program(*arrays, scalars, True)

        return Stage(self.inputs, self.stores, run, steps)


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

    def program(self) -> Program:
        return Program(
            self.run, self.stores, self.inputs, [None] * (len(self.stores) + len(self.inputs))
        )

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
    moves = _moved_apart(chain)
    are_known = [n not in moves and is_known(chain, step) for n, step in enumerate(steps)]
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


def stages(chain: Chain) -> list[Stage]:
    """Return the stages of a chain: programs, and operators without a program."""
    count, found = len(chain.inputs), list[Stage]()
    casts = [x for x in chain.instructions if not x.what.is_move]
    if len(chain.stores) == 1 and len(casts) < 2 and all([x.what.family == "copy" for x in casts]):
        # the copy loop casts and changes the layout at once
        return [alone(chain, chain.stores[0])._replace(takes=[0])]
    for part in parts(chain, chain.stores):
        if isinstance(part, Part):
            found.append(part.program().stage(range(count + part.first, count + part.last)))
        elif not chain.instructions[part].what.part:
            found.append(alone(chain, count + part))
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
    return found[0].program()


# --- copies to another layout ---------------------------------------------------------------------


def _moved_apart(chain: Chain) -> set[int]:
    """Return the numbers of the copies to another layout that no program should do."""
    if chain.walk.numel <= _FEW:
        return set()
    found = {
        n for n, x in enumerate(chain.instructions)
        if x.what.family == "copy" and _crosses(chain.geometry(x.operands[0]), x.what.seen)
    }  # fmt: skip
    return set() if found and _is_near(chain) else found


def _is_near(chain: Chain) -> bool:
    """True if a program reads operands of other layouts as fast as the copy loop moves them. Then
    neighbours in the result are a few bytes apart in the operand, as in a channel of packed pixels.
    """
    stored = {chain.geometry(x).strides for x in chain.stores}
    if len(stored) != 1:
        return False
    to = chain.geometry(chain.stores[0])
    along = _along(to)
    steps = [x.strides[along] * x.dtype.itemsize for x in chain.inputs if _crosses(x, to)]
    return to.sizes[along] >= _ALIKE and all([0 < step <= _NEAR for step in steps])


def _along(shape: Geometry) -> int:
    """Return the dimension with the smallest stride."""
    strides = [s if n > 1 and s else shape.extent for n, s in zip(shape.sizes, shape.strides)]
    return strides.index(min(strides))


def _crosses(x: Geometry, walk: Geometry) -> bool:
    """True if elements are contiguous along another dimension than those of `walk`, or only in
    short runs along the same."""
    if x.sizes != walk.sizes or x.numel <= 1 or 0 in x.strides:
        return False
    if not x.is_non_overlapping_and_dense:
        return _along(x) != _along(walk)
    run = 1
    for stride, n, other in sorted(zip(walk.strides, walk.sizes, x.strides)):
        if n > 1 and other == stride == run:
            run *= n
        elif n > 1:
            return run < _ALIKE
    return False
