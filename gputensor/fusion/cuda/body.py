"""The parts of a chain's CUDA kernel: its functors, and the strides of its operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.geometry import contiguous_geometry
from ...dispatch import defaults
from ...iterator.config import Config
from ...iterator.plan import build
from ...kernels import stub
from ...kernels.cuda import chain_launch, variants
from ...kernels.cuda.chain_source import FAMILIES, Body, Drawn, Step
from ...structured.pointwise import NUMBERS
from ..chain import Chain, Instruction
from ..running import Run

# The check of dtypes is off because a chain's operands may have different ones. The checks of
# devices and overlap are off because they were made when the operators were recorded.
_CONFIG = Config(
    check_mem_overlap=False, check_all_same_dtype=False, check_all_same_device=False,
    resize_outputs=False, cast_common_dtype_to_outputs=True,
)  # fmt: skip


def launched(chain: Chain) -> Run | None:
    """Return a function that launches a chain without reductions: see `cuda.prepare`."""
    made = Written(chain)
    if made.body is None:
        return None
    # Positions in a stream are counted in row-major order.
    drawn = [contiguous_geometry(x.sizes, x.dtype) for x in map(chain.geometry, chain.drawn)]
    outputs = tuple([(chain.geometry(n), chain.device) for n in chain.stores])
    inputs = tuple([(x, chain.device) for x in (*chain.inputs, *drawn)])
    default = defaults.get_default_dtype()
    plan = build("fuse", _CONFIG, outputs, inputs, default_dtype=default)
    launch = chain_launch.bind(made.body, plan, made.packing)
    if launch is None:
        return None
    index, places = chain.device.index, (0,) * len(chain.drawn)

    def run(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> None:
        addresses = [x._address() for x in (*outputs, *inputs)]
        launch(index, (*addresses, *places), tuple(scalars))

    return run


def over_lists(chain: Chain, at: Sequence[int]) -> chain_launch.Lists | None:
    """Return the launch of an elementwise chain over many tuples of dense tensors. Return None if
    one kernel cannot compute it. at: for each output and each input of the chain, its place in a
    tuple."""
    made = Written(chain)
    if chain.is_reduced or chain.drawn or made.body is None:
        return None
    return chain_launch.bind_lists(made.body, at, made.packing)


class Written:
    """A chain in the form that chain_source.py takes as input.

    body: the chain's source, or None if an operator has no functor. packing: the list of the
    scalars of all bodies of a kernel; the scalars of this body are appended.
    """

    def __init__(self, chain: Chain, packing: list[chain_launch.Packer] | None = None) -> None:
        self.chain: Chain = chain
        self.packing: list[chain_launch.Packer] = [] if packing is None else packing
        self.body: Body | None = None
        drawn, given = chain.drawn, range(len(chain.inputs))
        others = [n for n in chain.steps if n not in drawn]
        steps = [chain.steps[n] for n in others]
        # The values of a body are numbered in this order: inputs in memory, random values that the
        # kernel draws instead of loading them, results of the other steps.
        self.place = {n: place for place, n in enumerate([*given, *drawn, *others])}
        if (chain.inputs or drawn) and all(map(self._has_functor, steps)):
            made = tuple([self._drawn(chain.steps[n]) for n in drawn])
            inputs = (*[x.dtype for x in chain.inputs], *[x.of for x in made])
            self.body = Body(
                inputs, tuple([self._step(step) for step in steps]),
                tuple([self.place[n] for n in chain.stores]), made,
            )  # fmt: skip

    def _has_functor(self, step: Instruction) -> bool:
        what, loop = step.what, step.what.loop
        if what.family == "softmax":  # only in cuda/rows.py
            return True
        if what.family not in FAMILIES or stub.registered(what.family, loop, "cuda") is not None:
            return False
        if what.entry.plan.scalar_operands:  # 0-d CPU operands have no address on the device
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
        """Return the source of one instruction. Each of its scalars gets a slot of its own."""
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
