"""Chains of which parts are compiled: programs, and the other steps as they are between them.

`body` stands where cpu_body.py's does, so blocks and slabs are those of cpu.py, cpu_layouts.py and
cpu_reductions.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.geometry import Geometry
from ..runtime import cpu
from . import cpu_body, native
from .chain import Chain
from .native_program import Program

Array = Any


def body(chain: Chain, stores: tuple[int, ...], walk: Geometry | None = None) -> cpu_body.Body:
    """What a chain does element by element, with what can be compiled of it. Raises: DeviceError
    without g++."""
    parts = native.parts(chain, stores, walk) if chain.is_native else None
    if parts is None:
        return cpu_body.Body(chain, stores, walk)
    for part in parts:
        if isinstance(part, Program):
            part.build()
    return Body(chain, stores, parts, walk)


class Body(cpu_body.Body):
    """What a chain does, some of it by programs. places: of what each program leaves, the place
    among the outputs or, below 0, that among the temporaries; None of what a row has once."""

    __slots__ = ("parts", "places", "axis")
    parts: list[Program | int]
    places: dict[int, int | None]
    axis: int

    def __init__(
        self, chain: Chain, stores: tuple[int, ...], parts: list[Program | int],
        walk: Geometry | None = None,
    ) -> None:  # fmt: skip
        super().__init__(chain, stores, walk)
        self.parts, self.axis = parts, cpu_body.along(self.walk) if self.walk.ndim else 0
        self.places = self._placed(chain, stores)
        sizes = [chain.geometry(x).dtype.itemsize for x in self.places]
        self.widest = max([self.widest, *sizes])

    def _placed(self, chain: Chain, stores: tuple[int, ...]) -> dict[int, int | None]:
        """A temporary is used again after the last part that reads its value."""
        count = len(chain.inputs)
        reads = [
            part.inputs if isinstance(part, Program) else chain.instructions[part].operands
            for part in self.parts
        ]
        last = {x: n for n, read in enumerate(reads) for x in read}
        found: dict[int, int | None] = {}
        free: list[int] = []
        for n, part in enumerate(self.parts):
            for x in part.stores if isinstance(part, Program) else ():
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
        """As that of cpu_body.py, which does it again where a program says so."""
        if sizes is None:
            sizes = outputs[0].shape if outputs else ()
        begins = {cpu.address_of(x) for x in values}
        # An operand that is written to is still read if it has to be done again.
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
        order = self.order if len(sizes) == len(self.order) else (0,) * len(sizes)
        axis = self.axis if len(sizes) == len(self.order) else 0
        for part in self.parts:
            if not isinstance(part, Program):
                self.take(part, part + 1, values, outputs, scalars, pool, sizes, results)
                continue
            values += [None] * len(part.made)
            for x in part.stores:
                values[x] = self._place(part, x, outputs, pool, sizes)
            arrays = [values[x] for x in (*part.stores, *part.inputs)]
            if part.run(arrays, part.numbers(scalars), sizes, order, axis):
                return True
        return False

    def _place(
        self, part: Program, x: int, outputs: list[Array], pool: Any, sizes: tuple[int, ...]
    ) -> Array:
        at, element = self.places[x], part.chain.geometry(x).dtype.np
        if at is None:
            return np.empty([1 if d == self.axis else n for d, n in enumerate(sizes)], element)
        if at >= 0:
            return outputs[at]
        return self.temporary(sizes, None if pool is None else pool[~at], element)
