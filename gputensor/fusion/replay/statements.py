"""The computation of a traced call, as lines of Python.

On the CPU, a chain becomes one call for each of its stages, over arrays. On other devices, chains
run as in a block, over tensors. Operators outside of chains are called over tensors. A value has
the form of an array, of a tensor, or both. The first step that needs the missing form makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ... import runtime
from ..._generated import calls
from ...core._generated import index
from ...core.device import CPU
from ...core.geometry import Geometry
from ...dispatch import tls
from ...dispatch.operator import Operator
from ...runtime import capture
from ...structured.generator import Generator
from ...tensor.make import CPU_KEYS, allocate, from_storage
from ...tensor.tensor import Tensor, blank
from .. import cpu, running
from ..chain import Chain, Stream
from ..running import memory, otherwise
from .trace import Step, Taken, Trace

Array = Any


class _Root(NamedTuple):
    """The dense memory under a view: the memory of value `number`, from element `offset` on."""

    number: int
    offset: int
    geometry: Geometry


class Statements:
    """The source of a call's computation. lines: statements that run all steps; afterwards each
    wanted value is a tensor. In the lines, `t3` is the tensor of value 3, `v3` is the array of
    value 3, and `x3` is the given tensor at place 3 of the call's values. names: the objects to
    which the lines refer."""

    def __init__(self, trace: Trace, wanted: list[int], values: list[Any]) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "ndarray": np.ndarray, "allocate": allocate, "CPU": CPU, "blank": blank,
            "keys": CPU_KEYS, "from_storage": from_storage,
        }  # fmt: skip
        self._trace, self._undo = trace, "None"
        self._places = [n for n, x in enumerate(values) if type(x) is Tensor]
        self._arrays: set[int] = set()
        self._tensors = {*range(trace.n_given)}
        roots = _views(trace, wanted, [values[n] for n in self._places])
        under = {n: root.number for n, root in roots.items()}
        used = [
            {x for n in (*step.takes, *step.makes) for x in (n, under.get(n, n))}
            for step in trace.steps
        ]
        last = {n: place for place, numbers in enumerate(used) for n in numbers}
        self._draw()
        for number, step in enumerate(trace.steps):
            if step.chain is None and step.makes[0] in roots:
                self._views_of(step, roots)
            elif step.chain is None:
                self._call(number, step)
            elif step.chain.device is CPU:
                self._stages(number, step, step.chain)
            else:
                self._launch(number, step, step.chain)
            dead = {n for n in used[number] if last[n] == number and n >= trace.n_given}
            for n in sorted(dead.difference(wanted)):
                self.lines += [f"del v{n}"] * (n in self._arrays)
                self.lines += [f"del t{n}"] * (n in self._tensors)
        for n in wanted:
            self._tensor(n)

    def _draw(self) -> None:
        """Write statements that take the random numbers of the call from their generators."""
        names, draws = self.names, self._trace.draws
        if any([generator.device is not CPU for _, generator, _ in draws]):
            # During a graph capture, the traced function itself must run instead of these
            # statements, because its draws make the graph read the position in the random stream.
            names["capturing"] = capture.capturing
            self.lines += ["if capturing:", "    return None"]
        if draws and any([step.operator is not None for step in self._trace.steps]):
            generators = [generator for _, generator, _ in draws]
            names["states_of"] = lambda: [(x, x.mark()) for x in generators]
            names["undone"] = _undone
            self.lines.append("states = states_of()")
            self._undo = "undone(states)"
        for n, (stream, generator, numel) in enumerate(draws):
            names[f"of_stream{n}"] = partial(stream.taken, generator, numel)
            self.lines.append(f"stream{n} = of_stream{n}()")

    def _array(self, n: int) -> str:
        """Return the name of a value's array. If the array does not exist, write statements that
        make it."""
        if n not in self._arrays:
            self._arrays.add(n)
            x = self._tensor(n)
            self.lines.append(f"v{n} = {x}._array")
            self.lines += [f"if v{n} is None:", f"    v{n} = {x}._get_array()"]
        return f"v{n}"

    def _tensor(self, n: int) -> str:
        """Return the name of a value's tensor. If the tensor does not exist, write statements that
        make it."""
        if n < self._trace.n_given:
            return f"x{self._places[n]}"
        # the lines do the work of `from_array` in a thread that is in no block
        if n not in self._tensors:
            self._tensors.add(n)
            self.lines += [
                f"t{n} = blank()", f"t{n}._geometry = g{n}_", f"t{n}._keys = keys",
                f"t{n}._device = CPU", f"t{n}._storage = None", f"t{n}._offset = 0",
                f"t{n}._array = v{n}", f"t{n}._autograd = None",
            ]  # fmt: skip
            self._count(n)
        return f"t{n}"

    def _allocate(self, n: int, shape: Geometry, place: Any) -> None:
        self.names.update({f"g{n}_": shape, f"device{n}": place})
        self._tensors.add(n)
        self.lines.append(f"t{n} = allocate(g{n}_, device{n})")

    def _count(self, n: int, is_counted: bool = False) -> None:
        """Write statements that set the version of a chain's result. is_counted: the run of the
        chain may have increased the version."""
        version = self._trace.versions.get(n)
        if version:
            self.lines.append(f"t{n}._get_storage().version = {version}")
        elif is_counted:
            self.lines += [f"if t{n}._storage is not None:", f"    t{n}._storage.version = 0"]

    def _numbers(self, number: int, step: Step) -> str:
        """Return the name of the list of a chain's scalars."""
        name, numbers = f"numbers{number}", list[str]()
        streams = {id(stream): f"stream{n}" for n, (stream, *_) in enumerate(self._trace.draws)}
        for n, x in enumerate(step.scalars):
            numbers.append(streams[id(x)] if type(x) is Stream else f"s{number}_{n}")
            self.names[f"s{number}_{n}"] = x
        if any([type(x) is Stream for x in step.scalars]):
            self.lines.append(f"{name} = [{', '.join(numbers)}]")
        else:
            self.names[name] = step.scalars
        return name

    def _launch(self, number: int, step: Step, chain: Chain) -> None:
        """Write the call of the function that runs a chain on a device."""
        self.names[f"run{number}"] = running.prepared(chain)
        given = ", ".join([self._tensor(n) for n in step.takes])
        for n, value in zip(step.makes, chain.stores):
            self._allocate(n, chain.made(value), chain.device)
        made = ", ".join([f"t{n}" for n in step.makes])
        self.lines.append(f"run{number}([{given}], [{made}], {self._numbers(number, step)})")
        for n in step.makes:
            self._count(n, True)

    def _stages(self, number: int, step: Step, chain: Chain) -> None:
        """Append the source lines that run a chain on the CPU: one call for each stage. The
        operands of these calls are arrays."""
        names, numbers = self.names, self._numbers(number, step)
        values = {x: self._array(n) for x, n in enumerate(step.takes)}
        again = []
        for n, x in zip(step.makes, chain.stores):
            made = self._result(n, chain.made(x))
            if chain.made(x) is not chain.geometry(x):
                if chain.made(x).in_numpy:
                    self._view(f"seen{n}", made, 0, chain.geometry(x))
                else:
                    names[f"g_seen{n}"] = chain.geometry(x)
                    of = f"{self._tensor(n)}._get_storage(), 0, g_seen{n}, keys"
                    self.lines.append(f"seen{n} = from_storage({of})._get_array()")
                made = f"seen{n}"
            if (first := values.setdefault(x, made)) is not made:
                again.append(f"{made}[...] = {first}")
        stages = cpu.stages(chain)
        for place, one in enumerate(stages):
            for x in one.makes:
                if x not in values:
                    values[x] = f"u{number}_{x}"
                    self._empty(values[x], chain.geometry(x))
            run = f"run{number}_{place}"
            names[run] = one.program or one.run
            lists = [f"[{', '.join([values[x] for x in of])}]" for of in (one.takes, one.makes)]
            given = f"{', '.join(lists)}, {numbers}"
            call = f"{run}({given})"
            if one.program is not None:
                arrays = ", ".join([values[x] for x in (*one.makes, *one.takes)])
                call = f"{run}({arrays}, {numbers}, True)"
            self.lines.append(f"if {call} is False:" if one.steps else call)
            if one.steps:
                names[f"{run}_"] = otherwise(chain, one)
                self.lines.append(f"    {run}_({given})")
            read = {x for later in stages[place + 1 :] for x in later.takes}
            dead = [x for x, name in values.items() if name[0] == "u" and x not in read]
            self.lines += [f"del {values.pop(x)}" for x in dead]
        self.lines += again

    def _view(self, name: str, base: str, offset: int, shape: Geometry) -> None:
        """Write a statement that makes an array over the memory of another array."""
        of, nbytes = self.names, shape.dtype.itemsize
        of.update({f"sizes_{name}": shape.sizes, f"dtype_{name}": shape.dtype.np})
        of[f"strides_{name}"] = shape.stride_bytes
        where = f"{base}, {offset * nbytes}, strides_{name}"
        self.lines.append(f"{name} = ndarray(sizes_{name}, dtype_{name}, {where})")

    def _result(self, n: int, shape: Geometry) -> str:
        """Write the allocation of a program's result. Return the name of its array."""
        if not _is_of_array(shape):
            self._allocate(n, shape, CPU)
            self._count(n)
            return self._array(n)
        self.names[f"g{n}_"] = shape
        self._arrays.add(n)
        self._empty(f"v{n}", shape)
        return f"v{n}"

    def _empty(self, name: str, shape: Geometry) -> None:
        """Write the allocation of an array."""
        empty = np.empty if shape.in_numpy else runtime.cpu.empty
        new = partial(empty, shape.sizes, shape.dtype.np)
        self.names[f"new_{name}"] = new if _is_of_array(shape) else partial(memory, shape, CPU)
        self.lines.append(f"{name} = new_{name}()")

    def _views_of(self, step: Step, roots: dict[int, _Root]) -> None:
        """Write statements that make arrays over the memory of a base, for views that only chains
        read."""
        for n in step.makes:
            base, offset, shape = roots[n]
            self.names[f"g{n}_"] = shape
            self._view(f"v{n}", self._array(base), offset, shape)
            self._arrays.add(n)

    def _call(self, number: int, step: Step) -> None:
        """Write the call of an operator outside of chains, and the test that its results have the
        traced geometries, which later steps need."""
        assert step.operator is not None
        schema = step.operator.schema
        (returned, *others), is_tuple = schema.returns, schema.has_one_tuple
        self.names[f"call{number}"] = _function_of(step.operator)
        given = [self._tensor(n) for n in step.takes]
        arguments = [
            self._argument(f"a{number}_{place}", x, given) for place, x in enumerate(step.arguments)
        ]
        made = ", ".join([f"t{n}" for n in step.makes])
        made += "," * bool(others or is_tuple or returned.type.is_list)
        self.lines.append(f"{made} = call{number}({', '.join(arguments)})")
        self.names.update(zip([f"g{n}_" for n in step.makes], step.geometries))
        tests = " or ".join([f"t{n}._geometry is not g{n}_" for n in step.makes])
        self.lines += [f"if {tests}:", f"    return {self._undo}"]
        self._tensors.update(step.makes)

    def _argument(self, name: str, value: Any, given: list[str]) -> str:
        """Return an expression, as source text, for an operator's argument. given: the names of the
        tensors that the operator takes."""
        if isinstance(value, Taken):
            return given[value.place]
        if type(value) in (list, tuple) and any([type(x) is Taken for x in value]):
            items = [self._argument(f"{name}_{n}", x, given) for n, x in enumerate(value)]
            return f"{type(value).__name__}(({', '.join(items)},))"
        self.names[name] = value
        return name


def _is_of_array(shape: Geometry) -> bool:
    """True if the memory of a CPU tensor of this layout may be a newly allocated NumPy array."""
    return shape.is_contiguous and not shape.dtype.is_float8


def _views(trace: Trace, wanted: list[int], given: list[Tensor]) -> dict[int, _Root]:
    """Return a dict that maps values to their `_Root`, for views of dense CPU memory that only
    chains read."""
    roots: dict[int, _Root] = {}
    dense = {n: x._geometry for n, x in enumerate(given) if x._device is CPU}
    for step in trace.steps:
        if step.chain is None:
            roots |= _roots_of(step, roots, dense)
        elif step.chain.device is CPU:
            dense |= {n: step.chain.made(x) for n, x in zip(step.makes, step.chain.stores)}
    called = {*wanted}
    for step in reversed(trace.steps):
        if step.chain is None and not (step.makes[0] in roots and called.isdisjoint(step.makes)):
            called.update(step.takes)
            for n in step.makes:
                roots.pop(n, None)
    return roots


def _roots_of(step: Step, roots: dict[int, _Root], dense: dict[int, Geometry]) -> dict[int, _Root]:
    """Return a dict that maps values to their `_Root`, for the views that an operator makes. The
    dict is empty if the base is not dense, or if NumPy does not have the dtype."""
    if step.offsets is None:
        return {}
    base = step.takes[0]
    of, shape = roots.get(base), dense.get(base)
    if of is None and shape is not None and shape.is_row_major:
        of = _Root(base, 0, shape)
    if of is None or of.geometry.dtype.np.kind not in "biufc":
        return {}
    if any([x.dtype is not of.geometry.dtype or not x.numel for x in step.geometries]):
        return {}
    return {
        n: _Root(of.number, of.offset + offset, x)
        for n, offset, x in zip(step.makes, step.offsets, step.geometries)
    }


def _function_of(operator: Operator) -> Callable[..., Any]:
    """Return a function that calls an operator: the function that native code uses, with short
    cuts, or a function that calls the operator through its table."""
    name = operator.qualified_name.removeprefix("aten::").replace(".", "_")
    if name in index.CALLS:
        found: Callable[..., Any] = getattr(calls, name)
        return found
    include, keep = tls.PLAIN

    def call(*arguments: Any) -> Any:
        key_set = include
        for x in arguments:
            for tensor in x if type(x) in (list, tuple) else (x,):
                if isinstance(tensor, Tensor):
                    key_set |= tensor._keys
        key_set &= keep
        return operator.table[key_set](key_set, *arguments)

    return call


def _undone(states: list[tuple[Generator, Any]]) -> None:
    """Reset the generators to their states before the call, because the function's Python must run
    instead."""
    for generator, state in reversed(states):
        generator.return_to(state)
