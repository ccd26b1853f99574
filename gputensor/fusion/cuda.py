"""Chains on CUDA: one kernel, made of the functors of the operators' own kernels; one more for
each reduction, which computes what it reduces if nobody else needs that.

This names the operators' functors and the scalars that they take; kernels/cuda/chain_source.py
writes the text, and chain_launch.py and reduce_chain_launch.py launch it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dtype import int64
from ..core.geometry import Geometry, contiguous_geometry
from ..dispatch import defaults
from ..iterator.coalesce import coalesce
from ..iterator.config import Config
from ..iterator.order import dimension_order
from ..iterator.plan import Plan, build
from ..kernels import stub
from ..kernels.cuda import argreduce_chain_launch, chain_launch, reduce_chain_launch, variants
from ..kernels.cuda.chain_source import FAMILIES, Body, Drawn, Step, functor
from ..structured.pointwise import NUMBERS
from ..tensor.make import allocate
from .chain import Chain, Instruction
from .running import further_results

Run = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], None]

# Dtypes are each operator's; what overlaps was looked at as the operators were recorded.
_CONFIG = Config(
    check_mem_overlap=False, check_all_same_dtype=False, check_all_same_device=False,
    resize_outputs=False, cast_common_dtype_to_outputs=True,
)  # fmt: skip


def prepare(chain: Chain) -> Run | None:
    """What launches a chain; None where an operator has no functor of its own, or a kernel of
    somebody else's, and where one kernel cannot take so many operands. See Note [An executor]."""
    if chain.is_reduced:
        return _Reduced(chain).prepared()
    written = _Written(chain)
    if written.body is None:
        return None
    launch = chain_launch.bind(written.body, _plan(chain), written.packing)
    if launch is None:
        return None
    index, places = chain.device.index, (0,) * len(chain.drawn)

    def run(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> None:
        addresses = [x._address() for x in (*outputs, *inputs)]
        launch(index, (*addresses, *places), tuple(scalars))

    return run


class _Fused:
    """A reduction in one kernel with what it reduces. inputs: those of the chain that it takes."""

    __slots__ = ("body", "inputs", "launch")
    launch: Callable[..., None] | None

    def __init__(self, chain: Chain, step: Instruction) -> None:
        part, self.inputs = chain.part((step.operands[0],))
        written = _Written(part)
        self.body, self.launch = written.body, None
        what = step.what
        if written.body is None or what.family not in ("reduce", "argreduce"):
            return
        if what.family == "argreduce":
            self._search(part, step, written)
            return
        walks = self._walks(part, step)
        if walks is None:
            return
        plan = what.entry.plan
        self.launch = reduce_chain_launch.bind(
            what.entry.run, written.body, written.packing, what.result, plan.shape, plan.n_reduced,
            walks, plan.common_dtype.code,
        )  # fmt: skip

    def _search(self, part: Chain, step: Instruction, written: _Written) -> None:
        """The launch of argmax and argmin, max and min: addresses are values, indices, inputs."""
        what, assumed = step.what, step.what.entry.plan.walk
        assert written.body is not None and what.reduces is not None
        sizes, source = part.walk.sizes, part.geometry(part.stores[0])
        kept = tuple([1 if d in what.reduces else n for d, n in enumerate(sizes)])
        walks = []
        for of in (int64, source.dtype):
            strides = contiguous_geometry(kept, of).stride_bytes
            walks.append(tuple([0 if n == 1 else s for n, s in zip(kept, strides)]))
        found = _coalesced(part, [walks[0], source.stride_bytes, walks[1]])
        if found[0] != assumed.shape:
            return
        of_indices, _, of_values, *inputs = found[1]
        bound = argreduce_chain_launch.bind(
            what.entry.run, written.body, written.packing, assumed.shape, assumed.n_reduced,
            [of_indices, of_values, *inputs],
        )  # fmt: skip
        if bound is None or what.whole is not None:
            self.launch = bound
            return
        self.launch = lambda index, addresses, scalars: bound(index, (0, *addresses), scalars)

    @staticmethod
    def _walks(part: Chain, step: Instruction) -> list[Any] | None:
        """Strides in bytes of the result and the inputs over the dimensions of the reduction's own
        plan; None where an input cannot be seen so."""
        what, entry, sizes = step.what, step.what.entry, part.walk.sizes
        assert what.reduces is not None
        strides = iter(what.geometry.stride_bytes)
        seen = []
        for d in range(len(sizes)):
            stays = d not in what.reduces
            at = next(strides) if stays or entry.keepdim else 0
            seen.append(at if stays else 0)
        source = part.geometry(part.stores[0])
        shape, found = _coalesced(part, [tuple(seen), source.stride_bytes])
        return [found[0], *found[2:]] if shape == entry.plan.shape else None


def _coalesced(part: Chain, walks: list[Any]) -> tuple[Any, list[Any]]:
    """The sizes that a reduction walks, and strides in bytes: `walks`, of results and, second, of
    what is reduced, and those of the inputs."""
    sizes = part.walk.sizes
    order = dimension_order(sizes, walks[:2], n_reduced=1)
    for x in part.inputs:
        lacks = len(sizes) - x.ndim
        walks.append(tuple([
            0 if d < lacks or x.sizes[d - lacks] == 1 else x.stride_bytes[d - lacks]
            for d in range(len(sizes))
        ]))  # fmt: skip
    return coalesce(sizes, walks, order)


class _Reduced:
    """A chain with reductions: one launch for what is stored, and one for each reduction, which
    computes its operand itself where nobody else needs that."""

    __slots__ = ("chain", "fused", "wanted", "ends")

    def __init__(self, chain: Chain) -> None:
        self.chain, count = chain, len(chain.inputs)
        steps = dict(enumerate(chain.instructions, count))
        self.ends = [(n, x) for n, x in steps.items() if _is_end(x)]
        self.wanted = [
            n for n in dict.fromkeys(chain.stores) if not _is_end(steps[n])
            and not steps[n].what.part
        ]  # fmt: skip
        self.fused: dict[int, tuple[_Fused, Callable[..., None]]] = {}
        stored = list(self.wanted)
        for n, step in self.ends:
            sources = [x for x in step.operands if x >= count and x not in stored]
            if not sources:
                continue
            made = _Fused(chain, step)
            if made.launch is not None:
                self.fused[n] = made, made.launch
            else:
                self.wanted += [x for x in dict.fromkeys(sources) if x not in self.wanted]

    def prepared(self) -> Run | None:
        chain, fused, wanted = self.chain, self.fused, self.wanted
        taken: list[int] = []
        launch: Run | None = None
        if wanted:
            part, taken = chain.part(wanted)
            launch = prepare(part)
            if launch is None:
                return None
        stores, index = chain.stores, chain.device.index or 0

        def made(n: int, outputs: Sequence[Any]) -> Any:
            if n in stores:
                return outputs[stores.index(n)]
            return allocate(chain.geometry(n), chain.device)

        def run(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> None:
            values = {**dict(enumerate(inputs)), **{n: made(n, outputs) for n in wanted}}
            if launch is not None:
                launch([inputs[n] for n in taken], [values[n] for n in wanted], scalars)
            for n, step in self.ends:
                one, what = fused.get(n), step.what
                outs = values[n] = [made(n, outputs)]
                if what.whole is not None:
                    outs += further_results(chain, n, outputs)
                if one is not None:
                    of = (*outs, *[inputs[x] for x in one[0].inputs])
                    one[1](index, [x._address() for x in of], scalars)
                elif what.whole is not None:
                    given = [values[x] for x in step.operands]
                    what.entry.write(outs, given, [scalars[~x] for x in step.params])
                else:
                    what.entry.write(outs[0], values[step.operands[0]])
            for place, n in enumerate(stores):
                if stores.index(n) != place:
                    outputs[place].copy_(outputs[stores.index(n)])

        return run

    def sources(self) -> list[str]:
        """What is compiled."""
        bodies = [one.body for one, _ in self.fused.values()]
        if self.wanted:
            bodies.append(_Written(self.chain.part(self.wanted)[0]).body)
        return [functor(body) for body in dict.fromkeys(bodies) if body is not None]


def _is_end(step: Instruction) -> bool:
    """Whether it takes rows."""
    return not step.what.part and (step.what.reduces is not None or step.what.whole is not None)


def draws(chain: Chain) -> bool:
    """Whether random numbers are drawn in the chain's kernel."""
    return prepare(chain) is not None


def source(chain: Chain) -> str | None:
    """The functors of a chain as they are compiled; None where `prepare` leaves it to the
    operators."""
    if chain.is_reduced:
        return "\n".join(_Reduced(chain).sources()) or None
    body = _Written(chain).body
    return None if body is None else functor(body)


def written(chain: Chain) -> tuple[Body | None, list[chain_launch.Packer]]:
    """A chain's body, None where an operator has no functor; and the packing of its numbers."""
    made = _Written(chain)
    return made.body, made.packing


class _Written:
    """A chain as chain_source.py takes it: body, None where it cannot; packing, of its numbers."""

    __slots__ = ("chain", "body", "packing", "place")

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.packing: list[chain_launch.Packer] = []
        self.body: Body | None = None
        count, drawn = len(chain.inputs), chain.drawn
        others = [n for n in range(count, count + len(chain.instructions)) if n not in drawn]
        steps = [chain.instructions[n - count] for n in others]
        # As a body counts them: inputs, what is drawn in the place of one, and results.
        self.place = {n: place for place, n in enumerate([*range(count), *drawn, *others])}
        if (chain.inputs or drawn) and all(map(self._has_functor, steps)):
            made = tuple([self._drawn(chain.instructions[n - count]) for n in drawn])
            inputs = (*[x.dtype for x in chain.inputs], *[x.of for x in made])
            self.body = Body(
                inputs, tuple([self._step(step) for step in steps]),
                tuple([self.place[n] for n in chain.stores]), made,
            )  # fmt: skip

    def _has_functor(self, step: Instruction) -> bool:
        what, loop = step.what, step.what.loop
        if what.family not in FAMILIES or stub.registered(what.family, loop, "cuda") is not None:
            return False
        if what.entry.plan.scalar_operands:  # the CPU's, which have no address here
            return False
        if what.family != "copy" and what.family != "where":
            name = "add_alpha" if loop == "sub_alpha" else loop
            if not variants.has(what.family, name, what.compute):
                return False
        scalars = [self.chain.scalars[~n] for n in (*step.operands, *step.params) if n < 0]
        return all(kind in NUMBERS for kind in scalars)

    def _drawn(self, step: Instruction) -> Drawn:
        what, slot = step.what, len(self.packing)
        self.packing += chain_launch.packers_of_stream(slot, ~step.params[0], what.loop)
        return Drawn(what.loop, what.result, slot, what.operator.qualified_name)

    def _step(self, step: Instruction) -> Step:
        """A step whose numbers have slots of their own."""
        what, first = step.what, len(self.packing)
        numbers = [n for n in step.operands if n < 0]
        slots = iter(range(first, first + len(numbers)))
        inputs = tuple([self.place[n] if n >= 0 else ~next(slots) for n in step.operands])
        params = tuple(range(first + len(numbers), first + len(numbers) + len(step.params)))
        made = Step(
            what.family, what.loop, what.compute, what.result, inputs, params,
            what.operator.qualified_name,
        )  # fmt: skip
        self.packing += chain_launch.packers(made, [~n for n in (*numbers, *step.params)])
        return made


def _plan(chain: Chain) -> Plan:
    """One walk of all operands."""
    outputs = [(chain.geometry(n), chain.device) for n in chain.stores]
    # Places in a stream are counted as the elements of a tensor in row-major order.
    places = [contiguous_geometry(x.sizes, x.dtype) for x in map(chain.geometry, chain.drawn)]
    return plan_of(outputs, [(x, chain.device) for x in (*chain.inputs, *places)])


def plan_of(outputs: list[tuple[Geometry, Any]], inputs: list[tuple[Geometry, Any]]) -> Plan:
    """The plan of operands that are all there."""
    default = defaults.get_default_dtype()
    return build("fuse", _CONFIG, tuple(outputs), tuple(inputs), default_dtype=default)
