"""Chains of several layouts on the CPU, slab by slab.

Note [Where a chain is computed]
Elementwise results may be computed in any layout. The layout is chosen for which the fewest bytes
of operands and stored results must be moved to another layout. So pixels cast to floats are moved
as bytes, before the cast, and floats cast to pixels after it.

A slab is a part of one dimension that fits the cache. First the copy loop moves operands of other
layouts; then everything is computed, block by block; then the copy loop moves the results. So a
chain makes the same passes as its operators, but between passes the data stays in the cache, and a
single copy runs only the copy loop. Values stored in both layouts are moved as a whole, as without
fusion, because they pass through memory anyway. Everything is moved as a whole if slabs would cut
the dimension along which another layout is contiguous, as in a transpose: the copy loop needs long
runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.dtype import bool_
from ...core.geometry import Geometry, geometry
from ...iterator import parallel
from ...kernels import stub
from ...kernels.cpu import quiet
from ...runtime import cpu
from ...tensor.tensor import Tensor
from . import blocks
from ..chain import Chain

Array = Any
Run = Callable[[list[Tensor], list[Tensor], list[Any]], None]
# Bytes of a slab.
_SLAB_NBYTES = 1 << 21
# Operands with at least this many contiguous elements are read in their own layout.
_ALIKE = 256
# Largest distance of elements in bytes at which a cache line still contains several of them.
_NEAR = 16


def prepare(chain: Chain) -> Run | None:
    """A function that runs a chain without reductions; None if it has one layout. See Note [An
    executor]."""
    if not has_several(chain):
        return None
    return _Slabs(chain, _Split(chain), stub.cpu("copy").copy).run


def has_several(chain: Chain) -> bool:
    """True if an operand or a result has a layout other than the walk's."""
    ends = [*chain.inputs, *map(chain.geometry, chain.stores)]
    return any([_crosses(x, chain.walk) for x in ends])


def is_near(chain: Chain) -> bool:
    """True if neighbours in the result are a few bytes apart in operands of other layouts, as in a
    channel of packed pixels. Then a program reads these operands as fast as the copy loop moves
    them.
    """
    stored = {chain.geometry(x).strides for x in chain.stores}
    if len(stored) != 1:
        return False
    to = chain.geometry(chain.stores[0])
    along = blocks.along(to)
    steps = [x.strides[along] * x.dtype.itemsize for x in chain.inputs if _crosses(x, to)]
    return to.sizes[along] >= _ALIKE and all([0 < step <= _NEAR for step in steps])


def copies_alone(chain: Chain) -> Run | None:
    """A function that runs a chain of one copy or cast by the copy loop; None for other chains."""
    if len(chain.stores) != 1 or len(chain.inputs) != 1:
        return None
    split = _Split(chain)
    steps = [chain.instructions[n - len(chain.inputs)] for n in split.steps]
    if steps and (len(steps) > 1 or steps[0].what.family != "copy"):
        return None
    copy = stub.cpu("copy").copy
    return lambda inputs, outputs, scalars: copy(outputs[0]._get_array(), inputs[0]._get_array())


class _Split:
    """A chain without its layout copies. root: the chain's `origins`. steps: the other instructions
    that are needed, by their values. roots: for each store, the value that is copied to it."""

    __slots__ = ("chain", "root", "steps", "roots", "taken")

    def __init__(self, chain: Chain) -> None:
        self.chain, count = chain, len(chain.inputs)
        root = self.root = chain.origins()
        self.roots = [root[x] for x in chain.stores]
        self.steps = [n for n in chain.needed(self.roots) if n >= count and root[n] == n]
        read = {
            root[x] for n in self.steps for x in chain.instructions[n - count].operands if x >= 0
        }
        self.taken = [n for n in range(count) if n in read]

    def laid_out(self) -> Geometry:
        """See Note [Where a chain is computed]."""
        chain, walk = self.chain, self.chain.walk
        inputs = [chain.inputs[n] for n in sorted({*self.taken, *self._moved()})]
        stores = [chain.geometry(x) for x in chain.stores]
        found: dict[tuple[int, ...], Geometry] = {}
        for x in (walk, *stores, *inputs):
            if x.sizes == walk.sizes and x.is_non_overlapping_and_dense:
                found.setdefault(x.strides, geometry(x.sizes, x.strides, bool_))

        def moved(to: Geometry) -> int:
            return sum([x.nbytes for x in (*inputs, *stores) if _crosses(x, to)])

        return min(found.values(), key=moved)

    def _moved(self) -> list[int]:
        return [x for x in self.roots if x < len(self.chain.inputs)]

    def inner(self, walk: Geometry) -> Chain:
        """The chain without copies, computed in the layout of `walk`."""
        wanted = [x for x in dict.fromkeys(self.roots) if x >= len(self.chain.inputs)]
        inputs = [
            geometry(walk.sizes, walk.strides, x.dtype) if _crosses(x, walk) else x
            for x in [self.chain.inputs[n] for n in self.taken]
        ]
        return self.chain.cut(self.taken, self.steps, wanted, None, inputs, self.root)


class _Slabs:
    """A chain that runs slab by slab.

    axis: the dimension that is cut into slabs; step: the size of a slab. inward: the inputs that
    are moved first. made: the computed values that are kept; direct: for each of them, the output
    in which it is computed directly, or None. is_cut: slabs cut the contiguous dimension of another
    layout.
    """

    def __init__(self, chain: Chain, split: _Split, copy: Callable[[Array, Array], None]) -> None:
        self.chain, self.copy, self.taken, self.roots = chain, copy, split.taken, split.roots
        walk = self.walk = split.laid_out()
        self.order = blocks.order_of(walk)
        count = len(chain.inputs)
        stores = [chain.geometry(x) for x in chain.stores]
        self.inward = [n for n in split.taken if _crosses(chain.inputs[n], walk)]
        self.made = [*dict.fromkeys(x for x in split.roots if x >= count)]
        fits = {
            x: n for n, (x, at) in reversed([*enumerate(zip(split.roots, stores))])
            if not _crosses(at, walk)
        }  # fmt: skip
        self.direct = {x: n for x, n in fits.items() if x in (*self.inward, *self.made)}
        self.elements = {n: chain.geometry(n).dtype.np for n in (*self.inward, *self.made)}
        ends = [*[chain.inputs[n] for n in self.taken], *stores]
        widest = max([x.dtype.itemsize for x in ends])
        parts = -(-walk.numel * widest // _SLAB_NBYTES)
        wide = [d for d, size in enumerate(walk.sizes) if size >= parts]
        if wide:
            axis = max(wide, key=lambda d: walk.strides[d] * (walk.sizes[d] > 1))
        else:
            axis = max(range(walk.ndim), key=lambda d: walk.sizes[d])
        self.axis, self.rows = axis - walk.ndim, walk.sizes[axis]
        self.step = -(-self.rows // parts)
        self.is_cut = axis in [blocks.along(x) for x in ends if _crosses(x, walk)]
        self.body: blocks.Body | None = None
        if split.steps:
            inner = split.inner(walk)
            body = self.body = blocks.Body(inner, inner.stores, walk)
            slowest = max(walk.strides) == walk.strides[axis] and self.rows > 1
            body.is_flat = body.is_flat and slowest and all([
                _lies(stores[n], walk) for x, n in fits.items() if x >= count
            ])  # fmt: skip

    def run(self, inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]) -> None:
        arrays, results = [x._get_array() for x in inputs], [x._get_array() for x in outputs]
        begins = {cpu.address_of(x) for x in arrays}
        # The output may be an operand too: from here on, no step may read it.
        last = [n for n, x in enumerate(results) if cpu.address_of(x) in begins]
        count, walk = len(arrays), self.walk
        row = walk.numel // self.rows
        full = {x: results[n] for x, n in self.direct.items() if n not in last}
        apart = {
            x: of for x, of in self.elements.items()
            if x not in full and (x < count or x not in self.direct)
        }  # fmt: skip
        if self.is_cut:
            for x, of in apart.items():
                memory = cpu.allocate(walk.numel * of.itemsize)
                full[x] = blocks.dense(walk.sizes, self.order, memory, of)
            apart = {}
        for x in self.inward:
            if x in full:
                self.copy(full[x], arrays[x])
        moved = [
            n for n, x in enumerate(self.roots) if x < count and x not in full and n not in last
        ]
        if self.is_cut:
            for n in moved:
                self.copy(results[n], arrays[self.roots[n]])

        def make() -> Callable[[int], None]:
            numel = self.step * row
            beside = {x: cpu.allocate(numel * of.itemsize) for x, of in apart.items()}
            body = self.body
            pool = None if body is None else body.pool(max(row, min(numel, body.block)))

            def slab(number: int) -> None:
                first = number * self.step
                end = min(first + self.step, self.rows)
                given = [parallel.part(x, self.axis, first, end) for x in arrays]
                into = [parallel.part(x, self.axis, first, end) for x in results]
                sizes = [*walk.sizes]
                sizes[self.axis] = end - first
                found = dict(enumerate(given))
                for x in (*self.inward, *self.made):
                    if x in full:
                        found[x] = parallel.part(full[x], self.axis, first, end)
                    elif x in beside:
                        found[x] = blocks.dense(sizes, self.order, beside[x], self.elements[x])
                    else:
                        found[x] = into[self.direct[x]]
                for x in self.inward:
                    if x not in full:
                        self.copy(found[x], given[x])
                if not self.is_cut:
                    for n in moved:
                        self.copy(into[n], found[self.roots[n]])
                if body is not None:
                    values = [found[x] for x in self.taken]
                    made = [found[x] for x in self.made]
                    quiet.run(body.serial, values, made, scalars, pool, self.axis)
                for n, x in enumerate(self.roots):
                    if x not in full and (x >= count or n in last) and found[x] is not into[n]:
                        self.copy(into[n], found[x])

            return slab

        cpu.share(-(-self.rows // self.step), cpu.get_num_threads(), make)
        for n, x in enumerate(self.roots):
            if x in full and results[n] is not full[x]:
                self.copy(results[n], full[x])


def _crosses(x: Geometry, walk: Geometry) -> bool:
    """True if a value of this layout must be moved to the layout of `walk`."""
    if x.sizes != walk.sizes or x.numel <= 1 or _lies(x, walk) or 0 in x.strides:
        return False
    if not x.is_non_overlapping_and_dense:
        return blocks.along(x) != blocks.along(walk)
    run = 1
    for stride, n, other in sorted(zip(walk.strides, walk.sizes, x.strides)):
        if n > 1 and other == stride == run:
            run *= n
        elif n > 1:
            break
    return run < _ALIKE


def _lies(x: Geometry, walk: Geometry) -> bool:
    return all([s == t or n == 1 for n, s, t in zip(x.sizes, x.strides, walk.strides)])
