"""Chains on CUDA that read the results of their own reductions over rows. Such a chain is one
kernel.

The kernel makes one pass over the rows for each reduction, and one pass for stored values;
kernels/cuda/rows_source.py writes the source. Operators over rows in another order or dimension run
after the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...core.dtype import bool_, dtype, float32, float64
from ...core.geometry import contiguous_geometry
from ...kernels.cuda import chain_launch, rows_chain_launch, rows_source, variants
from ...kernels.cuda.rows_source import Program, Reduction
from ..chain import Chain, Instruction, Recorded
from .body import Written
from .reductions import coalesced, is_end, row_strides
from ..members.reductions import SHORT
from ..running import Stage, alone

# (value, index, dtype) of a result that a pass computes for each row. index: 0 or 1 for the two
# such results of a softmax; -1 for other operators.
Found = tuple[int, int, dtype]


def is_softmax(what: Recorded) -> bool:
    """True for a softmax over short dense rows. False for the derivative of softmax."""
    if what.family != "softmax" or len(what.kinds) > 1 or what.whole is None:
        return False
    (axis,), walk = what.whole, what.walk
    return walk.strides[axis] == 1 and 1 < walk.sizes[axis] <= SHORT


def computes_its_softmax(chain: Chain) -> bool:
    """True if the chain contains a softmax and computes the operand of this softmax."""
    steps = chain.steps
    return any([is_softmax(x.what) and x.operands[0] in steps for x in chain.instructions])


def reads_its_rows(chain: Chain) -> bool:
    """True if the chain has an operator over rows whose result another operator of the chain
    reads."""
    read = _read(chain)
    return any([n in read and step.what.takes_rows for n, step in chain.steps.items()])


def _read(chain: Chain) -> set[int]:
    """Return the values that the chain's instructions read."""
    return {x for step in chain.instructions if not step.what.part for x in step.operands}


class Rows:
    """A chain that reads results of its reductions, as one kernel. full: stored values with all
    elements of the rows. once: stored values with one element per row. launch: None if no kernel
    can be written."""

    def __init__(self, chain: Chain) -> None:
        self.chain: Chain = chain
        self.launch: chain_launch.ByAlignment | None = None
        self.program: Program | None = None
        steps, read = chain.steps, _read(chain)
        within = [n for n, x in steps.items() if _is_within(x)]
        self.late = [n for n, x in steps.items() if is_end(x) and n not in within]
        if not within or any([n in read for n in self.late]):
            return
        kinds = {(_key(steps[n]), steps[n].what.dims) for n in within}
        if len(kinds) > 1:
            return
        stores = [n for n in dict.fromkeys(chain.stores) if not steps[n].what.part]
        wanted = [n for n in stores if n not in self.late]
        operands = [x for n in self.late for x in steps[n].operands]
        wanted += [x for x in operands if x in steps and x not in wanted]
        (((lanes, itemsize), reduces),) = kinds
        sizes = tuple([1 if d in reduces else n for d, n in enumerate(chain.walk.sizes)])
        self.full = [n for n in wanted if chain.geometry(n).sizes == chain.walk.sizes]
        self.once = [n for n in wanted if n not in self.full]
        if any([chain.geometry(n).numel != prod(sizes) for n in self.once]):
            return
        packing: list[Any] = []
        self.program = self._written(within, packing)
        found = self._walks(steps[within[0]], sizes)
        if self.program is None or found is None:
            return
        self.launch = rows_chain_launch.bind(self.program, packing, lanes, itemsize, *found)

    def _written(self, within: list[int], packing: list[Any]) -> Program | None:
        chain = self.chain
        found: list[Found] = []
        reductions = []
        for n in within:
            what, operands, _ = chain.steps[n]
            body = Written(_part(chain, operands[:1], found), packing).body
            if body is None:
                return None
            if is_softmax(what):
                acc = float64 if what.result is float64 else float32
                scalar, out = variants.storage(what.result), acc
                found += [(n, 0, acc), (n, 1, acc)]
            else:
                stage = rows_chain_launch.stage_of(what.entry.run)
                assert stage is not None
                scalar, out = stage.defines["SCALAR"], what.result
                found.append((n, -1, out))
            name = what.operator.qualified_name
            reductions.append(Reduction(body, what.loop, scalar, out, name, is_softmax(what)))
        stored = None
        if self.full:
            stored = Written(_part(chain, tuple(self.full), found), packing).body
        once = [Written(_part(chain, (n,), found), packing).body for n in self.once]
        if self.full and stored is None or None in once:
            return None
        return Program(tuple(reductions), stored, tuple([x for x in once if x is not None]))

    def _walks(self, step: Instruction, sizes: Any) -> Any:
        """Return the sizes of the walk (the number of elements in a row, then the kept dimensions)
        and three groups of strides in bytes: of full outputs, of inputs, and of outputs with one
        element per row."""
        chain, what = self.chain, step.what
        row = row_strides(sizes, bool_)
        full = [chain.geometry(n).stride_bytes for n in self.full]
        once = [row_strides(sizes, chain.geometry(n).dtype) for n in self.once]
        source = chain.geometry(step.operands[0])
        shape, found = coalesced(chain, [row, source.stride_bytes], [*full, *once])
        seen, _, *rest = found
        count = chain.walk.sizes[what.whole[0]] if what.whole else what.entry.plan.shape[0]
        if shape[0] != count or seen[0] or 0 in seen[1:]:
            return None
        count, end = len(chain.inputs), len(chain.inputs) + len(full)
        return shape, [*rest[count:end], *rest[:count], *rest[end:]]

    def stages(self) -> list[Stage]:
        """Return the kernel, then the operators that run after it."""
        chain, full, once = self.chain, len(self.full), [*self.full, *self.once]
        launch, index = self.launch, chain.device.index or 0
        assert launch is not None

        def run(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> None:
            of = (*outputs[:full], *inputs, *outputs[full:])
            launch(index, [x._address() for x in of], scalars)

        kernel = Stage(range(len(chain.inputs)), once, run)
        return [kernel, *[alone(chain, n) for n in self.late]]

    def sources(self) -> list[str]:
        return [] if self.program is None else [rows_source.functors(self.program)]


def _is_within(step: Instruction) -> bool:
    """True if the kernel can run this reduction or softmax over rows."""
    what = step.what
    return is_softmax(what) or (
        what.family == "reduce" and rows_chain_launch.stage_of(what.entry.run) is not None
        and len(what.entry.plan.shape) > 0 and what.entry.plan.n_reduced == 1
    )  # fmt: skip


def _key(step: Instruction) -> Any:
    """Return the parameters that all passes of a program must share: the lanes and the element
    size."""
    what = step.what
    itemsize = what.kinds[0].itemsize
    if is_softmax(what):
        return rows_chain_launch.lanes_of_softmax(what.walk.sizes[what.dims[0]], itemsize), itemsize
    stage = rows_chain_launch.stage_of(what.entry.run)
    assert stage is not None
    return (stage.lane_bits, stage.slot_bits), itemsize


def _part(chain: Chain, wanted: tuple[int, ...], found: list[Found]) -> Chain:
    """Return the chain that computes these values. Results of reductions over rows become
    additional inputs."""
    count, own = len(chain.inputs), {n for n, part, _ in found if part < 0}
    kept = [n for n in chain.needed(wanted, own) if n in chain.steps]
    made = chain.cut([*range(count), *[n for n, *_ in found]], kept, wanted, chain.walk)
    shapes = [contiguous_geometry((), of) if part >= 0 else chain.geometry(n)
              for n, part, of in found]  # fmt: skip
    places = enumerate(found, count)
    of_softmax = [(n, place) for place, (n, part, _) in places if part >= 0]
    steps = [
        step._replace(operands=(*step.operands, *[place for x, place in of_softmax if x == n]))
        for n, step in zip(kept, made.instructions)
    ]
    inputs = (*chain.inputs, *shapes)
    return Chain(chain.device, inputs, chain.scalars, tuple(steps), made.stores, chain.walk)
