"""A traced call over few elements on the CPU, as one Python function of arrays.

It runs the operators' own loops one after the other. For a few microseconds of work, only the cost
around the loops can be saved. NumPy allocates as for the operators alone, but a ufunc reuses the
memory of a result that is no longer needed, and numbers are arrays made once; both save a tenth of
the remaining time. A chain that is one program of the library is one call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...core.device import CPU
from ...core.dtype import float32, float64, int32, int64
from ...core.geometry import Geometry
from ...kernels.cpu import quiet
from ..cpu import programs
from ..chain import Chain, Instruction
from .trace import Step, Trace

Arrays = Callable[..., Any]


def compiled(trace: Trace, wanted: list[int]) -> Arrays | None:
    """A function from the arrays of the trace's tensors, followed by the streams of its draws, to
    the arrays with these numbers, a tuple unless it is one. None if a chain or generator is on
    another device, or a chain has too many elements for NumPy's own allocation."""
    if any([generator.device.type != CPU.type for _, generator, _ in trace.draws]):
        return None
    names: dict[str, Any] = {"empty": np.empty}
    lines: list[str] = []
    for number, step in enumerate(trace.steps):
        chain = step.chain
        if (
            chain is None
            or chain.device is not CPU
            or not all([x.what.geometry.in_numpy for x in chain.instructions])
        ):
            return None
        lines += _Writer(chain, step, f"{number}_", names, trace.drawn(step)).lines()
    given = ", ".join([*[f"v{n}" for n in taken(trace)], *streams(trace)])
    made = ", ".join([f"v{n}" for n in wanted])
    lines = [f"def call({given}):", *lines, f"return {made}" if wanted else "return ()"]
    source = "\n    ".join(lines)
    exec(source, names)  # the source consists of the names above, and numbers
    found: Arrays = names["call"]
    return found


def taken(trace: Trace) -> list[int]:
    """The given tensors that the call's chains read."""
    return sorted({n for step in trace.steps for n in step.takes if n < trace.n_given})


def streams(trace: Trace) -> list[str]:
    """The names of the streams that a call takes."""
    return [f"stream{n}" for n in range(len(trace.draws))]


class _Writer:
    """Writes a chain's statements. prefix: of its own names. names: receives the objects that names
    stand for. drawn: see `Trace.drawn`."""

    def __init__(
        self, chain: Chain, step: Step, prefix: str, names: dict[str, Any], drawn: dict[int, int]
    ) -> None:
        self.chain, self.step, self.prefix, self.names = chain, step, prefix, names
        self.drawn = drawn
        self.values = [f"v{n}" for n in step.takes]  # the name of each value's array
        # The last reader of each value, and the names of free arrays by their geometry.
        self.last = {x: n for n, one in enumerate(chain.instructions) for x in one.operands}
        self.free: dict[Geometry, list[str]] = {}
        self.own: set[int] = set()  # values whose memory this code allocates

    def lines(self) -> list[str]:
        chain, step = self.chain, self.step
        lines = []
        for n, instruction in enumerate(chain.instructions):
            value = len(self.values)
            places = [made for made, stored in zip(step.makes, chain.stores) if stored == value]
            name = f"v{places[0]}" if places else f"t{self.prefix}{n}"
            lines += self._statements(n, instruction, name)
            lines += [f"v{other} = {name}.copy()" for other in places[1:]]
            self.values.append(name if instruction.what.turned is None else f"w{name}")
        part = None if chain.drawn else programs.whole(chain)
        is_seen_otherwise = any(chain.are_seen_otherwise)
        if part is None or is_seen_otherwise or len(part.stores) != len(chain.stores):
            return lines
        program, numbers = f"program{self.prefix}", f"numbers{self.prefix}"
        self.names[program], self.names[numbers] = part.run, step.scalars
        stored = [f"v{step.makes[chain.stores.index(x)]}" for x in part.stores]
        before = [
            f"{name} = {self._empty(chain.made(x))}" for name, x in zip(stored, part.stores)
        ]  # fmt: skip
        given = ", ".join([*stored, *[f"v{step.takes[x]}" for x in part.inputs]])
        return [
            *before, f"if not {program}({given}, {numbers}, True):", *["    " + x for x in lines]
        ]  # fmt: skip

    def _statements(self, n: int, instruction: Instruction, name: str) -> list[str]:
        what, values = instruction.what, self.values
        loop = f"{what.operator.short_name.rstrip('_')}{self.prefix}{n}"
        if what.part:
            made = f"{values[instruction.operands[0]]}_{what.part}"
            return [f"{name} = {made}.reshape({what.geometry.sizes})"]
        if what.whole is not None:
            self.names[loop] = partial(_results, what, len(instruction.operands))
            given = [values[x] for x in instruction.operands]
            given += [self._number(x, instruction) for x in instruction.params]
            made = ", ".join([f"{name}_{n}" for n in range(1, len(what.entry.plan.outputs))])
            return [f"{name}, {made} = {loop}({', '.join(given)})"]
        if what.reduces is not None:
            entry = what.entry
            run = partial(_reduce, entry.run, entry.axes, entry.keepdim, what.geometry)
            self.names[loop] = run
            return [f"{name} = {loop}({values[instruction.operands[0]]})"]
        run = self.names[loop] = what.entry.loop
        is_ufunc = isinstance(run, np.ufunc)
        given = [
            values[x] if x >= 0 else self._number(x, instruction) for x in instruction.operands
        ]
        given += [self._number(x, instruction) for x in instruction.params]
        if is_ufunc and what.geometry.numel > 1:  # for a single operand, NumPy uses another loop
            for x in {*instruction.operands}:
                if x in self.own and self.last[x] == n:
                    self.free.setdefault(self.chain.geometry(x), []).append(values[x])
            self._own(n, name)
            if free := self.free.get(what.geometry):
                return [f"{name} = {loop}({', '.join([*given, free.pop()])})"]
        if _allocates(what):
            return [f"{name} = {loop}({', '.join(given if is_ufunc else [*given, 'None'])})"]
        lines = [f"{name} = {self._empty(what.geometry)}"]
        if what.turned is not None:  # in the order of the result's dimensions
            order = f"o{name}"
            self.names[order] = what.turned
            lines.append(f"w{name} = {name}.transpose({order})")
            name = f"w{name}"
        return [*lines, f"{loop}({', '.join([*given, name])})"]

    def _own(self, n: int, name: str) -> None:
        if name.startswith("t"):
            self.own.add(len(self.chain.inputs) + n)

    def _empty(self, shape: Geometry) -> str:
        sizes, of = f"g{self.prefix}{id(shape)}", f"d{self.prefix}{id(shape)}"
        self.names[sizes], self.names[of] = shape.sizes, shape.dtype.np
        return f"empty({sizes}, {of})"

    def _number(self, x: int, instruction: Instruction) -> str:
        """The name of a scalar; of an array made from it if a ufunc gives the same result."""
        if ~x in self.drawn:
            return f"stream{self.drawn[~x]}"
        value, kind = self.step.scalars[~x], None
        if x in instruction.operands and isinstance(instruction.what.entry.loop, np.ufunc):
            kinds = {self.chain.geometry(n).dtype for n in instruction.operands if n >= 0}
            kind = kinds.pop() if len(kinds) == 1 else None
        if kind in _FLOATS and type(value) in (int, float) or kind in _INTS and type(value) is int:
            name = f"s{self.prefix}{~x}_{kind.short}"
            self.names[name] = quiet.run(np.array, value, kind.np)
            return name
        name = f"s{self.prefix}{~x}"
        self.names[name] = value
        return name


# NumPy rounds a number to the dtype of the other operand.
_FLOATS, _INTS = (float32, float64), (int32, int64)


def _reduce(run: Any, axes: Any, keepdim: bool, shape: Geometry, array: Any) -> Any:
    made = np.empty(shape.sizes, shape.dtype.np)
    run(array, axes, None, made, keepdim)
    return made


def _results(what: Any, count: int, *given: Any) -> Any:
    """All results of an operator of rows.py, of `count` operands and numbers."""
    made = [np.empty(what.seen.sizes, what.result.np)]
    others = what.entry.plan.outputs[1:]
    made += [np.empty(x.geometry.sizes, x.geometry.dtype.np) for x in others]
    what.entry.block(list(given[:count]), made, list(given[count:]))
    return [made[0].reshape(what.geometry.sizes), *made[1:]]


def _allocates(what: Any) -> bool:
    """True if the loop allocates the result when the operator runs alone."""
    writes = any([x.is_write for x in what.operator.schema.arguments])
    return not writes and getattr(what.entry, "numpy_allocates", False)
