"""Hooks that queue a thread's recorded work before the thread's streams change or wait for each
other.

A `gt.fuse` block records operators and queues their kernels later. The kernels belong to the stream
that was current when the operators were called. So runtimes call `settle` before another stream
becomes current, and before an event is recorded or waited for.
"""

from __future__ import annotations

from collections.abc import Callable

# Functions that queue the calling thread's recorded work. fusion/record/recorder.py adds one.
before: list[Callable[[str], None]] = []


def settle(reason: str) -> None:
    """Queue this thread's recorded work. reason: a clause for the output of `explain`, such as "an
    event is recorded"."""
    for queue in before:
        queue(reason)
