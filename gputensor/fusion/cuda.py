"""Chains on CUDA: one kernel, made of the functors of the operators' own kernels.

This names the operators' functors and the scalars that they take; kernels/cuda/chain_source.py
writes the text, and chain_launch.py launches it over one plan of all operands.
"""

from __future__ import annotations

from collections.abc import Callable
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

Run = Callable[[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]], None]

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
    launch = chain_launch.bind(written.body, _plan(chain, written), written.packing)
    if launch is None:
        return None
    values, from_cpu, index = written.on_device, written.from_cpu, chain.device.index

    def run(inputs: tuple[Any, ...], outputs: tuple[Any, ...], scalars: tuple[Any, ...]) -> None:
        pointers = [x._address() for x in outputs]
        pointers += [inputs[n]._address() for n in values]
        numbers = scalars
        if from_cpu:
            numbers = (*scalars, *[inputs[n]._get_array().item() for n in from_cpu])
        launch(index, tuple(pointers), numbers)

    return run


def source(chain: Chain) -> str | None:
    """The functor of a chain as it is compiled; None where `prepare` leaves it to the operators."""
    body = _Written(chain).body
    return None if body is None else functor(body)


class _Written:
    """A chain as chain_source.py takes it. on_device: inputs that have an address there, in their
    new order; from_cpu: those whose value travels with the launch."""

    __slots__ = ("chain", "body", "packing", "on_device", "from_cpu", "numbers")

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.packing: list[chain_launch.Packer] = []
        self.body: Body | None = None
        cpu = {
            step.operands[k - 1] for step in chain.instructions
            for k in step.what.entry.plan.scalar_operands
        }  # fmt: skip
        count = len(chain.inputs)
        self.from_cpu = sorted(n for n in cpu if n >= 0)
        self.on_device = [n for n in range(count) if n not in cpu]
        if not self.on_device or not all(map(self._has_functor, chain.instructions)):
            return
        # Numbers of the call behind the scalars of the chain: the values of the CPU's tensors.
        self.numbers = {n: len(chain.scalars) + k for k, n in enumerate(self.from_cpu)}
        steps = tuple([self._step(step) for step in chain.instructions])
        dtypes = tuple([chain.inputs[n].dtype for n in self.on_device])
        stores = tuple([self._value(n) for n in chain.stores])
        self.body = Body(dtypes, steps, stores)

    def _has_functor(self, step: Instruction) -> bool:
        family, loop = step.what.family, step.what.loop
        if family not in FAMILIES or stub.registered(family, loop, "cuda") is not None:
            return False
        if family != "copy" and family != "where":
            name = "add_alpha" if loop == "sub_alpha" else loop
            if not variants.has(family, name, step.what.compute):
                return False
        scalars = [self.chain.scalars[~n] for n in (*step.operands, *step.params) if n < 0]
        return all(kind in NUMBERS for kind in scalars)

    def _step(self, step: Instruction) -> Step:
        what, first = step.what, len(self.packing)
        sources = [n for n in step.operands if n < 0 or n in self.numbers]
        sources = [self.numbers[n] if n >= 0 else ~n for n in sources]
        inputs, slot = [], first
        for n in step.operands:
            if n < 0 or n in self.numbers:
                inputs.append(~slot)
                slot += 1
            else:
                inputs.append(self._value(n))
        params = tuple(range(slot, slot + len(step.params)))
        made = Step(
            what.family, what.loop, what.compute, what.result, tuple(inputs), params,
            what.operator.qualified_name,
        )  # fmt: skip
        self.packing += chain_launch.packers(made, [*sources, *[~n for n in step.params]])
        return made

    def _value(self, n: int) -> int:
        """The number of a value where the CPU's are left out."""
        count = len(self.chain.inputs)
        return self.on_device.index(n) if n < count else n - count + len(self.on_device)


def _plan(chain: Chain, written: _Written) -> Plan:
    """One walk of all operands."""
    outputs = [(chain.geometry(n), chain.device) for n in chain.stores]
    return plan_of(outputs, [(chain.inputs[n], chain.device) for n in written.on_device])


def plan_of(outputs: list[tuple[Geometry, Any]], inputs: list[tuple[Geometry, Any]]) -> Plan:
    """The plan of operands that are all there."""
    default = defaults.get_default_dtype()
    return build("fuse", _CONFIG, tuple(outputs), tuple(inputs), default_dtype=default)
