"""Parts of a chain on the CPU. Each part is one program of the compiled library.

A program runs blocks of its operands through all of its steps in the first-level cache, on the
library's threads (kernels/compiled/engine/chain/). It uses the operators' own loops, so the bits
are the same. Operators without a loop in the library are separate stages between programs: NumPy
functions, random numbers, reductions of rows. So are copies to another layout for which the copy
loop is faster, because it reads and writes memory in long runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby

from ...core.arguments import NUMBERS
from ...core.geometry import Geometry
from ...kernels import stub
from ...kernels.compiled import library
from ..chain import Chain, Instruction, Recorded
from ..running import Stage, alone, of_program

# The maximum number of steps in a program. The library allows 128 steps, which include the casts
# between steps.
_LONGEST = 64
# Limits for copies to another layout within a program. A copy in a program has at most `_FEW`
# elements. The limit is higher if neighbouring elements of the result are at most `_NEAR` bytes
# apart in the operand: `_SOME` elements, or no limit if the innermost dimension of the result has
# at least `_ALIKE` elements.
_FEW, _SOME, _ALIKE, _NEAR = 1 << 11, 1 << 16, 256, 16


def program(chain: Chain, own: Sequence[int]) -> Stage | None:
    """Return the stage that computes consecutive values by one program, or None if this is not
    possible."""
    read = [x for n in own for x in chain.steps[n].operands if x >= 0]
    later = [x for n, step in chain.steps.items() if n > own[-1] for x in step.operands]
    wanted, inputs = {*chain.stores, *later}, [x for x in dict.fromkeys(read) if x not in own]
    stores = [x for x in own if x in wanted]
    moves = _moves(chain, own, stores)
    done = [x for x in own if x not in moves]
    numbers = {x: n for n, x in enumerate([*inputs, *done])}
    numbers |= {x: numbers[source] for x, source in moves.items()}
    said = [
        (
            what.family, what.loop, what.compute.code, what.result.code,
            tuple([numbers.get(x, x) for x in operands]), params,
        )
        for what, operands, params in [chain.steps[x] for x in done]
    ]  # fmt: skip
    run = library.program(
        tuple([chain.geometry(x).dtype.code for x in inputs]),
        tuple([numbers[x] for x in stores]), tuple(said),
    )  # fmt: skip
    return None if run is None else of_program(run, inputs, stores, own)


def _moves(chain: Chain, own: Sequence[int], stores: list[int]) -> dict[int, int]:
    """Return a dict that maps copies to their operands, for copies that change the layout of a
    computed value.

    The program stores the operand directly in the copy's layout, so the copy needs no step. If the
    operand is stored too, the copy is not listed.
    """
    found: dict[int, int] = {}
    taken = {*stores}
    for x in own:
        what, (operand, *_), _ = chain.steps[x]
        source = found.get(operand, operand)
        if what.is_move and source in own and not (x in taken and source in taken):
            found[x] = source
            taken |= {source} if x in taken else set()
    return found


def stages(chain: Chain) -> list[Stage]:
    """Return the stages of a chain: programs, and operators without a program."""
    casts = [x for x in chain.instructions if not x.what.is_move]
    if len(chain.stores) == 1 and len(casts) < 2 and all([x.what.family == "copy" for x in casts]):
        # one call of the copy loop casts and changes the layout
        return [alone(chain, chain.stores[0])._replace(takes=[0])]
    found, moves = list[Stage](), _moved_apart(chain)

    def kind(n: int) -> tuple[bool, tuple[int, ...]]:
        step = chain.steps[n]
        return n not in moves and is_known(chain, step), step.what.walk.sizes

    for (has_loop, _), own in groupby(chain.steps, kind):
        if has_loop:
            found += _built(chain, [*own])
        else:
            found += [alone(chain, n) for n in own if not chain.steps[n].what.part]
    return found


def _built(chain: Chain, own: list[int]) -> list[Stage]:
    """Return stages for the steps: one program, or several if one program cannot take all steps."""
    is_copy = len(own) < 2 and chain.steps[own[0]].what.family == "copy"
    if not is_copy and len(own) <= _LONGEST and (found := program(chain, own)) is not None:
        return [found]
    if len(own) < 2:
        return [alone(chain, own[0])]
    middle = len(own) // 2
    return _built(chain, own[:middle]) + _built(chain, own[middle:])


def is_known(chain: Chain, step: Instruction) -> bool:
    """True if the library has the loop of this step for the step's operands."""
    kinds = tuple([chain.geometry(x).dtype.code if x >= 0 else -1 for x in step.operands])
    return _has_loop(step.what, kinds, len(step.params))


@cache
def _has_loop(what: Recorded, kinds: tuple[int, ...], n_params: int) -> bool:
    is_users = stub.registered(what.family, what.loop, "cpu") is not None
    if what.takes_rows or what.part or is_users:
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
    step = (what.family, what.loop, what.compute.code, what.result.code, operands, (-1,) * n_params)
    return library.program(dtypes, (len(dtypes),), (step,)) is not None


def _moved_apart(chain: Chain) -> set[int]:
    """Return the copies to another layout that should not be part of a program."""
    if chain.walk.numel <= _FEW:
        return set()
    found = {
        n for n, x in chain.steps.items()
        if x.what.family == "copy" and _crosses(chain.geometry(x.operands[0]), x.what.seen)
    }  # fmt: skip
    return set() if found and _is_near(chain) else found


def _is_near(chain: Chain) -> bool:
    """True if a program reads operands of other layouts as fast as the copy loop moves them. This
    holds if neighbours in the result are a few bytes apart in the operand, as in a channel of
    packed pixels."""
    if len({chain.geometry(x).strides for x in chain.stores}) != 1:
        return False
    to = chain.geometry(chain.stores[0])
    along = _along(to)
    steps = [x.strides[along] * x.dtype.itemsize for x in chain.inputs if _crosses(x, to)]
    is_worth = to.sizes[along] >= _ALIKE or to.numel <= _SOME
    return is_worth and all([0 < step <= _NEAR for step in steps])


def _along(shape: Geometry) -> int:
    """Return the dimension with the smallest stride."""
    strides = [s if n > 1 and s else shape.extent for n, s in zip(shape.sizes, shape.strides)]
    return strides.index(min(strides))


def _crosses(x: Geometry, walk: Geometry) -> bool:
    """True if x and `walk` are contiguous along different dimensions, or along the same dimension
    only in short runs."""
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
