"""Chains with reductions as programs of the compiled library whose blocks are rows.

A row goes through all steps while it is in the cache: elementwise loops, and the family's own
function for a reduction or a softmax, over this row alone. The order in which a row is added up
does not depend on other rows, so the bits are those of the operators one by one. A reduction of
everything is cut into the runs that its function adds up separately (`CHUNK` and `PACKED` of
loops/reduction.cpp), and their results are merged pairwise, as there.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...core.dtype import STORED
from ...core.geometry import Geometry
from ...kernels import stub
from ...kernels.compiled import library
from ...kernels.compiled import reduce as names
from ...kernels.cpu import cast
from ...tensor.tensor import Tensor
from . import programs
from ..chain import Chain, Instruction

Array = Any
Run = Callable[[list[Tensor], list[Tensor], list[Any]], None]

# Limits of a row's length: calls cost more than the work on a shorter row, and a longer row does
# not fit the cache.
_SHORTEST, _LONGEST = 256, 1 << 14
# Elements that a function adds up before it merges sums: without a cast, and with one.
_CHUNK, _PACKED = 1 << 14, 1 << 11
# Arrays of a function are given as numbers: an operand's index, or one of these for the result and
# for a result that is dropped.
_RESULT = -1


def _unread(code: int) -> int:
    return -2 - code


class _Not(Exception):
    """Raised if the chain cannot be a program of rows."""


class _Whole(NamedTuple):
    """A reduction to one element. store: its index among the outputs. merge: the function that
    merges the results of runs, whose dtype is `part`. over: the divisor of a mean."""

    store: int
    merge: Any
    part: Any
    over: int | None


class _Rows:
    """A chain as a program of rows. shape: the number of rows and their length, or the number of
    elements. width: the longest row. views: the shape of each operand in the program. wholes:
    reductions to one element, by store."""

    def __init__(self, chain: Chain) -> None:
        self.chain, walk = chain, chain.walk
        count, steps = len(chain.inputs), chain.instructions
        taken = [x.what for x in steps if x.what.takes_rows]
        reduced = {tuple(sorted(x.whole or x.reduces or ())) for x in taken}
        first = min([min(dims or (walk.ndim,)) for dims in reduced], default=walk.ndim)
        if not walk.is_row_major or reduced != {tuple(range(first, walk.ndim))}:
            raise _Not
        self.first, self.lead, self.tail = first, walk.sizes[:first], walk.sizes[first:]
        read = {x for step in steps for x in step.operands}
        self.is_cut = prod(self.lead) == 1 and not any([
            n in read or x.what.family != "reduce"
            for n, x in enumerate(steps, count) if x.what.takes_rows
        ])  # fmt: skip
        n_rows, length = prod(self.lead), prod(self.tail)
        self.shape: tuple[int, ...] = (walk.numel,) if self.is_cut else (n_rows, length)
        self.width = _CHUNK if self.is_cut else length
        self.wholes: dict[int, _Whole] = {}
        if not self.is_cut and not _SHORTEST <= self.width <= _LONGEST:
            raise _Not
        if self.is_cut:
            self._cut()
        self.views = [self._view(x) for x in chain.inputs]
        # values with one element for each row
        self.rows = {
            n for n, x in enumerate(steps, count)
            if x.what.reduces is not None or x.what.walk.sizes != walk.sizes
        }  # fmt: skip
        self.stores = tuple(dict.fromkeys(chain.stores))
        said = tuple([self._said(n, step) for n, step in enumerate(steps, count)])
        self.run: Any = library.program(
            tuple([x.dtype.code for x in chain.inputs]), self.stores, said, self.width
        )
        if self.run is None:
            raise _Not

    def _cut(self) -> None:
        """Find the length of a run, and the function that merges the results of runs."""
        chain = self.chain
        widths = set()
        for value, step in enumerate(chain.instructions, len(chain.inputs)):
            what = step.what
            if not what.takes_rows:
                continue
            name, given = _name_of(step), what.kinds[0]
            kind, _, of = name.partition(" ")
            is_cast = given.is_floating_point and given.short != of and kind in _ADDED
            widths.add(_PACKED if is_cast else _CHUNK)
            part = what.result.np
            if is_cast or kind in _ADDED and what.compute.is_floating_point:
                part = what.compute.np
            merge = {"nansum": "sum", "mean": "sum"}.get(kind, kind)
            merge = f"{merge} {of}" if kind in _ADDED or kind in _EXTREMES else f"{kind} 8"
            if kind == "count":
                merge, part = "sum i64", np.dtype(np.int64)
            self.wholes[value] = _Whole(
                chain.stores.index(value), library.function("reduce", merge), part,
                chain.walk.numel if kind == "mean" else None,
            )  # fmt: skip
        if len(widths) != 1:
            raise _Not
        self.width = widths.pop()

    def _view(self, x: Geometry) -> tuple[int, ...]:
        """The shape in which the program takes an operand. Raises: _Not."""
        if x.numel == 1:
            return (1,) * len(self.shape)
        sizes = (1,) * (self.chain.walk.ndim - x.ndim) + x.sizes
        lead, tail = prod(sizes[: self.first]), prod(sizes[self.first :])
        is_whole = lead in (1, prod(self.lead)) and tail in (1, prod(self.tail))
        if not x.is_row_major or not is_whole:
            raise _Not
        if self.is_cut:
            if x.numel != self.shape[0]:
                raise _Not
            return self.shape
        return lead, tail

    def _said(self, value: int, step: Instruction) -> tuple[Any, ...]:
        """The step with this result, in the form that the library reads. Raises: _Not."""
        what, is_row = step.what, value in self.rows
        if what.part:
            raise _Not
        common, result = what.compute.code, what.result.code
        if stub.registered(what.family, what.loop, "cpu") is not None:
            raise _Not
        if not what.takes_rows:
            if what.family == "random" or not programs.is_known(self.chain, step):
                raise _Not
            return what.family, what.loop, common, result, step.operands, step.params, is_row
        family, name, arrays, integers = self._function(step)
        if any([self._is_narrow(x) for x in step.operands]) or step.params:
            raise _Not
        if step.operands and value in self.wholes:
            result = _code(self.wholes[value].part)
        return family, name, common, result, step.operands, (), is_row, arrays, integers, ()

    def _function(self, step: Instruction) -> tuple[str, str, tuple[int, ...], tuple[int, ...]]:
        """A function over rows: its family and name, its arrays, and its integers."""
        what = step.what
        places = tuple(range(len(step.operands)))
        if what.family == "softmax" and what.loop in _SOFTMAX:
            return "softmax", what.loop, (*places, _RESULT), (1,)
        if what.family == "moments" and what.loop == "logsumexp" and what.result.itemsize > 2:
            name = f"logsumexp {what.result.short}"
            return "moments", name, (0, _RESULT, _unread(what.result.code)), (2,)
        if what.family == "reduce":
            name = _name_of(step)
            return "reduce", name.replace("mean", "sum") if self.wholes else name, (0, -1), (2,)
        raise _Not

    def _is_narrow(self, value: int) -> bool:
        """True for an operand with fewer elements than a row has."""
        count = len(self.chain.inputs)
        if value >= count:
            return value in self.rows
        return value < 0 or self.views[value] != self.shape


_ADDED = ("sum", "mean", "nansum", "prod")
_EXTREMES = ("amax", "amin")
_SOFTMAX = ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward")


def _name_of(step: Instruction) -> str:
    """The library's name of a reduction. Raises: _Not if the operator uses another loop."""
    what = step.what
    name = names.name_of(what.loop, what.kinds[0], what.compute)
    is_own = what.whole is None and stub.is_compiled(what.entry.run)
    if name is None or not is_own or what.kinds[0].is_complex:
        raise _Not
    return name


def _code(of: Any) -> int:
    return next(d.code for d in STORED if d.np == of)


def prepare(chain: Chain) -> Run | None:
    """A function that runs the chain; None if it is no program of rows."""
    if library.choice().library is None or chain.drawn:
        return None
    try:
        made = _Rows(chain)
    except _Not:
        return None
    return _runner(chain, made)


def _runner(chain: Chain, made: _Rows) -> Run:
    from . import reductions

    program, views, stores, wholes = made.run, made.views, made.stores, made.wholes
    places = [chain.stores.index(x) for x in stores]
    rows = -(-chain.walk.numel // made.width) if made.is_cut else made.shape[0]
    one = (rows,) if made.is_cut else (rows, 1)
    kept = [one if x in made.rows else made.shape for x in stores]
    copies = [
        (n, chain.stores.index(x)) for n, x in enumerate(chain.stores)
        if chain.stores.index(x) != n
    ]  # fmt: skip
    otherwise: list[Run] = []

    def run(inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]) -> None:
        given = [x._get_array().reshape(view) for x, view in zip(inputs, views)]
        results = [
            np.empty(shape, wholes[x].part) if x in wholes
            else outputs[n]._get_array().reshape(shape)
            for x, n, shape in zip(stores, places, kept)
        ]  # fmt: skip
        if not program(*results, *given, scalars, True):
            if not otherwise:
                otherwise.append(reductions.prepare(chain))
            return otherwise[0](inputs, outputs, scalars)
        for x, part in zip(stores, results):
            if x in wholes:
                _finish(wholes[x], part, outputs[wholes[x].store]._get_array())
        for to, source in copies:
            outputs[to]._get_array()[...] = outputs[source]._get_array()

    return run


def _finish(whole: _Whole, parts: Array, out: Array) -> None:
    """Merge the results of runs in pairs and store the total."""
    while len(parts) > 1:
        half, rest = divmod(len(parts), 2)
        made = np.empty(half + rest, parts.dtype)
        whole.merge(parts[: 2 * half].reshape(half, 2), made[:half], 2)
        made[half:] = parts[2 * half :]
        parts = made
    if whole.over is not None:
        parts = parts / parts.dtype.type(whole.over)
    out[...] = cast.convert(parts, out.dtype).reshape(out.shape)
