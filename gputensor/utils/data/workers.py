"""Processes that fetch batches for a DataLoader.

Each worker has a queue of its own for requests, and all have one for results: (number, batch), or
what was raised, with its traceback as text. Requests go to the workers in turn, so results come
back in the order in which they were asked for, whichever is ready first. Batches are pickled; a
tensor's bytes pass through the pipe once.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...structured.generator import manual_seed


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
    """A worker's IterableDataset has no more items."""


def work(
    info: WorkerInfo, requests: Any, results: Any, fetch: Callable[..., Any],
    worker_init_fn: Callable[[int], Any] | None,
) -> None:  # fmt: skip
    """What a worker process does until it is told None."""
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
        while (request := requests.get()) is not None:
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
            results.put((number, info.id, answer))
    except KeyboardInterrupt:
        pass  # the main process has it too, and ends the others
    finally:
        results.close()


def _raised(error: BaseException) -> Raised:
    return Raised(type(error), str(error), traceback.format_exc())
