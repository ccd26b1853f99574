"""Chains on CUDA: one kernel, made of the functors of the operators' own kernels.

This names the operators' functors and the scalars that they take; kernels/cuda/chain_source.py
writes the text, and chain_launch.py launches it over one plan of all operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.geometry import Geometry
from ..dispatch import defaults
from ..iterator.config import Config
from ..iterator.plan import Plan, build
from ..kernels import stub
from ..kernels.cuda import chain_launch, variants
from ..kernels.cuda.chain_source import FAMILIES, Body, Step, functor
from ..structured.pointwise import NUMBERS
from .chain import Chain, Instruction

Run = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], None]

# Dtypes are each operator's; what overlaps was looked at as the operators were recorded.
_CONFIG = Config(
    check_mem_overlap=False, check_all_same_dtype=False, check_all_same_device=False,
    resize_outputs=False, cast_common_dtype_to_outputs=True,
)  # fmt: skip


def prepare(chain: Chain) -> Run | None:
    """What launches a chain; None where an operator has no functor of its own, or a kernel of
    somebody else's, and where one kernel cannot take so many operands. See Note [An executor]."""
    written = _Written(chain)
    if written.body is None:
        return None
    launch = chain_launch.bind(written.body, _plan(chain), written.packing)
    if launch is None:
        return None
    index = chain.device.index

    def run(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> None:
        launch(index, tuple([x._address() for x in (*outputs, *inputs)]), tuple(scalars))

    return run


def source(chain: Chain) -> str | None:
    """The functor of a chain as it is compiled; None where `prepare` leaves it to the operators."""
    body = _Written(chain).body
    return None if body is None else functor(body)


def written(chain: Chain) -> tuple[Body | None, list[chain_launch.Packer]]:
    """A chain's body, None where an operator has no functor; and the packing of its numbers."""
    made = _Written(chain)
    return made.body, made.packing


class _Written:
    """A chain as chain_source.py takes it: body, None where it cannot; packing, of its numbers."""

    __slots__ = ("chain", "body", "packing")

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.packing: list[chain_launch.Packer] = []
        self.body: Body | None = None
        if chain.inputs and all(map(self._has_functor, chain.instructions)):
            steps = tuple([self._step(step) for step in chain.instructions])
            self.body = Body(tuple([x.dtype for x in chain.inputs]), steps, chain.stores)

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

    def _step(self, step: Instruction) -> Step:
        """A step whose numbers have slots of their own."""
        what, first = step.what, len(self.packing)
        numbers = [n for n in step.operands if n < 0]
        slots = iter(range(first, first + len(numbers)))
        inputs = tuple([n if n >= 0 else ~next(slots) for n in step.operands])
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
    return plan_of(outputs, [(x, chain.device) for x in chain.inputs])


def plan_of(outputs: list[tuple[Geometry, Any]], inputs: list[tuple[Geometry, Any]]) -> Plan:
    """The plan of operands that are all there."""
    default = defaults.get_default_dtype()
    return build("fuse", _CONFIG, tuple(outputs), tuple(inputs), default_dtype=default)
