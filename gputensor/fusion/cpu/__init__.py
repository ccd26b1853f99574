"""Executor of chains on the CPU: the operators' own loops, run block by block in the cache.

If the compiled library has all loops of a chain, the chain is one program (cpu/programs.py).
Otherwise each block goes through all instructions before the next block begins, on temporaries that
a thread reuses; so operands are read from memory once, and values that are not stored stay in the
cache. If all operands have the walk's layout, a block is a contiguous part of memory; with several
layouts it is a part of a slab (cpu/layouts.py); otherwise it is some of the walk's rows. A chain
that fits into one block runs directly. Chains with reductions are programs whose blocks are rows
(cpu/rows.py), or run block by block too (cpu/reductions.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from ...core.geometry import Geometry
from ...kernels.cpu import quiet
from ...runtime import cpu
from ...tensor.tensor import Tensor
from . import blocks
from . import layouts
from . import programs
from . import reductions
from . import rows
from ..chain import Chain, Stream

Run = Callable[[list[Tensor], list[Tensor], list[Any]], None]


def prepare(chain: Chain) -> Run | None:
    """See Note [An executor]. None for random numbers that cannot be drawn block by block."""
    made = program(chain)
    return _otherwise(chain) if made is None else _by_program(chain, made)


def program(chain: Chain) -> programs.Program | None:
    """Return the program that runs a whole chain, or None if the chain runs in another way."""
    if chain.is_reduced:
        return rows.program(chain)
    if chain.drawn or len(chain.instructions) < 2 or layouts.copies_alone(chain) is not None:
        return None
    is_cut = chain.walk.numel > blocks.BLOCK and layouts.has_several(chain)
    return None if is_cut and not layouts.is_near(chain) else programs.whole(chain)


def short(chain: Chain) -> blocks.Body | None:
    """Return the steps of a chain that is one block; None for longer chains."""
    return None if chain.walk.numel > blocks.BLOCK else blocks.Body(chain, chain.stores)


def at_once(
    body: blocks.Body, inputs: list[Any], outputs: list[Any], scalars: list[Any]
) -> None:  # fmt: skip
    """Run a chain of one block over arrays."""
    quiet.run(body.go, inputs, outputs, scalars, body.whole_pool(), body.walk.sizes)


def _otherwise(chain: Chain) -> Run | None:
    """Return a function that runs a chain block by block: for chains without a program, and for
    programs that decline."""
    is_reduced = chain.is_reduced
    if not is_reduced and (alone := layouts.copies_alone(chain)) is not None:
        return alone
    if (body := short(chain)) is not None:
        return partial(_over_arrays, body)
    if chain.drawn and (
        is_reduced or not chain.walk.is_row_major or not blocks.is_flat(chain, chain.stores)
        or blocks.BLOCK % 4
    ):  # fmt: skip
        return None  # the positions of a block in the stream must be contiguous
    return reductions.prepare(chain) if is_reduced else layouts.prepare(chain) or _in_blocks(chain)


def _over_arrays(
    body: blocks.Body, inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]
) -> None:
    arrays, results = [x._get_array() for x in inputs], [x._get_array() for x in outputs]
    at_once(body, arrays, results, scalars)


def _by_program(chain: Chain, made: programs.Program) -> Run:
    """Return a function that runs a chain as one program, or block by block if the program
    declines."""
    first = [chain.stores.index(x) for x in chain.stores]
    places = [chain.stores.index(x) for x in made.stores]
    copies = [(n, source) for n, source in enumerate(first) if n != source]
    run_program, taken, shapes = made.run, made.inputs, made.shapes
    is_shaped = any([x is not None for x in shapes])
    steps: list[Run] = []

    def run(inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]) -> None:
        arrays = [outputs[n]._get_array() for n in places]
        arrays += [inputs[n]._get_array() for n in taken]
        if is_shaped:
            arrays = [
                x if shape is None else x.reshape(shape) for x, shape in zip(arrays, shapes)
            ]  # fmt: skip
        if not run_program(*arrays, scalars, True):
            if not steps:
                otherwise = _otherwise(chain)
                assert otherwise is not None  # no program draws random numbers
                steps.append(otherwise)
            return steps[0](inputs, outputs, scalars)
        for to, source in copies:
            outputs[to]._get_array()[...] = outputs[source]._get_array()

    return run


def _in_blocks(chain: Chain) -> Run:
    body, walk = blocks.Body(chain, chain.stores), chain.walk
    go, pool, has_streams = body.go, body.pool, bool(chain.drawn)
    size = body.block

    def flat(inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]) -> None:
        arrays = body.flat([x._get_array() for x in inputs])
        results = body.flat([x._get_array() for x in outputs])

        def make() -> Callable[[int], None]:
            mine = pool(size)

            def block(number: int) -> None:
                part = slice(number * size, (number + 1) * size)
                values = [x if x.size == 1 else x[part] for x in arrays]
                beside = scalars
                if has_streams:
                    beside = [x.at(part.start) if type(x) is Stream else x for x in scalars]
                quiet.run(go, values, [x[part] for x in results], beside, mine)

            return block

        cpu.share(-(-walk.numel // size), cpu.get_num_threads(), make)

    def by_rows(inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]) -> None:
        arrays, results = [x._get_array() for x in inputs], [x._get_array() for x in outputs]

        def make() -> Callable[[int], None]:
            mine = pool(prod(sizes))

            def block(number: int) -> None:
                where: list[Any] = []
                for size, step in zip(walk.sizes, sizes):
                    number, place = divmod(number, -(-size // step))
                    where.append(slice(place * step, place * step + step))
                values = [_part(x, where) for x in arrays]
                quiet.run(go, values, [_part(x, where) for x in results], scalars, mine)

            return block

        count = prod([-(-size // step) for size, step in zip(walk.sizes, sizes)])
        cpu.share(count, cpu.get_num_threads(), make)

    if body.is_flat:
        return flat
    sizes = _run(walk, body.order, size)
    return by_rows


def _run(walk: Geometry, order: tuple[int, ...], left: int) -> list[int]:
    """The sizes of a block: a contiguous part of the walk's memory with at most `left` elements.
    order: the walk's dimensions, slowest first."""
    sizes = [1] * walk.ndim
    for d in reversed(order):
        parts = -(-walk.sizes[d] // max(left, 1))
        sizes[d] = -(-walk.sizes[d] // parts)
        left = left // sizes[d] if parts == 1 else 0
    return sizes


def _part(x: Any, where: list[Any]) -> Any:
    """The part of an operand that a block reads. The operand broadcasts to the walk."""
    if x.size == 1:
        return x
    own = where[len(where) - x.ndim :]
    return x[(*[slice(None) if n == 1 else of for n, of in zip(x.shape, own)], ...)]
