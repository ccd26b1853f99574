"""Runs a chain on the CPU: the loops that the operators run eagerly, block by block in the cache.

A block goes through all instructions before the next one is begun, on temporaries that a thread
uses again; so operands are read from memory once, and what is not stored is never written to it.
Where all operands have the walk's layout, a block is a run of memory; else it is a part of the
walk's slowest dimension. What fits into one block runs without any of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..iterator import parallel
from ..kernels.cpu import quiet
from ..runtime import cpu
from ..tensor.tensor import Tensor
from . import native
from .chain import Chain

# Elements in a block: fewer lose to the hand-over of the interpreter's lock between the threads'
# short calls, more to memory beyond the cache.
BLOCK = 1 << 16
# Of the dimension that blocks are cut from: parts of fewer would leave gaps between elements.
_SHORTEST = 16
Array = Any


class _Step:
    """An instruction, bound. out: the place among the outputs, or ~place among the temporaries."""

    __slots__ = ("loop", "operands", "params", "element", "out")

    def __init__(self, instruction: Any, out: int) -> None:
        self.loop = instruction.what.entry.loop
        self.operands, self.params = instruction.operands, instruction.params
        self.element, self.out = instruction.what.geometry.dtype.np, out


def prepare(chain: Chain) -> Callable[[list[Tensor], list[Tensor], list[Any]], None]:
    """See Note [An executor]."""
    if chain.is_native:
        found = native.prepare(chain)
        if found is not None:
            return found
    steps, n_temporaries = _steps(chain)
    copies = [
        (place, chain.stores.index(value)) for place, value in enumerate(chain.stores)
        if chain.stores.index(value) != place
    ]  # fmt: skip
    walk = chain.walk
    order = tuple(sorted(range(walk.ndim), key=lambda d: -walk.strides[d]))

    def temporary(sizes: tuple[int, ...], memory: Array, element: np.dtype[Any]) -> Array:
        """An array of these sizes, dense in the walk's order, over a buffer or new."""
        inner = tuple([sizes[d] for d in order]) if len(sizes) == len(order) else sizes
        if memory is None:
            array = np.empty(inner, element)
        else:
            numel = 1
            for size in sizes:
                numel *= size
            array = memory[: numel * element.itemsize].view(element).reshape(inner)
        if inner is sizes or walk.is_row_major:
            return array
        return array.transpose([order.index(d) for d in range(len(order))])

    def go(values: list[Array], outputs: list[Array], scalars: list[Any], pool: Any) -> None:
        """Everything, over arrays of one shape."""
        sizes = outputs[0].shape
        for step in steps:
            given = [values[x] if x >= 0 else scalars[-1 - x] for x in step.operands]
            if step.out >= 0:
                out = outputs[step.out]
            else:
                memory = None if pool is None else pool[~step.out]
                out = temporary(sizes, memory, step.element)
            step.loop(*given, *[scalars[-1 - x] for x in step.params], out)
            values.append(out)
        for to, source in copies:
            outputs[to][...] = outputs[source]

    def at_once(inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]) -> None:
        arrays = [x._get_array() for x in inputs]
        quiet.run(go, arrays, [x._get_array() for x in outputs], scalars, None)

    widest = max([step.element.itemsize for step in steps])

    def pool(numel: int) -> list[Array]:
        return [cpu.allocate(numel * widest) for _ in range(n_temporaries)]

    is_flat = all([
        x.numel == 1 or x.sizes == walk.sizes and x.strides == walk.strides for x in chain.inputs
    ])  # fmt: skip

    def flat(inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]) -> None:
        arrays, results = (
            [
                x._get_array().reshape(1) if x._geometry.numel == 1
                else x._get_array().transpose(order).reshape(-1)
                for x in tensors
            ]
            for tensors in (inputs, outputs)
        )  # fmt: skip

        def make() -> Callable[[int], None]:
            mine = pool(BLOCK)

            def block(number: int) -> None:
                part = slice(number * BLOCK, (number + 1) * BLOCK)
                values = [x if x.size == 1 else x[part] for x in arrays]
                quiet.run(go, values, [x[part] for x in results], scalars, mine)

            return block

        cpu.share(-(-walk.numel // BLOCK), cpu.get_num_threads(), make)

    def by_rows(inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]) -> None:
        arrays, results = [x._get_array() for x in inputs], [x._get_array() for x in outputs]
        dim = parallel.slowest_dim(results[0], -(-walk.numel // BLOCK))
        rows = walk.sizes[dim]
        step, axis = max(1, BLOCK * rows // walk.numel), dim - walk.ndim

        def make() -> Callable[[int], None]:
            mine = pool(step * (walk.numel // rows))

            def block(number: int) -> None:
                first, last = number * step, (number + 1) * step
                values = [parallel.part(x, axis, first, last) for x in arrays]
                parts = [parallel.part(x, axis, first, last) for x in results]
                quiet.run(go, values, parts, scalars, mine)

            return block

        cpu.share(-(-rows // step), cpu.get_num_threads(), make)

    if walk.numel <= BLOCK:
        return at_once
    if is_flat:
        return flat
    return at_once if walk.numel // max(walk.sizes) > BLOCK // _SHORTEST else by_rows


def source(chain: Chain) -> str | None:
    """What is compiled for a chain, and what is not; None where nothing is."""
    return native.source(chain) if chain.is_native else None


def _steps(chain: Chain) -> tuple[list[_Step], int]:
    """The instructions with their places to write to, and how many temporaries there are: one is
    used again after the last instruction that reads it, or by that."""
    count = len(chain.inputs)
    last_read = {
        x: n for n, step in enumerate(chain.instructions) for x in step.operands if x >= count
    }
    steps: list[_Step] = []
    free: list[int] = []
    used = 0
    for n, instruction in enumerate(chain.instructions):
        ending = {x for x in instruction.operands if x >= count and last_read[x] == n}
        if isinstance(instruction.what.entry.loop, np.ufunc):  # it may write where it reads
            for x in ending:
                if steps[x - count].out < 0 and chain.geometry(x) is instruction.what.geometry:
                    free.append(steps[x - count].out)
                    ending.remove(x)
                    break
        if count + n in chain.stores:
            place = chain.stores.index(count + n)
        elif free:
            place = free.pop()
        else:
            used, place = used + 1, ~used
        steps.append(_Step(instruction, place))
        for x in ending:
            if steps[x - count].out < 0:
                free.append(steps[x - count].out)
    return steps, used
