"""`with gt.audit_copies() as audit:` lists copies, casts, transfers and lost memory formats.

Each record has the bytes, the time, and the program line that caused it. Copies are recorded in the
kernel of `copy_`, through which operators also make their internal copies. Not recorded are kernels
that read two dtypes without a temporary, because they make no cast, and conversions of NumPy
arrays, because they do not pass through the dispatcher.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from time import perf_counter_ns
from typing import Any

from .._generated import operators as _operators
from ..core import errors, memory_format as formats
from ..dispatch import dispatcher
from ..dispatch.keys import DispatchKey
from ..dispatch.operator import Operator, Table
from .profiler import _device, columns
from ..tensor.base import suggest_memory_format, tensors_of
from ..tensor.tensor import Tensor

Kernel = Callable[..., Any]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# The running operators, outermost first.
_path: ContextVar[tuple[Operator, ...]] = ContextVar("gputensor_audit_path", default=())


class Record:
    """One copy, or one result whose memory format was lost.

    kind: copy, cast (to another dtype), transfer (to another device), or format (lost memory
    format). op: the operator that the program called. path: the operators between `op` and the
    copy. nbytes: the bytes of the written elements. time_us: host time, None for kind format.
    device_us: device time, if the device has events. site: file:line in the program. what: source
    and destination."""

    __slots__ = ("kind", "op", "path", "nbytes", "time_us", "device_us", "site", "what", "_events")
    kind: str
    op: str
    path: tuple[str, ...]
    nbytes: int
    site: str
    what: str

    def __init__(self, kind: str, path: tuple[str, ...], nbytes: int, site: str, what: str) -> None:
        self.kind, self.op, self.path, self.nbytes = kind, path[0], path, nbytes
        self.site, self.what = site, what
        self.time_us: float | None = None
        self.device_us: float | None = None
        self._events: list[Any] = []

    def __repr__(self) -> str:
        took = "" if self.time_us is None else f", {self.time_us:.1f} us"
        return f"{self.kind}: {self.op}, {self.nbytes} bytes{took}, {self.what}, at {self.site}"


class audit_copies:
    """A context manager that records the copies made in the block by all threads. `str(audit)`
    formats them as a table.

    records: the records, in the order in which the copies ended.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._handle: dispatcher.Handle | None = None

    def __enter__(self) -> audit_copies:
        self._handle = dispatcher.add_wraps(self._wrap, self._wrap)
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._handle is not None
        self._handle.remove()
        for record in self.records:
            if record._events:
                begin, end = record._events
                end.synchronize()
                record.device_us = float(begin.elapsed_time(end)) * 1000.0
                record._events = []

    def _wrap(self, table: Table, key: DispatchKey, kernel: Kernel) -> Kernel:
        operator = table.operator
        copies = operator in _COPYING and key.functionality == "Dense" and key.backend != "Meta"

        def audited(key_set: int, *args: Any) -> Any:
            path = _path.get()
            inner = path if path and path[-1] is operator else (*path, operator)
            token = _path.set(inner)
            try:
                if copies and _COPYING[operator](path):
                    return self._copy(key, kernel, key_set, args, inner)
                result = kernel(key_set, *args)
            finally:
                _path.reset(token)
            if not path:
                self._compare_formats(operator, args, result)
            return result

        return audited

    def _copy(
        self, key: DispatchKey, kernel: Kernel, key_set: int, args: tuple[Any, ...],
        path: tuple[Operator, ...],
    ) -> Any:  # fmt: skip
        device = _device(key, args) if key.backend != "CPU" else None
        events = [] if device is None else [_event(device)]
        begin = perf_counter_ns()
        result = kernel(key_set, *args)
        took = perf_counter_ns() - begin
        to, source = _ends(path[-1], args, result)
        if to is not source and to._geometry.numel:
            record = _record(_kind(to, source), path, to, f"{_layout(source)} -> {_layout(to)}")
            record.time_us = took / 1000
            record._events = events if device is None else [*events, _event(device)]
            self.records.append(record)
        return result

    def _compare_formats(self, operator: Operator, args: tuple[Any, ...], result: Any) -> None:
        """Record a row-major result of an operator if an operand with the same number of dimensions
        was channels_last."""
        if any(isinstance(a, formats.memory_format) for a in args):
            return  # the program requested this format
        operands = [x for x in tensors_of(args) if _is_channels_last(x)]
        for made in tensors_of(result) if operands else ():
            if _is_channels_last(made) or not made._geometry.is_contiguous or _suits_both(made):
                continue
            if any(x is made or _shares(x, made) for x in tensors_of(args)):
                continue
            lost = next((x for x in operands if x._geometry.ndim == made._geometry.ndim), None)
            if lost is not None:
                what = f"{suggest_memory_format(lost)} {_layout(lost)} -> {_layout(made)}"
                self.records.append(_record("format", (operator,), made, what))

    # --- results --------------------------------------------------------------------------------

    @property
    def total_bytes(self) -> int:
        """The number of bytes written by copies, casts and transfers."""
        return sum(r.nbytes for r in self.records if r.kind != "format")

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __str__(self) -> str:
        lines = [["kind", "op", "from -> to", "where", "bytes", "us", "device us"]]
        for r in self.records:
            times = ["" if t is None else f"{t:.1f}" for t in (r.time_us, r.device_us)]
            lines.append([r.kind, r.op, r.what, r.site, str(r.nbytes), *times])
        total = f"{len(self.records)} records, {self.total_bytes} bytes copied"
        return f"{columns(lines, left=4)}\n{total}"


# Maps an operator that may copy to a function. The function receives the path, which lists the
# running operators, and returns True if the operator copies. For example, conj_physical_out copies
# if copy_ calls it, because this call materialises a lazy conjugate.
_COPYING: dict[Operator, Callable[[tuple[Operator, ...]], bool]] = {
    _operators.copy_: lambda path: True,
    _operators.flip: lambda path: True,
    _operators.conj_physical_out: lambda path: path[-1:] == (_operators.copy_,),
    _operators.neg_out: lambda path: path[-1:] == (_operators.copy_,),
}


def _ends(operator: Operator, args: tuple[Any, ...], result: Tensor) -> tuple[Tensor, Tensor]:
    """Return (destination, source) of a copy."""
    return (result, args[1] if operator is _operators.copy_ else args[0])


def _kind(to: Tensor, source: Tensor) -> str:
    if to._device is not source._device:
        return "transfer"
    return "copy" if to._geometry.dtype is source._geometry.dtype else "cast"


def _record(kind: str, path: tuple[Operator, ...], made: Tensor, what: str) -> Record:
    return Record(kind, tuple(o.qualified_name for o in path), made._geometry.nbytes, _site(), what)


def _layout(tensor: Tensor) -> str:
    return f"{errors.describe(tensor)} strides {tensor._geometry.strides}"


def _site() -> str:
    """Return file:line of the innermost frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _event(device: tuple[Any, int]) -> Any:
    module, index = device
    event = module.Event(enable_timing=True)
    event.record(module.current_stream(index))
    return event


def _is_channels_last(tensor: Tensor) -> bool:
    shape = tensor._geometry
    is_ordered = shape.is_channels_last or shape.is_channels_last_3d
    return is_ordered and not shape.is_contiguous


def _suits_both(tensor: Tensor) -> bool:
    return tensor._geometry.is_channels_last or tensor._geometry.is_channels_last_3d


def _shares(a: Tensor, b: Tensor) -> bool:
    return a._storage is not None and a._storage is b._storage
