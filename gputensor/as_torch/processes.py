"""`torch.multiprocessing.spawn` and similar functions: call a function in several processes.

If the function raises in one process, the other processes are ended, and the caller gets the
exception with its traceback. Source: torch/multiprocessing/spawn.py.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

from gputensor.core import errors

_GRACE_S = 30.0  # seconds from SIGINT or SIGTERM to the forced end of a process
STRATEGIES = {"file_descriptor", "file_system"}


class ProcessException(Exception):
    """Error for a process that failed. error_index: the process's index. error_pid: its id."""

    msg: str
    error_index: int
    error_pid: int

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """Error for a function that raised an exception. The message contains the traceback."""


class ProcessExitedException(ProcessException):
    """Error for a process that ended with a nonzero exit code or by a signal."""

    exit_code: int
    signal_name: str | None

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int,
        signal_name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        given = self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name
        return type(self), given


def _end_with_parent(parent: Any) -> None:
    """End this process when the parent process ends, even if the parent was killed."""
    connection.wait([parent])
    signal.raise_signal(signal.SIGINT)
    time.sleep(_GRACE_S)  # the process may ignore the signal
    os._exit(1)


def _call(fn: Any, index: int, args: tuple[Any, ...], said: Any) -> None:
    """Run the function in the new process. If it raises an exception, send the traceback to the
    parent."""
    parent: Any = multiprocessing.parent_process()
    threading.Thread(target=_end_with_parent, args=(parent.sentinel,), daemon=True).start()
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent has ended, or was interrupted as well
    except Exception:
        said.send(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes that `start_processes` has started.

    processes: multiprocessing's objects. sentinels: handles of the processes that have not been
    joined.
    """

    processes: list[Any]
    sentinels: dict[int, int]

    def __init__(self, processes: list[Any], said: list[Any]) -> None:
        self.processes, self._said = processes, said
        self.sentinels = {process.sentinel: n for n, process in enumerate(processes)}
        self._traces: dict[int, str] = {}

    def pids(self) -> list[int]:
        """The processes' ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until at least one process has ended. Return True if all processes have ended.

        timeout: seconds to wait. grace_period: seconds that the other processes have to end after
        one has failed, and again after SIGTERM.
        Raises: ProcessRaisedException or ProcessExitedException if a process has failed.
        """
        if not self.sentinels:
            return True
        open_ = {said: n for n, said in enumerate(self._said) if not said.closed}
        ready = connection.wait([*self.sentinels, *open_], timeout)
        for place in ready:
            if place in open_:
                self._read(open_[place])
        for place in ready:
            if isinstance(place, int) and place in self.sentinels:
                index = self.sentinels.pop(place)
                self.processes[index].join()
                if self.processes[index].exitcode:
                    self._end_others(grace_period)
                    raise self._failure(index)
        return not self.sentinels

    def _read(self, index: int) -> None:
        """Receive the traceback of a process, if the process sent one before it ended."""
        said = self._said[index]
        try:
            self._traces[index] = said.recv()
        except (EOFError, OSError):
            said.close()

    def _end_others(self, grace_period: float | None) -> None:
        if grace_period is not None:
            self._wait(grace_period)
        for end, limit_s in (("terminate", grace_period or _GRACE_S), ("kill", None)):
            for process in self.processes:
                if process.is_alive():
                    getattr(process, end)()
            self._wait(limit_s)

    def _wait(self, limit_s: float | None) -> None:
        until = None if limit_s is None else time.monotonic() + limit_s
        for process in self.processes:
            process.join(None if until is None else max(0, until - time.monotonic()))

    def _failure(self, index: int) -> ProcessException:
        process, said = self.processes[index], self._said[index]
        if not said.closed and said.poll():
            self._read(index)
        if index in self._traces:
            begin = f"\n\n-- Process {index} terminated with the following error:\n"
            return ProcessRaisedException(begin + self._traces[index], index, process.pid)
        code, name, how = process.exitcode, None, f"exit code {process.exitcode}"
        if code < 0:
            known = {int(one): one.name for one in signal.Signals}
            name = known.get(-code, f"<Unknown signal {-code}>")
            how = f"signal {name}"
        text = f"process {index} terminated with {how}"
        return ProcessExitedException(text, index, process.pid, code, name)


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Call `fn(n, *args)` in process n of `nprocs`.

    join: if True, wait for all processes and return None; else return a ProcessContext.
    Raises: see `ProcessContext.join`.
    """
    if not callable(fn):
        raise errors.wrong_type("spawn", "fn", "be a function", fn)
    started, said = [], []
    of: Any = multiprocessing.get_context(start_method)
    for index in range(nprocs):
        receives, sends = of.Pipe(duplex=False)
        process = of.Process(target=_call, args=(fn, index, tuple(args), sends), daemon=daemon)
        process.start()
        sends.close()
        started.append(process)
        said.append(receives)
    context = ProcessContext(started, said)
    if not join:
        return context
    while not context.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Call `start_processes` with new interpreters. The function must be importable."""
    return start_processes(fn, args, nprocs, join, daemon, "spawn")


def set_sharing_strategy(new_strategy: str) -> None:
    """Check that the strategy is one of PyTorch's names. The strategy has no effect, because
    gputensor's shared memory has no name."""
    if new_strategy not in STRATEGIES:
        rule = "be file_descriptor or file_system"
        raise errors.wrong_value("set_sharing_strategy", "new_strategy", rule, new_strategy)


OF_PROCESSES: dict[str, Any] = {
    "spawn": spawn, "start_processes": start_processes, "ProcessContext": ProcessContext,
    "SpawnContext": ProcessContext, "ProcessException": ProcessException,
    "ProcessRaisedException": ProcessRaisedException,
    "ProcessExitedException": ProcessExitedException,
}  # fmt: skip
OF_MULTIPROCESSING: dict[str, Any] = {
    **OF_PROCESSES, "set_sharing_strategy": set_sharing_strategy,
    "get_sharing_strategy": lambda: "file_descriptor", "init_reductions": lambda: None,
    "get_all_sharing_strategies": lambda: {*STRATEGIES},
}  # fmt: skip
