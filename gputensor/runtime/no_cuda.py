"""The runtime of a process without CUDA: every function raises an error with the reason."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, NoReturn

from gputensor.core import errors

name = "no_cuda"
is_emulated = False
reason = "no CUDA runtime was chosen"


def because(why: str) -> ModuleType:
    """Set the reason for later errors, and return this module."""
    global reason
    reason = why
    return sys.modules[__name__]


def is_available() -> bool:
    return False


def unavailable_reason() -> str:
    return reason


def device_count() -> int:
    return 0


def reset_after_fork() -> None:
    """Do nothing, because there is no state to reset."""


def _absent(*args: Any, **kwargs: Any) -> NoReturn:
    raise errors.no_device("cuda", reason)


class Stream:
    """A class that cannot be instantiated, because there is no device."""

    __slots__ = ()
    __init__ = _absent


class Event:
    """A class that cannot be instantiated, because there is no device."""

    __slots__ = ()
    __init__ = _absent


current_device = set_device = exchange_device = device_name = capability = mem_get_info = _absent
can_access_peer = allocate = memory_allocated = memory_reserved = memory_stats = _absent
memory_snapshot = reset_peak_memory_stats = empty_cache = set_memory_limit = _absent
record_stream = current_stream = default_stream = set_stream = copy_async = memset_async = _absent
external_stream = pinned_allocate = synchronize = arch = compile = load = launch = _absent
limits = taker = launcher = prefer_shared = call_library = begin_capture = _absent
replay = check_stream = nccl = blas = _absent
