"""Processes that fetch batches for a DataLoader.

Each worker has its own pipe for requests, and all workers share a queue for results. A result is
(worker, number, batch), or the exception with its traceback as text. Large storages of a batch are
sent separately: see Note [How a batch travels] in utils/data/segments.py. Requests are distributed
to the workers in turn, and results are returned in the order of the requests. Requests and results
are pickled before a thread writes them, so that a pickling error is raised in the thread that
created the object.
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

# The interval, in seconds, at which a waiting process checks whether the other process has ended.
LOOK_AFTER = 2.0


@dataclass(frozen=True)
class WorkerInfo:
    """Properties of a worker, for code that runs in the worker. id: its number. seed: the seed of
    its random numbers."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_here: list[WorkerInfo] = []


def get_worker_info() -> WorkerInfo | None:
    """Return the WorkerInfo of this process, or None in the main process."""
    return _here[0] if _here else None


class _Plain(str):
    """A string whose repr keeps line breaks, because KeyError shows the repr of its text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass
class Raised:
    """An exception raised in a worker: its class, text and traceback."""

    kind: type[BaseException]
    text: str
    trace: str

    def again(self, worker: int) -> BaseException:
        """Return an exception of the same class, or a RuntimeError if the class takes other
        arguments. The text names the worker and contains the traceback."""
        message = f"worker {worker} of the DataLoader raised {self.kind.__name__}: {self.text}"
        message += f"\n{self.trace}"
        try:
            return self.kind(_Plain(message) if self.kind is KeyError else message)
        except Exception:  # the class takes other arguments
            return RuntimeError(message)


class Ended:
    """The result that marks the end of an iterable dataset."""


class Requests:
    """Sender of requests to one worker. A thread writes the requests, so that the main process does
    not wait."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._write, name="DataLoader requests", daemon=True).start()

    def put(self, request: Any) -> None:
        """Send a request. None tells the worker to end. Raises an error if the request cannot be
        pickled."""
        self._waiting.put((ForkingPickler.dumps(request), request is None))

    def _write(self) -> None:
        ends = False
        while not ends:
            pickled, ends = self._waiting.get()
            try:
                self._pipe.send_bytes(pickled)
            except OSError:  # the worker has ended; `_Workers._answer` reports it
                break
        self._pipe.close()


def _next_request(requests: Any, parent: int, channel: Any) -> Any:
    """Return the next request, or None if the worker must end, for example because the main process
    has ended."""
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
    """Run a worker process until it receives None.

    channel: the connection for segments, or None.
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
            if of_pass != passed:  # a new pass restarts an iterable dataset
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
            del answer  # releases the segments of the result
    except KeyboardInterrupt:
        pass  # the main process gets the interrupt, too, and ends the workers
    finally:
        if os.getppid() != parent:
            results.cancel_join_thread()  # no process reads the remaining results
        results.close()


def _raised(error: BaseException) -> Raised:
    return Raised(type(error), str(error), traceback.format_exc())


def _pickled(answer: Any, channel: Any) -> bytes:
    """Return a pickled result, or the pickled exception if the result cannot be pickled."""
    try:
        return segments.dumps(answer, channel)
    except Exception as error:
        if isinstance(answer, Raised):  # the class of the exception cannot be pickled
            text = f"{answer.kind.__name__}: {answer.text}"
            told = Raised(RuntimeError, text, answer.trace)
        else:
            text = f"a batch cannot be sent to the main process: {type(error).__name__}: {error}"
            told = Raised(RuntimeError, text, traceback.format_exc())
        return bytes(ForkingPickler.dumps(told))
