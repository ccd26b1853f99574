"""The dispatch trace: every step of every call, printed in PyTorch's form.

GPUTENSOR_SHOW_DISPATCH_TRACE=1 prints `[call] op=[aten::clone], key=[AutogradCPU]`, indented by
depth. Level 2 also prints each argument's keys, the keys that the thread includes and excludes, and
the reason for the choice of the kernel. Each step is a `Hop`, which is printed as lines or drawn by
`gputensor trace --svg`. Turning a trace on wraps every kernel of every table. Without a trace, no
code of this module runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

from . import dispatcher, keys, tls
from .keys import DispatchKey
from .operator import Table

Kernel = Callable[..., Any]

_depth: ContextVar[int] = ContextVar("gputensor_trace_depth", default=0)
# The active traces, oldest first. The tuple is replaced as a whole, under the dispatcher's lock.
_traces: tuple[trace, ...] = ()
_wraps: dispatcher.Handle | None = None


class Hop(NamedTuple):
    """One step of a call: one kernel that runs. kind: "call", or "redispatch" if another kernel has
    redispatched to this kernel.

    depth: the number of kernels of the thread or task around this one. head: the line that PyTorch
    prints. arguments: (name, keys) of each tensor, if a trace of level 2 is on. included, excluded:
    keys that the thread or task includes and excludes.
    """

    depth: int
    head: str
    kind: str
    table: Table
    key: DispatchKey
    key_set: int
    arguments: list[tuple[str, int]]
    included: int
    excluded: int

    def lines(self, level: int) -> Iterator[str]:
        """Yield the line that PyTorch prints. At level 2, also yield the key sets, and the kernel
        with the reason for its choice."""
        yield " " * self.depth + self.head
        if level > 1:
            behind = " " * (self.depth + 2)
            yield from (f"{behind}{name}: {keys.describe(of)}" for name, of in self.arguments)
            include, exclude = keys.describe(self.included), keys.describe(self.excluded)
            yield f"{behind}set: {keys.describe(self.key_set)}"
            yield f"{behind}thread: include {include}, exclude {exclude}"
            kernel, why = self.table.slot(self.key)
            yield f"{behind}kernel: {'none' if kernel is None else kernel.site} [{why}]"

    def to_dict(self) -> dict[str, Any]:
        """Return the hop as a dict of texts. slots: the kernel at each key of the set, highest key
        first."""
        from .table_text import way

        return {
            "depth": self.depth, "kind": self.kind, "op": self.table.operator.qualified_name,
            "key": self.key.name,
            "arguments": {name: keys.describe(of) for name, of in self.arguments},
            "set": keys.describe(self.key_set), "include": keys.describe(self.included),
            "exclude": keys.describe(self.excluded), "slots": way(self.table, self.key_set),
        }  # fmt: skip


class trace:
    """A context manager that traces the calls of all threads during a block. The `as` variable is
    the list that receives the lines.

    level: 1 prints the steps; 2 also prints the reasons. write: called with each line. hops:
    receives the steps as objects. Traces nest; each one receives all calls.
    """

    __slots__ = ("level", "lines", "hops", "_write")
    level: int

    def __init__(self, level: int = 1, write: Callable[[str], object] | None = None) -> None:
        self.level, self._write = level, write
        self.lines: list[str] = []
        self.hops: list[Hop] = []

    def receive(self, hop: Hop) -> None:
        self.hops.append(hop)
        for line in hop.lines(self.level):
            self.lines.append(line)
            if self._write is not None:
                self._write(line)

    def __enter__(self) -> list[str]:
        _set_traces(lambda on: (*on, self))
        return self.lines

    def __exit__(self, *exc: object) -> None:
        _set_traces(lambda on: tuple(t for t in on if t is not self))


class _StandardError(trace):
    """The trace of a whole process: prints hops without storing them."""

    __slots__ = ()

    def receive(self, hop: Hop) -> None:
        for line in hop.lines(self.level):
            print(line, file=sys.stderr)


def start_from_environment() -> None:
    """Trace the whole process to standard error if GPUTENSOR_SHOW_DISPATCH_TRACE is set."""
    level = os.environ.get("GPUTENSOR_SHOW_DISPATCH_TRACE", "0")
    if level not in ("", "0"):
        _StandardError(2 if level == "2" else 1).__enter__()


def _set_traces(change: Callable[[tuple[trace, ...]], tuple[trace, ...]]) -> None:
    global _traces, _wraps
    with dispatcher.lock:
        _traces = change(_traces)
        if _traces and _wraps is None:
            _wraps = dispatcher.add_wraps(partial(_traced, "call"), partial(_traced, "redispatch"))
        elif not _traces and _wraps is not None:
            _wraps.remove()
            _wraps = None


def _traced(kind: str, table: Table, key: DispatchKey, kernel: Kernel) -> Kernel:
    head = f"[{kind}] op=[{table.operator.qualified_name}], key=[{key.name}]"

    def traced(key_set: int, *args: Any) -> Any:
        depth, on = _depth.get(), _traces
        tensors = list(_tensors(table, args)) if any(t.level > 1 for t in on) else []
        hop = Hop(depth, head, kind, table, key, key_set, tensors, tls.included(), tls.excluded())
        for active in on:
            active.receive(hop)
        token = _depth.set(depth + 1)
        try:
            return kernel(key_set, *args)
        finally:
            _depth.reset(token)

    return traced


def _tensors(table: Table, args: tuple[Any, ...]) -> Iterator[tuple[str, int]]:
    names = [a.name for a in table.definition.schema.arguments] if table.definition else []
    for name, value in zip(names, args):
        listed = value if isinstance(value, (list, tuple)) else (value,)
        for number, item in enumerate(listed):
            if hasattr(item, "_keys"):
                yield f"{name}[{number}]" if listed is value else name, item._keys
