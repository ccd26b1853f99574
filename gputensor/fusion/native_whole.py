"""A chain that is one program, over all of its elements at once: its threads take tiles without the
interpreter's lock, and operands of other layouts are read where they lie.

What is no such chain, a result that is written where an operand lies, and what a program answers
that NumPy's loops have to do again (Note [A program]) is left to the blocks of cpu.py.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..core.geometry import Geometry
from ..runtime import cpu
from ..tensor.tensor import Tensor
from . import cpu_body, native
from .chain import Chain
from .native_program import Program

Run = Callable[[list[Tensor], list[Tensor], list[Any]], None]
# Bytes from one element of a row to the next: where they are more, a cache line has one.
_FAR = 32
# Elements below which one thread is enough.
_ALONE = 1 << 16


def prepare(chain: Chain, blocks: Callable[[Chain], Run]) -> Run:
    """See Note [An executor]. blocks: what prepares the chain otherwise. Raises: DeviceError
    without g++."""
    found = found_of(chain)
    if found is None:
        return blocks(chain)
    found.program.build()
    rest: list[Run] = []

    def run(inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]) -> None:
        if found.run(inputs, outputs, scalars):
            if not rest:
                rest.append(blocks(chain))
            rest[0](inputs, outputs, scalars)

    return run


def source(chain: Chain) -> str | None:
    """What is compiled of a chain, and what stays as it is; None where nothing is."""
    found = found_of(chain)
    return native.source(chain) if found is None else "\n".join(found.program.shown())


def found_of(chain: Chain) -> Whole | None:
    """None where a chain is not one program."""
    walk = _walk(chain)
    if walk is None or walk.numel < native.FROM or len(chain.instructions) < 2:
        return None
    return Whole.of(chain, walk)


def _walk(chain: Chain) -> Geometry | None:
    """Where all elements that are stored lie; None where they lie in several ways."""
    count, walk = len(chain.inputs), chain.walk
    found = [
        x for x in map(chain.geometry, chain.stores) if x.sizes == walk.sizes
    ]  # fmt: skip
    if not found:
        return walk
    first = found[0]
    is_one = all([x.strides == first.strides for x in found])
    is_reduced = any([x.what.reduces is not None for x in chain.instructions])
    if is_reduced and first.strides != walk.strides:
        return None
    return first if is_one and count else None


class Whole:
    """A program, and where its operands lie. order: the dimensions in the order in which they are
    walked; axis: the one that rows run along; places: of each of its stores, the output."""

    __slots__ = ("chain", "walk", "program", "order", "axis", "places", "copies")
    chain: Chain
    walk: Geometry
    program: Program
    order: list[int]
    axis: int
    places: list[int]
    copies: list[tuple[int, int]]

    def __init__(self, chain: Chain, walk: Geometry, program: Program, axis: int) -> None:
        self.chain, self.walk, self.program, self.axis = chain, walk, program, axis
        self.places = [chain.stores.index(x) for x in program.stores]
        self.copies = [
            (n, chain.stores.index(x)) for n, x in enumerate(chain.stores)
            if chain.stores.index(x) != n
        ]  # fmt: skip
        together = [
            walk,
            *[x for x in chain.inputs if x.sizes == walk.sizes and 0 not in x.strides],
        ]

        def reach(d: int) -> tuple[int, int]:
            return -prod([abs(x.strides[d]) for x in together]), -walk.strides[d]

        self.order = sorted(range(walk.ndim), key=reach)

    @classmethod
    def of(cls, chain: Chain, walk: Geometry) -> Whole | None:
        axis = cpu_body.along(walk) if walk.ndim else 0
        program = native.one(chain, walk, axis)
        if program is None or max([0, *map(abs, program.inner)]) > _FAR:
            return None
        whole = cls(chain, walk, program, axis)
        return (
            whole if native.run_length(chain, walk, whole.order, axis) >= native.SHORTEST else None
        )

    def run(self, inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]) -> bool:
        """Whether it is still to be done."""
        given, results = [x._get_array() for x in inputs], [x._get_array() for x in outputs]
        begins = {cpu.address_of(x) for x in given}
        if any([cpu.address_of(x) in begins for x in results]):
            return True
        walk, program = self.walk, self.program
        stored = [
            results[n] if results[n].ndim == walk.ndim else np.expand_dims(results[n], self.axis)
            for n in self.places
        ]
        arrays = [*stored, *[given[x] for x in program.inputs]]
        threads = cpu.free_threads() if walk.numel > _ALONE else 1
        if program.run(
            arrays, program.numbers(scalars), walk.sizes, self.order, self.axis, threads
        ):  # fmt: skip
            return True
        for to, source in self.copies:
            results[to][...] = results[source]
        return False
