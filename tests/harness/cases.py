"""A case: one row, sample, dtype and layout; and the forms in which an operator can be called."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from operator import attrgetter
from typing import Any

import numpy as np

import gputensor as gt
from codegen.load import load
from codegen.model import Op
from gputensor.core import dtype as dtypes
from gputensor.core.dtype import ALL, COMPLEX, FLOATING, STORED, dtype
from gputensor.core.errors import ArgumentTypeError
from gputensor.kernels.cpu.cast import readable

from ..rows import DEVICE, DTYPE, ROWS, Placeholder, Row, S
from . import compare, dtype_rules, operands, tier
from .operands import LAYOUTS, T

# test_forwards.py tests overloads that call another one, and aliases.
OPS = tuple(op for op in load().ops if not op.is_forward)


# In-place operators with other arguments than the operator of the same name.
_OF_OTHER_ARGUMENTS = ("copy_", "polygamma_")


def row_name(op: Op, bases: frozenset[str] = frozenset(o.base for o in OPS)) -> str:
    """Return the row of an overload: add for add_.Tensor. copy_ and normal_ have their own rows,
    because normal_ is not the in-place form of normal."""
    if op.kind == "inplace" and any(a.name == "generator" for a in op.arguments):
        return op.base
    if op.base in _OF_OTHER_ARGUMENTS:
        return op.base
    plain = op.base.rstrip("_")
    return plain if plain in bases else op.base


def _by_row() -> dict[str, tuple[Op, ...]]:
    found: dict[str, list[Op]] = {}
    for op in OPS:
        found.setdefault(row_name(op), []).append(op)
    return {name: tuple(ops) for name, ops in found.items()}


OPS_OF = _by_row()
# The overloads of each name.
OVERLOADS: dict[str, list[Op]] = {}
for _op in OPS:
    OVERLOADS.setdefault(_op.base, []).append(_op)
# Rows that can be called on the available devices.
CALLABLE = [row for row in ROWS.values() if not row.needs_backend]


def some(rows: list[Row], most: int) -> list[Row]:
    """See tier.some."""
    return tier.some(rows, lambda row: OPS_OF[row.name][0].family, most)


def packet(base: str) -> Any:
    return getattr(gt.ops.aten, base)


def operator_of(op: Op) -> Any:
    """`gt.ops.aten.add.Tensor`."""
    return getattr(packet(op.base), op.schema.name.overload or "default")


def takes(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return True if an overload's schema accepts the arguments."""
    operator = operator_of(op)
    try:
        operator.table.signature.arrange(operator, args, kwargs)
    except ArgumentTypeError:
        return False
    return True


class Case:
    """One call to make: a sample of a row with tensors of a dtype in a layout."""

    __slots__ = ("row", "sample", "dtype", "layout")

    def __init__(self, row: Row, sample: S, of: dtype, layout: str = "contiguous") -> None:
        self.row, self.sample, self.dtype, self.layout = row, sample, of, layout

    def __str__(self) -> str:
        shown = [_show(x, self.dtype) for x in self.sample.args]
        shown += [f"{name}={_show(x, self.dtype)}" for name, x in self.sample.kwargs.items()]
        return f"{self.row.name}({', '.join(shown)}) [{self.dtype.short}, {self.layout}]"

    def build(self, device: str = "cpu") -> Call:
        return Call(self, device)

    def tensors(self) -> list[T]:
        return [x for x in _leaves((self.sample.args, self.sample.kwargs)) if type(x) is T]

    def array(self, operand: T, position: int) -> np.ndarray:
        return operands.array_of(operand, self.dtype, self.layout, position)

    # -- expected results -------------------------------------------------------------------------

    def op(self) -> Op:
        """The overload that the call reaches, without out and in-place forms."""
        found = _reached.get((self.row.name, id(self.sample)))
        if found is None:
            call = self.build("cpu")
            forms = [op for op in OPS_OF[self.row.name] if op.kind != "out"]
            fits = [op for op in forms if takes(op, call.args, call.kwargs)]
            # Python code parses `x.to(device)`: no overload accepts these arguments
            found = next((op for op in fits if op.kind == "functional"), (fits or forms)[0])
            _reached[self.row.name, id(self.sample)] = found
        return found

    def expected(self) -> dtype_rules.Expected | None:
        """Return the dtypes of arithmetic and result, by the YAML; None if the call must raise."""
        op = self.op()
        if not op.dtypes:
            return self._own_dtype()
        meeting, promotes = [], op.dtypes.startswith("promoted")
        for x in _leaves(self.sample.args):
            if type(x) is T:
                if op.family != "where" or meeting or x is not self.sample.args[0]:
                    meeting.append((x.sizes, x.dtype or self.dtype))
            elif type(x) in (bool, int, float, complex) and promotes:
                if op.numbers or self.row.numbers_meet:
                    meeting.append(x)
        if not promotes and len({of for _, of in meeting}) > 1:
            return None
        wanted = self.sample.kwargs.get("dtype")
        rule = self.row.rule and self.row.rule(self.sample.args, self.sample.kwargs)
        found = dtype_rules.expected(rule or op.dtypes, op.family, meeting, wanted)
        refuses = self.row.refuses
        if found and refuses and refuses(meeting, self.sample.kwargs, found.compute):
            return None
        if found and self.row.result is not None:
            found.result = self.row.result(self.sample.args, self.sample.kwargs, found.result)
        return found

    def _own_dtype(self) -> dtype_rules.Expected:
        if self.row.result is not None:
            result = self.row.result(self.sample.args, self.sample.kwargs, self.dtype)
        else:
            tensors = self.tensors()
            first = (tensors[0].dtype or self.dtype) if tensors else dtypes.float32
            wanted = self.sample.kwargs.get("dtype", first)
            result = self.dtype if wanted is DTYPE else wanted or first
        return dtype_rules.Expected(None, result)

    def reference(self, expected: dtype_rules.Expected) -> Any:
        """Return the result of the row's reference, in the dtype of its arithmetic."""
        position = iter(range(99))

        def enter(x: Any) -> Any:
            if type(x) is T:
                array = self.array(x, next(position))
                mask = (
                    x.dtype is dtypes.bool_
                    and self.op().family == "where"
                    and x is self.sample.args[0]
                )
                if expected.compute is None or mask:
                    return readable(array)
                return widen(array, expected.compute)
            return _fill_in(x, self.dtype, "cpu")

        args = _map(self.sample.args, enter)
        kwargs = _map(self.sample.kwargs, enter)
        if expected.compute is not None:
            kwargs.pop("dtype", None)
        with np.errstate(all="ignore"):
            return self.row.ref(*args, **kwargs)


# (row, id of a sample) -> the overload that it reaches; ids stay valid, as rows keep samples.
_reached: dict[tuple[str, int], Op] = {}


def widen(array: np.ndarray, compute: dtype) -> np.ndarray:
    """Cast values to the dtype of the arithmetic, then to the widest dtype of its category."""
    if compute in (dtypes.float16, dtypes.bfloat16) and array.dtype.kind in "iu":
        array = array.astype(np.float32)  # wide integers are cast to 16-bit floats through float32
    with np.errstate(all="ignore"):
        narrow = compare.cast(array, compute)
    if compute.category == COMPLEX:
        return readable(narrow).astype(np.complex128)
    if compute.category == FLOATING:
        return narrow.astype(np.float64)
    if compute is dtypes.bool_ or compute is dtypes.uint64:
        return narrow
    return narrow.astype(np.int64)


class Call:
    """New arguments of a case on one device, and their storages."""

    __slots__ = ("case", "device", "args", "kwargs", "built")

    def __init__(self, case: Case, device: str) -> None:
        self.case, self.device = case, device
        self.built: list[operands.Built] = []

        def enter(x: Any) -> Any:
            if type(x) is not T:
                return _fill_in(x, case.dtype, device)
            made = operands.build(x, case.dtype, case.layout, len(self.built), device)
            self.built.append(made)
            return made.tensor.untyped_storage() if x.as_storage else made.tensor

        self.args = _map(case.sample.args, enter)
        self.kwargs = _map(case.sample.kwargs, enter)
        if OPS_OF[case.row.name][0].is_factory:
            self.kwargs["device"] = device

    def run(self) -> Any:
        """Call the operator in its main form."""
        gt.manual_seed(7)
        return flat(main_form(self.case.row.name)(self.args, self.kwargs))

    def assert_unchanged(self) -> None:
        """Raise if a storage has changed."""
        for number, made in enumerate(self.built):
            compare.assert_same(
                made.storage_now(), made.before, self.case, f"operand {number} was written to;"
            )


def flat(results: Any) -> Any:
    """Flatten lists among several results."""
    if not isinstance(results, (list, tuple)):
        return results
    return list(_leaves(list(results))) if list in map(type, results) else results


# --- forms ----------------------------------------------------------------------------------------


def public(op: Op) -> Callable[..., Any]:
    """`gt.add`, `gt.linalg.inv`."""
    found: Callable[..., Any] = attrgetter(op.public_name)(gt)
    return found


def as_function(name: str) -> Callable[..., Any] | None:
    ops = [op for op in OPS_OF[name] if op.is_public and op.kind != "out"]
    op = next((op for op in ops if "function" in op.variants), None)
    if op is None:
        return None
    function = public(op)
    return lambda args, kwargs: function(*args, **kwargs)


def as_method(name: str, base: str | None = None) -> Callable[..., Any] | None:
    """Return the method `base`, by default the row's name, as a function of self and arguments."""
    base = base or name
    overloads = OVERLOADS.get(base, [])
    methods = [op for op in overloads if "method" in op.variants]
    op = next(iter(methods), None)
    if op is None or not op.is_public:
        return None
    names = [argument.name for argument in op.arguments]
    place = names.index("self")

    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # some overloads are not methods, such as where(condition) and repeat_interleave(repeats);
        # Python code parses `x.to(device)`, which no overload accepts
        taking = [op for op in overloads if takes(op, args, kwargs)]
        if place >= len(args) or taking and not any(op in methods for op in taking):
            return packet(base)(*args, **kwargs)
        return getattr(args[place], base)(*args[:place], *args[place + 1 :], **kwargs)

    return call


def as_property(name: str) -> Callable[..., Any] | None:
    if not any("property" in op.variants for op in OPS_OF[name]):
        return None
    return lambda args, kwargs: getattr(args[0], name)


def as_packet(name: str) -> Callable[..., Any]:
    return lambda args, kwargs: packet(name)(*args, **kwargs)


def main_form(name: str) -> Callable[..., Any]:
    """Return the function, method or property, whichever exists; `gt.ops` for private operators."""
    return as_function(name) or as_method(name) or as_property(name) or as_packet(name)


# --- cases ----------------------------------------------------------------------------------------


def dtypes_of(row: Row) -> tuple[dtype, ...]:
    """Return the row's dtypes, by default all; complex32 only if the operator computes nothing."""
    computes = any(op.dtypes for op in OPS_OF[row.name])
    return row.dtypes or (ALL if computes else STORED)


def one_of_each_form(row: Row) -> list[Case]:
    """Return a valid case for each form of call in the row's samples (arguments and keywords)."""
    of = dtypes_of(row)
    chosen = dtypes.float32 if dtypes.float32 in of else of[0]
    found: dict[Any, Case] = {}
    for sample in row.samples:
        form = len(sample.args), tuple(sample.kwargs)
        fits = (Case(row, sample, x) for x in dict.fromkeys((chosen, *of)))
        case = found.get(form) or next((c for c in fits if c.expected() is not None), None)
        if case is not None:
            found[form] = case
    return list(found.values())


def cases(row: Row, *, crossed: bool) -> Iterator[Case]:
    """Return the row's samples × dtypes × layouts.

    crossed: every dtype in every layout. Otherwise every dtype in one layout and every layout in
    one dtype, which changes from sample to sample. The quick tier has fewer.
    """
    if not tier.is_full():
        yield from _spread(row)
        return
    computes = any(op.dtypes for op in OPS_OF[row.name])
    for number, sample in enumerate(row.samples):
        yield from _cross(row, sample, number, all_with_all=crossed and computes)


def long_cases(row: Row) -> list[Case]:
    """Return cases of thousands of elements, for vectors, blocks and remainders of loops.

    Only for rows that compute; ranks and broadcasts are those of the samples. Each overload gets
    each dtype and each layout, uncrossed in the full tier too, because kernels planned for a layout
    are built one by one.
    """
    return _spread(row, _lengthened(row)) if has_long_cases(row) else []


def has_long_cases(row: Row) -> bool:
    """Return True if long_cases(row) is not empty, without its cases."""
    computes = any(op.dtypes for op in OPS_OF[row.name])
    return computes and not row.like and bool(_lengthened(row))


@cache
def _lengthened(row: Row) -> tuple[S, ...]:
    """Return lengthened samples, one for each form of call and each sizes."""
    found: dict[str, S] = {}
    for sample in row.samples:
        tensors = [x for x in _leaves((sample.args, sample.kwargs)) if type(x) is T]
        factor = min((_factor(x.sizes) for x in tensors if x.sizes), default=1)
        if factor > 1:
            made = S(*_map(sample.args, lambda x, f=factor: _longer(x, f)))
            made.kwargs = _map(sample.kwargs, lambda x, f=factor: _longer(x, f))
            found.setdefault(str(Case(row, made, dtypes.float32)), made)
    return tuple(found.values())


def _factor(sizes: tuple[int, ...], most: int = 4500) -> int:
    """Return the largest common factor for all sizes other than 1."""
    count, dims = math.prod(sizes), sum(n != 1 for n in sizes)
    return int((most / count) ** (1 / dims)) if count and dims else 1


def _longer(x: Any, factor: int) -> Any:
    if type(x) is not T:
        return x
    sizes = [n if n == 1 else n * factor for n in x.sizes]
    return T(*sizes, values=x.values, dtype=x.dtype, layout=x.layout, as_storage=x.as_storage)


def _cross(row: Row, sample: S, number: int, *, all_with_all: bool = False) -> Iterator[Case]:
    if _is_fixed(sample):
        yield Case(row, sample, dtypes.float32)
        return
    takes, here = dtypes_of(row), _layouts(row, sample)
    if all_with_all:
        yield from (Case(row, sample, of, layout) for of in takes for layout in here)
        return
    for k in range(max(len(takes), len(here))):
        yield Case(row, sample, takes[(k + number) % len(takes)], here[k % len(here)])


@cache
def _spread(row: Row, samples: tuple[S, ...] | None = None) -> list[Case]:
    """Return each sample at least once, and each overload with each dtype and layout.

    As far as possible these are valid calls."""
    of_overload: dict[str, list[S]] = {}
    for sample in row.samples if samples is None else samples:
        reached = Case(row, sample, dtypes_of(row)[0]).op().name
        of_overload.setdefault(reached, []).append(sample)
    return [case for samples in of_overload.values() for case in _cover(row, samples)]


def _cover(row: Row, samples: list[S]) -> list[Case]:
    takes = dtypes_of(row)
    free = {s: _layouts(row, s) for s in samples if not _is_fixed(s)}
    made = [Case(row, sample, dtypes.float32) for sample in samples if _is_fixed(sample)]
    each = -(-len(takes) // max(len(free), 1))
    for place, sample in enumerate(s for s in free for _ in range(each)):
        here = free[sample]
        made.append(Case(row, sample, takes[place % len(takes)], here[place % len(here)]))
    # dtypes and layouts of invalid calls are tried again
    axes = {
        "sample": {*free},
        "dtype": {*takes},
        "layout": {x for here in free.values() for x in here},
    }
    for part, wanted in axes.items():
        wanted -= {getattr(case, part) for case in made if case.expected() is not None}
        for sample, of in product(free, takes) if wanted else ():
            for case in (Case(row, sample, of, layout) for layout in free[sample]):
                if getattr(case, part) in wanted and case.expected() is not None:
                    wanted.remove(getattr(case, part))
                    made.append(case)
    return made


def _is_fixed(sample: S) -> bool:
    """Return True if no tensor and no dtype can be chosen."""
    leaves = _leaves((sample.args, sample.kwargs))
    return all(type(x) is not T and x is not DTYPE for x in leaves)


def _layouts(row: Row, sample: S) -> list[str]:
    """Return layouts with at least one operand that is not contiguous."""
    free = [x for x in _leaves((sample.args, sample.kwargs)) if type(x) is T and x.layout is None]
    return [
        layout
        for layout in LAYOUTS
        if (layout == "contiguous" or any(operands.strides_of(x.sizes, layout) for x in free))
        and not (layout == "expanded" and row.refuses_expanded)
    ]


def _leaves(tree: Any) -> Iterator[Any]:
    if type(tree) in (tuple, list):
        for x in tree:
            yield from _leaves(x)
    elif type(tree) is dict:
        for x in tree.values():
            yield from _leaves(x)
    else:
        yield tree


def _map(tree: Any, enter: Callable[[Any], Any]) -> Any:
    if type(tree) in (tuple, list):
        return type(tree)(_map(x, enter) for x in tree)
    if type(tree) is dict:
        return {name: _map(x, enter) for name, x in tree.items()}
    return enter(tree)


def _fill_in(x: Any, of: dtype, device: str) -> Any:
    if type(x) is not Placeholder:
        return x
    return {id(DTYPE): of, id(DEVICE): device}[id(x)]


def _show(x: Any, of: dtype) -> str:
    if type(x) is T:
        size = ",".join(map(str, x.sizes))
        return f"{(x.dtype or of).short}[{size}]" + (f" {x.layout}" if x.layout else "")
    if type(x) in (tuple, list):
        return "[" + ", ".join(_show(y, of) for y in x) + "]"
    return repr(x)
