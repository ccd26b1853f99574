"""The dispatch trace: every hop of every call, printed as PyTorch prints them.

GPUTENSOR_SHOW_DISPATCH_TRACE=1 prints `[call] op=[aten::clone], key=[AutogradCPU]`, indented by
depth; =2 adds each argument's keys, what the thread includes and excludes, and why this kernel.
While no trace is on nothing of this runs: turning one on puts a wrapper around every kernel of
every table.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from . import dispatcher, keys, tls
from .keys import DispatchKey
from .operator import Table

_depth: ContextVar[int] = ContextVar("gputensor_trace_depth", default=0)
# The traces that are on, oldest first; replaced whole under the dispatcher's lock.
_traces: tuple[trace, ...] = ()
_wraps: dispatcher.Handle | None = None


class trace:  # noqa: N801 - a context manager, used as `with gt.dispatch.trace() as lines:`
    """Trace the calls of the block, in every thread; `as` gives the list that receives the lines.

    level: 1 for the hops, 2 for the reasons too. write: called with each line as well. Traces nest,
    and each sees all calls.
    """

    __slots__ = ("level", "lines", "_write")

    def __init__(self, level: int = 1, write: Callable[[str], object] | None = None) -> None:
        self.level, self._write = level, write
        self.lines: list[str] = []

    def receive(self, line: str) -> None:
        self.lines.append(line)
        if self._write is not None:
            self._write(line)

    def __enter__(self) -> list[str]:
        _set_traces(lambda on: (*on, self))
        return self.lines

    def __exit__(self, *exc: object) -> None:
        _set_traces(lambda on: tuple(t for t in on if t is not self))


class _StandardError(trace):
    """The trace of a whole process: it prints, and keeps nothing."""

    __slots__ = ()

    def receive(self, line: str) -> None:
        print(line, file=sys.stderr)


def start_from_environment() -> None:
    """Trace the whole process to standard error if GPUTENSOR_SHOW_DISPATCH_TRACE asks for it."""
    level = os.environ.get("GPUTENSOR_SHOW_DISPATCH_TRACE", "0")
    if level not in ("", "0"):
        _StandardError(2 if level == "2" else 1).__enter__()


def _set_traces(change: Callable[[tuple[trace, ...]], tuple[trace, ...]]) -> None:
    global _traces, _wraps
    with dispatcher.lock:
        _traces = change(_traces)
        if _traces and _wraps is None:
            _wraps = dispatcher.add_wraps(_wrap_call, _wrap_redispatch)
        elif not _traces and _wraps is not None:
            _wraps.remove()
            _wraps = None


def _wrap_call(table: Table, key: DispatchKey, kernel: Callable[..., Any]) -> Callable[..., Any]:
    return _traced(table, key, kernel, "call")


def _wrap_redispatch(
    table: Table, key: DispatchKey, kernel: Callable[..., Any]
) -> Callable[..., Any]:
    return _traced(table, key, kernel, "redispatch")


def _traced(
    table: Table, key: DispatchKey, kernel: Callable[..., Any], kind: str
) -> Callable[..., Any]:
    head = f"[{kind}] op=[{table.operator.qualified_name}], key=[{key.name}]"

    def traced(key_set: int, *args: Any) -> Any:
        depth = _depth.get()
        for active in _traces:
            active.receive(" " * depth + head)
            if active.level > 1:
                for line in _reasons(table, key, key_set, args):
                    active.receive(" " * depth + "  " + line)
        token = _depth.set(depth + 1)
        try:
            return kernel(key_set, *args)
        finally:
            _depth.reset(token)

    return traced


def _reasons(table: Table, key: DispatchKey, key_set: int, args: tuple[Any, ...]) -> Iterator[str]:
    names = [a.name for a in table.definition.schema.arguments] if table.definition else []
    for name, value in zip(names, args):
        listed = value if isinstance(value, (list, tuple)) else (value,)
        for number, item in enumerate(listed):
            if hasattr(item, "_keys"):
                place = f"[{number}]" if listed is value else ""
                yield f"{name}{place}: {keys.describe(item._keys)}"
    yield f"set: {keys.describe(key_set)}"
    included, excluded = keys.describe(tls.included()), keys.describe(tls.excluded())
    yield f"thread: include {included}, exclude {excluded}"
    kernel, why = table.slot(key)
    yield f"kernel: {'none' if kernel is None else kernel.site} [{why}]"
