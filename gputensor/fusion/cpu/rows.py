"""Chains with reductions as programs of the compiled library. Each block of such a program is a
row.

A row goes through all steps while it is in the cache: elementwise loops, and the operators' own
functions for reductions and softmax, over this row alone. The order in which a row is added up does
not depend on other rows, so the results have the same bits as if the operators ran one by one. A
reduction to one element is cut into the runs that its function adds up separately (`CHUNK` and
`PACKED` of loops/reduction.cpp). Their results are merged pairwise, as in that function.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple


from ...core.dtype import float32, float64, int64
from ...core.geometry import Geometry
from ...kernels import stub
from ...kernels.compiled import library
from ...kernels.compiled import reduce as names
from . import programs
from ..chain import Chain, Instruction
from ..running import Stage, of_program

Array = Any
# A function over rows: its family and name, its arrays, and its integers.
_Function = tuple[str, str, tuple[int, ...], tuple[int, ...]]

# The maximum length of a row. A longer row does not fit the cache.
_LONGEST = 1 << 14
# The number of elements that a function adds up before it merges partial sums: _CHUNK without a
# cast of the elements, _PACKED with a cast.
_CHUNK, _PACKED = 1 << 14, 1 << 11
# Codes of a function's arrays: the index of an operand; _RESULT for the result; _OF_VALUE plus the
# value for a second or later result; _UNREAD minus the dtype's code for a result that nothing
# reads; _NONE for no array.
_RESULT, _NONE, _OF_VALUE, _UNREAD = -1, -100, 100, -2


class _Not(Exception):
    """Raised if a chain cannot be a program of rows."""


class _Whole(NamedTuple):
    """A reduction of all elements to one, computed in runs of consecutive elements. Each run gives
    a partial result. merge: the name of the function that merges partial results. over: the divisor
    of a mean; 0 for other reductions. result: the dtype code of the output. part: the dtype code of
    partial results."""

    merge: str
    over: int
    result: int
    part: int


class _Rows:
    """A chain as a program of rows. by_row: the number of rows, and the length of a row. is_cut:
    True if the chain's only row is cut into runs of consecutive elements. shape: the shape over
    which the program runs: by_row, or the number of elements if is_cut. width: the length of a row
    or a run. views: the shape of each operand in the program. rows: the values with one element per
    row. wholes: maps a value to its reduction to one element."""

    def __init__(self, chain: Chain) -> None:
        self.chain, walk = chain, chain.walk
        taken = {n: x.what for n, x in chain.steps.items() if x.what.takes_rows}
        reduced = {x.dims for x in taken.values()}
        first = min([min(dims or (walk.ndim,)) for dims in reduced], default=walk.ndim)
        if not walk.is_row_major or reduced != {tuple(range(first, walk.ndim))}:
            raise _Not
        read = {x for step in chain.instructions for x in step.operands}
        self.first, n_rows, self.width = first, prod(walk.sizes[:first]), prod(walk.sizes[first:])
        self.wholes: dict[int, _Whole] = {}
        self.by_row = n_rows, self.width
        is_whole = n_rows == 1 and not any([n in read for n in taken])
        is_whole = is_whole and all([x.family == "reduce" for x in taken.values()])
        self.is_cut = is_whole and self._cut()
        self.shape: tuple[int, ...] = (walk.numel,) if self.is_cut else self.by_row
        if not self.is_cut and self.width > _LONGEST:
            raise _Not
        self.views = [self._view(x) for x in chain.inputs]
        self.rows = {
            n for n, x in chain.steps.items()
            if x.what.reduces is not None or x.what.walk.sizes != walk.sizes
        }  # fmt: skip
        self.stores = tuple(sorted({*chain.stores}))
        said = tuple([self._said(n, step) for n, step in chain.steps.items()])
        each = -(-walk.numel // self.width) if self.is_cut else n_rows
        one = (each,) if self.is_cut else (each, 1)
        self.kept = [one if x in self.rows else self.shape for x in self.stores]
        self.run: Any = library.program(
            tuple([x.dtype.code for x in chain.inputs]), self.stores, said, self.width,
            (*self.kept, *self.views),
            tuple([self.wholes[x][:3] if x in self.wholes else None for x in self.stores]),
        )  # fmt: skip
        if self.run is None or not all(map(self._is_seen, self.stores, self.kept)):
            raise _Not

    def _is_seen(self, value: int, shape: tuple[int, ...]) -> bool:
        """True if the program can write this result: it has the program's shape or is row-major."""
        chain, is_row = self.chain, value in self.rows
        made = chain.made(value) if is_row else chain.geometry(value)
        return made.is_row_major or chain.made(value).sizes == shape

    def _cut(self) -> bool:
        """Set `width` to the length of a run, and set `wholes`. Return False if a single run would
        have all elements."""
        chain, widths = self.chain, set()
        for value, step in chain.steps.items():
            what = step.what
            if not what.takes_rows:
                continue
            name, given = _name_of(step), what.kinds[0]
            kind, _, of = name.partition(" ")
            is_cast = given.is_floating_point and given.short != of and kind in _ADDED
            widths.add(_PACKED if is_cast else _CHUNK)
            part = what.result
            if is_cast or kind in _ADDED and what.compute.is_floating_point:
                part = what.compute
            merge = {"nansum": "sum", "mean": "sum"}.get(kind, kind)
            merge = f"{merge} {of}" if kind in _ADDED or kind in _EXTREMES else f"{kind} 8"
            if kind == "count":
                merge, part = "sum i64", int64
            over = chain.walk.numel if kind == "mean" else 0
            self.wholes[value] = _Whole(merge, over, what.result.code, part.code)
        if len(widths) != 1:
            raise _Not
        if self.width <= min(widths):
            self.wholes = {}
            return False
        self.width = widths.pop()
        return True

    def _view(self, x: Geometry) -> tuple[int, ...]:
        """Return the shape in which the program takes an operand. Raises: _Not."""
        if x.numel == 1:
            return (1,) * len(self.shape)
        sizes = (1,) * (self.chain.walk.ndim - x.ndim) + x.sizes
        seen = prod(sizes[: self.first]), prod(sizes[self.first :])
        if not x.is_row_major or not all([n in (1, of) for n, of in zip(seen, self.by_row)]):
            raise _Not
        return self.shape if self.is_cut else seen

    def _said(self, value: int, step: Instruction) -> tuple[Any, ...]:
        """Return the step that computes this result, in the form that the library reads. Raises:
        _Not."""
        what, is_row = step.what, value in self.rows
        common, result = what.compute.code, what.result.code
        if what.part:
            return "part", "", common, result, step.operands, (), is_row
        if stub.registered(what.family, what.loop, "cpu") is not None:
            raise _Not
        if not what.takes_rows:
            if what.family == "random" or not programs.is_known(self.chain, step):
                raise _Not
            return what.family, what.loop, common, result, step.operands, step.params, is_row
        family, name, arrays, integers = self._function(value, step)
        beside = step.operands[1:] if family == "norm" else ()
        if any([self._is_narrow(x) for x in step.operands if x not in beside]) or any([
            x >= len(self.views) or self.views[x] != (1, self.width) for x in beside
        ]):  # fmt: skip
            raise _Not
        if step.operands and value in self.wholes:
            result = self.wholes[value].part
        return (
            family, name, common, result, step.operands, step.params, is_row, arrays, integers, ()
        )  # fmt: skip

    def _function(self, value: int, step: Instruction) -> _Function:
        """Return the function that computes this result. Raises: _Not."""
        what = step.what
        places = tuple(range(len(step.operands)))
        if what.family == "norm":
            return self._norm(value, step)
        if step.params:
            raise _Not
        if what.family == "argreduce" and library.function("argreduce", what.loop):
            further = (self._further(value, 1, int64.code),) if what.whole else ()
            return "argreduce", what.loop, (0, _RESULT, *further), (1,)
        if what.family == "softmax" and what.loop in _SOFTMAX:
            return "softmax", what.loop, (*places, _RESULT), (1,)
        if what.family == "moments" and what.loop == "logsumexp" and what.result.itemsize > 2:
            name = f"logsumexp {what.result.short}"
            return "moments", name, (0, _RESULT, _UNREAD - what.result.code), (2,)
        if what.family == "reduce":
            name = _name_of(step)
            return "reduce", name.replace("mean", "sum") if self.wholes else name, (0, -1), (2,)
        raise _Not

    def _norm(self, value: int, step: Instruction) -> _Function:
        """Return the function of layer norm or RMS norm, which has no mean. The weight, bias, mean
        and 1 / deviation must be f64 for an f64 input, otherwise f32."""
        of = float64 if step.what.kinds[0] is float64 else float32
        chain = self.chain
        if any([x in chain.steps or chain.inputs[x].dtype is not of for x in step.operands[1:]]):
            raise _Not
        places = iter(range(1, 3))
        beside = [next(places) if is_there else _NONE for is_there in step.what.entry.has]
        parts = (1, 2) if step.what.loop == "layer_norm" else (0, 1)
        further = [self._further(value, part, of.code) if part else _NONE for part in parts]
        return "norm", "normalized", (0, *beside, _RESULT, *further), ()

    def _further(self, value: int, part: int, code: int) -> int:
        """Return the code of the array for a function's second or later result."""
        for n, step in self.chain.steps.items():
            if step.what.part == part and step.operands[0] == value:
                if step.what.result.code != code:
                    raise _Not
                return _OF_VALUE + n
        return _UNREAD - code

    def _is_narrow(self, value: int) -> bool:
        """True for an operand with fewer elements than a row."""
        if value in self.chain.steps:
            return value in self.rows
        return value < 0 or self.views[value] != self.shape


_ADDED = ("sum", "mean", "nansum", "prod")
_EXTREMES = ("amax", "amin")
_SOFTMAX = ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward")


def _name_of(step: Instruction) -> str:
    """Return the library's name of a reduction. Raises: _Not if the operator uses another loop."""
    what = step.what
    name = names.name_of(what.loop, what.kinds[0], what.compute)
    is_own = what.whole is None and stub.is_compiled(what.entry.run)
    if name is None or not is_own or what.kinds[0].is_complex:
        raise _Not
    return name


def program(chain: Chain) -> Stage | None:
    """Return the program of a chain with reductions, or None if the chain cannot be a program of
    rows."""
    if library.choice().library is None or chain.drawn:
        return None
    try:
        made = _Rows(chain)
    except _Not:
        return None
    return of_program(made.run, range(len(chain.inputs)), made.stores, [*chain.steps])
