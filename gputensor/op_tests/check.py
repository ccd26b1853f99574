"""The op tests: run every sample on the CPU and on a device, compare the results, and report where
the device's kernels come from.

A call is `native` if it stayed on the device, `fallback` if part of it ran on the CPU, `missing` if
a kernel is missing, and `failed` if its result differs from the CPU's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import ops
from .._generated import functions
from .._generated.methods import GeneratedMethods
from ..core import errors
from ..core.device import device
from ..core.dtype import FLOATING, dtype
from ..dispatch import dispatcher, keys
from ..dispatch.backend_select import BACKEND_OF_TYPE
from ..kernels.cpu.cast import readable
from ..structured import missing as _missing
from ..structured.generator import manual_seed
from ..tensor.base import materialised
from ..tensor.tensor import Tensor
from . import operands
from .operands import LAYOUTS, T
from .samples import Fill, Samples

NATIVE, FALLBACK, MISSING, FAILED = "native", "fallback", "missing", "failed"
_WORST_LAST = (NATIVE, FALLBACK, MISSING, FAILED)


class Outcome:
    """The result of one operator's tests: the number of calls by status, the fallbacks and missing
    kernels, and the failures."""

    __slots__ = ("name", "counts", "served_elsewhere", "failures")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.counts = dict.fromkeys(_WORST_LAST, 0)
        self.served_elsewhere: set[str] = set()
        self.failures: list[str] = []

    @property
    def executed(self) -> int:
        """The number of calls that returned a result, correct or not."""
        return sum(self.counts.values()) - self.counts[MISSING]

    @property
    def status(self) -> str:
        """The worst status of the operator's calls."""
        return next((s for s in reversed(_WORST_LAST) if self.counts[s]), MISSING)

    def count(self, status: str, what: str = "") -> None:
        self.counts[status] += 1
        if status == FAILED:
            self.failures.append(what)


def check(rows: list[Samples], place: device, every: bool = False) -> Iterator[Outcome]:
    """Test the operators of `rows` on a device, and yield the outcome of each operator. A sample
    runs with one dtype and one layout or, if `every` is true, with all dtypes and layouts."""
    with _Watch(place) as watch:
        for row in rows:
            outcome = Outcome(row.name)
            for case in _cases(row, every):
                for form in _forms(row.name):
                    _run(case, form, place, watch, outcome)
            yield outcome


# --- the source of a kernel -----------------------------------------------------------------------


class _Watch:
    """A recorder of the operators for which the device's fallback was used. `_run` clears `seen`
    before each call."""

    def __init__(self, place: device) -> None:
        self.key = keys.runtime_key(BACKEND_OF_TYPE[place.type])
        self.seen: set[str] = set()

    def __enter__(self) -> _Watch:
        self.handle = dispatcher.add_wraps(self._wrap, self._wrap)
        _missing.on_fall_back.append(self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        self.handle.remove()
        _missing.on_fall_back.remove(self._note)

    def _note(self, operator: Any) -> None:
        self.seen.add(operator.qualified_name)

    def _wrap(self, table: Any, key: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
        if key is not self.key or table.slot(key)[1] != "backend fallback":
            return kernel

        def noted(key_set: int, *args: Any) -> Any:
            self._note(table.operator)
            return kernel(key_set, *args)

        return noted


# --- calls ----------------------------------------------------------------------------------------


class _Case:
    __slots__ = ("row", "args", "kwargs", "dtype", "layout")

    def __init__(self, row: Samples, sample: tuple[Any, Any], of: dtype, layout: str) -> None:
        self.row, (self.args, self.kwargs), self.dtype, self.layout = row, sample, of, layout

    def __str__(self) -> str:
        return f"{self.row.name}{_shown(self.args)} [{self.dtype.short}, {self.layout}]"

    def build(self, place: device) -> tuple[list[Any], dict[str, Any], list[Tensor]]:
        """Return (args, kwargs, tensors) of the call on a device."""
        tensors: list[Tensor] = []

        def enter(x: Any) -> Any:
            if isinstance(x, Fill):
                return self.dtype if x.what == "dtype" else place
            if isinstance(x, tuple):
                return tuple([enter(y) for y in x])
            if type(x) is not T:
                return x
            made = operands.build(x, self.dtype, self.layout, len(tensors), str(place)).tensor
            tensors.append(made)
            return made.untyped_storage() if x.as_storage else made

        kwargs = {name: enter(value) for name, value in self.kwargs.items()}
        args = [enter(x) for x in self.args]
        if not tensors and "device" not in kwargs:
            kwargs["device"] = place
        return args, kwargs, tensors


def _cases(row: Samples, every: bool) -> Iterator[_Case]:
    layouts = [x for x in LAYOUTS if not (row.refuses_expanded and x == "expanded")]
    for number, sample in enumerate(row.samples):
        if every:
            for of in row.dtypes:
                for layout in layouts:
                    yield _Case(row, sample, of, layout)
        else:
            # Each sample gets the next dtype and the next layout, so not every combination of
            # dtype and layout is tested.
            of = row.dtypes[number % len(row.dtypes)]
            yield _Case(row, sample, of, layouts[number % len(layouts)])


def _shown(x: Any) -> str:
    if type(x) is T:
        return f"[{','.join(map(str, x.sizes))}]"
    return "(" + ", ".join(map(_shown, x)) + ")" if isinstance(x, tuple) else repr(x)


def _forms(name: str) -> list[Callable[..., Any]]:
    """Return the public function of the operator `name`, followed by its in-place form if there is
    one."""
    found = [_main_form(name)]
    in_place = getattr(ops.aten, f"{name}_", None) if not name.endswith("_") else None
    return found if in_place is None else [*found, in_place]


def _main_form(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] | None = getattr(functions, name, None)
    method = getattr(GeneratedMethods, name, None)
    if isinstance(method, property):
        return lambda self, **options: getattr(self, name)
    return function or method or getattr(ops.aten, name)


def _run(
    case: _Case, form: Callable[..., Any], place: device, watch: _Watch, outcome: Outcome
) -> None:
    expected, _, wanted = _call(case, form, device("cpu"))
    if isinstance(expected, errors.GpuTensorError) and form is not _main_form(case.row.name):
        return  # the in-place form does not support these operands
    watch.seen.clear()
    found, raised, tensors = _call(case, form, place)
    served_elsewhere = set(watch.seen)
    try:
        if raised is not None:
            raise raised
        _compare(found, expected, case, place, bool(served_elsewhere))
        # compare the operands, too, because some operators write to them
        for x, y in zip(tensors, wanted):
            _compare(x, y, case, place)
    except _Differs as difference:
        outcome.count(FAILED, f"{case}: {difference}")
    except errors.DispatchError as error:
        outcome.count(MISSING)
        outcome.served_elsewhere.add(str(error).split(":")[0])
    except Exception as error:  # a device may raise any exception
        if isinstance(expected, errors.GpuTensorError) and isinstance(error, errors.GpuTensorError):
            outcome.count(FALLBACK if served_elsewhere else NATIVE)
        else:
            outcome.count(FAILED, f"{case}: {type(error).__name__}: {error}")
    else:
        outcome.count(FALLBACK if served_elsewhere else NATIVE)
        outcome.served_elsewhere |= served_elsewhere


def _call(
    case: _Case, form: Callable[..., Any], place: device
) -> tuple[Any, Exception | None, list[Tensor]]:
    args, kwargs, tensors = case.build(place)
    manual_seed(7)
    try:
        return form(*args, **kwargs), None, tensors
    except Exception as error:
        return error, error, tensors


# --- comparison -----------------------------------------------------------------------------------


class _Differs(Exception):
    """The exception for a result that differs from the CPU's result. Its text describes the
    difference."""


def _compare(
    found: Any, expected: Any, case: _Case, place: device, is_copied: bool = False
) -> None:
    """Raise _Differs if a result differs from the CPU's result. is_copied: True if a fallback
    copied the result to the device, which removed gaps between its elements."""
    if isinstance(expected, errors.GpuTensorError):
        raise _Differs(f"was not refused; the CPU says {expected}")
    if isinstance(expected, (list, tuple)):
        if len(found) != len(expected):
            raise _Differs(f"{len(found)} results, wanted {len(expected)}")
        for x, y in zip(found, expected):
            _compare(x, y, case, place, is_copied)
    elif not isinstance(expected, Tensor):
        if found != expected and not (found != found and expected != expected):
            raise _Differs(f"got {found!r}, wanted {expected!r}")
    else:
        goes_there = expected.device.type == "cpu" and not _names_the_cpu(case)
        wanted = place.type if goes_there else expected.device.type
        for what, x, y in (
            ("device", found.device.type, wanted), ("dtype", found.dtype, expected.dtype),
            ("sizes", tuple(found.shape), tuple(expected.shape)),
            ("strides", found.stride(), expected.stride()),
        ):  # fmt: skip
            if what == "strides" and is_copied and _has_gaps(expected):
                continue
            if x != y:
                raise _Differs(f"{what} {x}, wanted {y}")
        if case.row.has_values:
            here, there = [readable(materialised(x.cpu())._get_array()) for x in (found, expected)]
            _compare_values(here, there, expected.dtype, case.row.device_ulp)


def _has_gaps(x: Tensor) -> bool:
    return not x._geometry.is_non_overlapping_and_dense


def _names_the_cpu(case: _Case) -> bool:
    return any(isinstance(x, str) and x == "cpu" for x in (*case.args, *case.kwargs.values()))


def _compare_values(found: Any, expected: Any, of: dtype, ulp: float) -> None:
    if of.category < FLOATING:
        equal = found == expected
    else:
        kind = complex if of.is_complex else float
        x, y = np.asarray(found, kind), np.asarray(expected, kind)
        with np.errstate(all="ignore"):
            unit = np.abs(np.spacing(np.abs(expected).astype(of.to_real.np)).astype(float))
            equal = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= ulp * unit)
    if not np.all(equal):
        index = tuple(int(i) for i in np.argwhere(~np.atleast_1d(equal))[0])
        here, there = np.atleast_1d(found)[index], np.atleast_1d(expected)[index]
        raise _Differs(f"got {here!r} at {index}, wanted {there!r}")
