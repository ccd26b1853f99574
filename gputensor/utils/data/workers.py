"""Processes that fetch batches for a DataLoader.

Each worker has a pipe of its own for requests, and all share a queue for results: (worker, number,
batch), or what was raised, with its traceback as text. Large storages of a batch travel beside it:
Note [How a batch travels] in utils/data/segments.py. Requests go to the workers in turn, and
results are given in the order in which they were asked for, whichever is ready first. Both are
pickled before they are handed to a thread that writes them, so what cannot be pickled is reported
where it arose.
"""

from __future__ import annotations

import os
import queue
import random
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from ...structured.generator import manual_seed
from . import segments

# After how many seconds a process that waits looks whether the others live.
LOOK_AFTER = 2.0


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker knows of itself. id: its number; seed: of its random numbers."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_here: list[WorkerInfo] = []


def get_worker_info() -> WorkerInfo | None:
    """The worker that this code runs in; None in the main process."""
    return _here[0] if _here else None


class _Plain(str):
    """A text that a KeyError shows with its lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass
class Raised:
    """What a worker raised: the exception's class and text, and where."""

    kind: type[BaseException]
    text: str
    trace: str

    def again(self, worker: int) -> BaseException:
        """An exception of that class which says which worker raised it, and where."""
        message = f"worker {worker} of the DataLoader raised {self.kind.__name__}: {self.text}"
        message += f"\n{self.trace}"
        try:
            return self.kind(_Plain(message) if self.kind is KeyError else message)
        except Exception:  # a class that wants other arguments
            return RuntimeError(message)


class Ended:
    """A worker's dataset has no more items."""


class Requests:
    """Sends requests to one worker. A thread writes them, so the main process never waits for a
    worker to read, however long a list of indices is."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._write, name="DataLoader requests", daemon=True).start()

    def put(self, request: Any) -> None:
        """Send a request; None tells the worker to end. Raises if it cannot be pickled."""
        self._waiting.put((ForkingPickler.dumps(request), request is None))

    def _write(self) -> None:
        ends = False
        while not ends:
            pickled, ends = self._waiting.get()
            try:
                self._pipe.send_bytes(pickled)
            except OSError:  # the worker has ended, which is seen where its results are awaited
                break
        self._pipe.close()


def _next_request(requests: Any, parent: int, channel: Any) -> Any:
    """What the main process asks for; None to end, and when the main process is no more."""
    while not requests.poll(LOOK_AFTER):
        segments.take_back(channel)
        if os.getppid() != parent:
            return None
    segments.take_back(channel)
    try:
        return ForkingPickler.loads(requests.recv_bytes())
    except EOFError:
        return None


def work(
    info: WorkerInfo, requests: Any, results: Any, channel: Any, fetch: Callable[..., Any],
    worker_init_fn: Callable[[int], Any] | None,
) -> None:  # fmt: skip
    """What a worker process does until it is told None, or the main process ends.

    channel: what segments of batches go through; None where there are none.
    """
    parent = os.getppid()
    _here[:] = [info]
    random.seed(info.seed)
    np.random.seed(info.seed % 2**32)
    manual_seed(info.seed)
    failure = None
    try:
        if worker_init_fn is not None:
            worker_init_fn(info.id)
    except Exception as error:
        failure = _raised(error)
    state: dict[str, Any] = {}
    passed = 0
    try:
        while (request := _next_request(requests, parent, channel)) is not None:
            number, indices, of_pass = request
            if of_pass != passed:  # which begins an iterable dataset anew
                state, passed = {}, of_pass
            if failure is None:
                try:
                    answer: Any = fetch(info.dataset, indices, state)
                except StopIteration:
                    answer = Ended()
                except Exception as error:
                    answer = _raised(error)
            else:
                answer = failure
            results.put((info.id, number, _pickled(answer, channel)))
            del answer  # and its segments
    except KeyboardInterrupt:
        pass  # the main process has it too, and ends the others
    finally:
        if os.getppid() != parent:
            results.cancel_join_thread()  # nobody reads what is still to be written
        results.close()


def _raised(error: BaseException) -> Raised:
    return Raised(type(error), str(error), traceback.format_exc())


def _pickled(answer: Any, channel: Any) -> bytes:
    """The answer's bytes; those of what was raised where it cannot be pickled."""
    try:
        return segments.dumps(answer, channel)
    except Exception as error:
        if isinstance(answer, Raised):  # of a class that the main process cannot find
            text = f"{answer.kind.__name__}: {answer.text}"
            told = Raised(RuntimeError, text, answer.trace)
        else:
            text = f"a batch cannot be sent to the main process: {type(error).__name__}: {error}"
            told = Raised(RuntimeError, text, traceback.format_exc())
        return bytes(ForkingPickler.dumps(told))
