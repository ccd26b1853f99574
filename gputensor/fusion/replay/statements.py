"""A traced call on the CPU, as statements over arrays.

A chain that is one program of the library is one call of it, on any number of elements. The other
chains of few elements run the operators' own loops one after the other: for a few microseconds of
work, only the cost around the loops can be saved. NumPy allocates as for the operators alone, but a
ufunc reuses the memory of a result that is no longer needed, and numbers are arrays made once; both
save a tenth of the remaining time. Other chains of many elements run as in a block.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...core.device import CPU
from ...core.dtype import float32, float64, int32, int64
from ...core.geometry import Geometry
from ...kernels.cpu import quiet
from ...tensor.make import allocate, from_array
from .. import cpu
from .. import running
from ..chain import Chain, Instruction
from ..cpu.programs import Program
from .trace import Step, Trace

Array = Any


class Statements:
    """The source of a function over arrays. lines: they read the array of each given tensor from
    `v` and its number, and the streams of random numbers; afterwards each wanted array is in such a
    variable too. names: the objects that the lines name. tensors: the numbers of results that are
    also tensors, in `t` and the number."""

    __slots__ = ("lines", "names", "tensors")

    def __init__(self, trace: Trace, wanted: list[int], roots: dict[int, _Root]) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "empty": np.empty, "ndarray": np.ndarray, "allocate": allocate, "CPU": CPU,
            "enter": quiet.enter, "again": quiet.again,
        }  # fmt: skip
        self.tensors: set[int] = set()
        last = {
            x: place for place, step in enumerate(trace.steps) for n in (*step.takes, *step.makes)
            for x in (n, roots[n].number)
        }  # fmt: skip
        for number, step in enumerate(trace.steps):
            if step.chain is not None:
                self._of_chain(number, step, step.chain, trace)
            else:
                for n in step.makes:
                    self._view(n, roots[n])
            used = {x for n in (*step.takes, *step.makes) for x in (n, roots[n].number)}
            dead = {n for n in used if last[n] == number}
            for n in sorted(dead - {*wanted, *range(trace.n_given)}):
                self.lines.append(f"del v{n}" + f", t{n}" * (n in self.tensors))

    def _view(self, n: int, root: _Root) -> None:
        """Write a view that chains read, as an array over the memory of a dense array."""
        shape = root.geometry
        strides = tuple([x * shape.dtype.itemsize for x in shape.strides])
        self.names.update(
            {f"sizes{n}": shape.sizes, f"dtype{n}": shape.dtype.np, f"strides{n}": strides}
        )
        at = root.offset * shape.dtype.itemsize
        self.lines.append(f"v{n} = ndarray(sizes{n}, dtype{n}, v{root.number}, {at}, strides{n})")

    def _of_chain(self, number: int, step: Step, chain: Chain, trace: Trace) -> None:
        drawn = trace.drawn(step)
        taken = [f"v{n}" for n in step.takes]
        if (program := cpu.program(chain)) is not None:
            self._program(number, step, chain, program)
        elif _is_small(chain):
            names = dict(self.names)
            lines = _Writer(chain, step, f"{number}_", names, drawn).lines()
            given = [*taken, *[f"stream{n}" for n in drawn.values()]]
            given = list(dict.fromkeys(given))
            made = [f"v{n}" for n in dict.fromkeys(step.makes)]
            self.names[f"steps{number}"] = written(
                given, [*lines, f"return {', '.join(made)}"], names
            )
            call = ", ".join([f"steps{number}", *given])
            results = ", ".join(made)
            self.lines += [
                "try:", f"    {results} = enter({call})", "except RuntimeError as error:",
                f"    {results} = again(error, {call})",
            ]  # fmt: skip
        else:
            self.names[f"run{number}"] = partial(_by_tensors, chain, step.scalars)
            made = [self._allocated(chain, n, x) for n, x in zip(step.makes, chain.stores)]
            self.lines.append(f"run{number}([{', '.join(taken)}], [{', '.join(made)}])")

    def _program(self, number: int, step: Step, chain: Chain, program: Program) -> None:
        """Write the call of a program. If the program declines, the chain runs as in a block."""
        names = self.names
        names[f"program{number}"], names[f"numbers{number}"] = program.run, step.scalars
        names[f"run{number}"] = partial(_by_tensors, chain, step.scalars)
        made = [self._allocated(chain, n, x) for n, x in zip(step.makes, chain.stores)]
        first = dict(reversed([*zip(chain.stores, made)]))
        arrays = [first[x] for x in program.stores]
        arrays += [f"v{step.takes[x]}" for x in program.inputs]
        for n, shape in enumerate(program.shapes):
            if shape is not None:
                names[f"shape{number}_{n}"] = shape
                arrays[n] += f".reshape(shape{number}_{n})"
        call = ", ".join([*arrays, f"numbers{number}", "True"])
        self.lines += [
            f"if not program{number}({call}):",
            f"    run{number}([{', '.join([f'v{n}' for n in step.takes])}], [{', '.join(made)}])",
        ]
        self.lines += [
            f"{name}[...] = {first[x]}" for x, name in zip(chain.stores, made) if name != first[x]
        ]

    def _allocated(self, chain: Chain, n: int, value: int) -> str:
        """Write the allocation of a result; return its name."""
        shape, what = chain.made(value), chain.instructions[value - len(chain.inputs)].what
        if shape.in_numpy or shape.is_row_major and _allocates(what):
            self.names.update({f"sizes{n}": shape.sizes, f"dtype{n}": shape.dtype.np})
            self.lines.append(f"v{n} = empty(sizes{n}, dtype{n})")
        else:
            self.tensors.add(n)
            self.names[f"geometry{n}"] = shape
            self.lines += [f"t{n} = allocate(geometry{n}, CPU)", f"v{n} = t{n}._get_array()"]
        return f"v{n}"


class _Root(NamedTuple):
    """The dense array over which a view lies: array `number`, from element `offset` on."""

    number: int
    offset: int
    geometry: Geometry


def compiled(trace: Trace, wanted: list[int], given: list[Geometry]) -> Statements | None:
    """The call's statements; None if they cannot be written: a chain or generator on another
    device, an operator that is in no chain and gives no view that chains read, or random numbers of
    many elements. given: the geometries of the given tensors."""
    if any([generator.device.type != CPU.type for _, generator, _ in trace.draws]):
        return None
    roots = {n: _Root(n, 0, shape) for n, shape in enumerate(given)}
    for step in trace.steps:
        chain = step.chain
        if chain is None:
            found = _views(step, roots.get(step.takes[0]) if step.takes else None)
            if found is None or not {*wanted}.isdisjoint(found):
                return None
            roots |= found
        elif chain.device is not CPU or chain.drawn and not _is_small(chain):
            return None
        else:
            roots |= {n: _Root(n, 0, chain.made(x)) for n, x in zip(step.makes, chain.stores)}
    return Statements(trace, wanted, roots)


def _views(step: Step, of: _Root | None) -> dict[int, _Root] | None:
    """Return the views that an operator gives, or None if they are not views of dense memory that
    NumPy owns."""
    if of is None or step.offsets is None or of.geometry.dtype.np.kind not in "biufc":
        return None
    shapes, first = step.geometries, of.number == step.takes[0]
    if first and not of.geometry.is_row_major:
        return None
    if any([x.dtype is not of.geometry.dtype or not x.numel for x in shapes]):
        return None
    return {
        n: _Root(of.number, of.offset + offset, shape)
        for n, offset, shape in zip(step.makes, step.offsets, shapes)
    }


def _is_small(chain: Chain) -> bool:
    """True if the loops run over all elements at once, and NumPy allocates every value."""
    shapes = [x.what.geometry for x in chain.instructions]
    return chain.walk.numel <= cpu.blocks.BLOCK and all([
        x.in_numpy or x.is_contiguous and not x.dtype.is_float8 for x in shapes
    ])  # fmt: skip


def _by_tensors(chain: Chain, scalars: list[Any], given: list[Array], made: list[Array]) -> None:
    """Run a chain as in a block. made: arrays of the geometries that it stores."""
    inputs = [from_array(x, shape) for x, shape in zip(given, chain.inputs)]
    outputs = [from_array(x, chain.made(value)) for x, value in zip(made, chain.stores)]
    running.prepared(chain)(inputs, outputs, scalars)


def taken(trace: Trace) -> list[int]:
    """The given tensors that the call's chains read."""
    return sorted({n for step in trace.steps for n in step.takes if n < trace.n_given})


def streams(trace: Trace) -> list[str]:
    """The names of the streams that a call takes."""
    return [f"stream{n}" for n in range(len(trace.draws))]


def written(given: list[str], lines: list[str], names: dict[str, Any]) -> Callable[..., Any]:
    """Return a compiled function with these arguments and lines. It can use `names` and our own
    numbers."""
    source = "\n    ".join([f"def call({', '.join(given)}):", *lines])
    exec(source, names)
    found: Callable[..., Any] = names["call"]
    return found


class _Writer:
    """Writes a chain's statements. prefix: of its own names. names: receives the objects that names
    stand for. drawn: see `Trace.drawn`."""

    def __init__(
        self, chain: Chain, step: Step, prefix: str, names: dict[str, Any], drawn: dict[int, int]
    ) -> None:
        self.chain, self.step, self.prefix, self.names = chain, step, prefix, names
        self.drawn = drawn
        self.values = [f"v{n}" for n in step.takes]  # the name of each value's array
        # The number of the last instruction that reads each value, and the names of free arrays by
        # geometry.
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
        return lines

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
        if is_ufunc and what.geometry.numel > 1:  # NumPy uses another loop for a single operand
            for x in {*instruction.operands}:
                if x in self.own and self.last[x] == n:
                    self.free.setdefault(self.chain.geometry(x), []).append(values[x])
            self._own(n, name)
            if free := self.free.get(what.geometry):
                return [f"{name} = {loop}({', '.join([*given, free.pop()])})"]
        if _allocates(what):
            return [f"{name} = {loop}({', '.join(given if is_ufunc else [*given, 'None'])})"]
        lines = [f"{name} = {self._empty(what.geometry)}"]
        if what.turned is not None:  # put the dimensions in the result's order
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
        """Return the name of a scalar, or the name of an array made from it if a ufunc gives the
        same result."""
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


# NumPy rounds a number to the dtype of the array operand.
_FLOATS, _INTS = (float32, float64), (int32, int64)


def _reduce(run: Any, axes: Any, keepdim: bool, shape: Geometry, array: Any) -> Any:
    made = np.empty(shape.sizes, shape.dtype.np)
    run(array, axes, None, made, keepdim)
    return made


def _results(what: Any, count: int, *given: Any) -> Any:
    """Return all results of an operator of rows.py. `given`: `count` operands, then numbers."""
    made = [np.empty(what.seen.sizes, what.result.np)]
    others = what.entry.plan.outputs[1:]
    made += [np.empty(x.geometry.sizes, x.geometry.dtype.np) for x in others]
    what.entry.block(list(given[:count]), made, list(given[count:]))
    return [made[0].reshape(what.geometry.sizes), *made[1:]]


def _allocates(what: Any) -> bool:
    """True if the loop allocates the result when the operator runs alone."""
    writes = any([x.is_write for x in what.operator.schema.arguments])
    return not writes and getattr(what.entry, "numpy_allocates", False)
