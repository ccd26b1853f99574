"""`DataLoader`: batches of a dataset, fetched in this process or by workers.

Source: torch/utils/data/dataloader.py.
"""

from __future__ import annotations

import errno
import multiprocessing
import queue
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Generic, NamedTuple

from ..._generated import functions
from ...core import errors
from ...runtime import cuda
from ...tensor.tensor import Tensor
from .. import _pytree
from . import segments
from .collate import default_collate, default_convert
from .datasets import IterableDataset, T_co, items
from .samplers import BatchSampler, RandomSampler, SequentialSampler
from .workers import LOOK_AFTER, Ended, Raised, Requests, WorkerInfo, work


class _Fetch:
    """A function that fetches a batch of a dataset: the items at given indices, or the next items
    of an iterable dataset.

    size: batch size for an iterable dataset, or None to fetch single items.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.is_iterable = isinstance(loader.dataset, IterableDataset)
        self.is_batched = loader.batch_sampler is not None or loader.batch_size is not None
        self.size, self.drop_last = loader.batch_size, loader.drop_last
        self.collate = loader.collate_fn

    def __call__(self, dataset: Any, indices: Any, state: dict[str, Any]) -> Any:
        """Return a batch. state: a dict kept between calls; it holds an iterable dataset's
        iterator."""
        if not self.is_iterable:
            return self.collate(self._items(dataset, indices))
        if "items" not in state:
            state["items"] = iter(dataset)
        if not self.is_batched:
            return self.collate(next(state["items"]))
        batch = list(islice(state["items"], self.size))
        if not batch or self.drop_last and self.size is not None and len(batch) < self.size:
            raise StopIteration
        return self.collate(batch)

    def _items(self, dataset: Any, indices: Any) -> Any:
        if not self.is_batched:
            return dataset[indices]
        return items(dataset, indices)


class _Failed(NamedTuple):
    """The error of a batch that could not be made."""

    error: BaseException


class _Batches:
    """The iterator of one pass. After an error, it continues with the next batch."""

    def __init__(self, made: Iterator[Any]) -> None:
        self._made = made

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Any:
        batch = next(self._made)
        if not isinstance(batch, _Failed):
            return batch
        try:
            raise batch.error
        finally:
            del batch  # the error's traceback keeps this frame


class DataLoader(Generic[T_co]):
    """An iterable of batches of a dataset.

    Args:
        batch_size: None for single items, which are converted but not combined.
        shuffle: use a random order. sampler, batch_sampler: give the order.
        num_workers: number of processes that fetch batches; 0 fetches them in this process. Batches
            keep their order.
        collate_fn: combines a list of items into a batch.
        pin_memory: move batches to page-locked memory if there is a GPU.
        drop_last: omit the last batch if it is smaller.
        timeout: seconds to wait for a worker's batch; 0 means no limit.
        worker_init_fn: called in each worker with its number.
        multiprocessing_context: how workers are started: "fork", "spawn", "forkserver", or a
            context of `multiprocessing`.
        generator: draws the order and the workers' seed.
        prefetch_factor: number of batches requested from each worker in advance, by default 2.
        persistent_workers: keep the workers between passes.
        in_order: accepted without effect; batches always keep their order.
    """

    dataset: Any
    num_workers: int
    timeout: float
    pin_memory: bool
    pin_memory_device: str
    worker_init_fn: Callable[[int], Any] | None
    generator: Any
    multiprocessing_context: Any
    persistent_workers: bool
    in_order: bool
    prefetch_factor: int | None
    batch_size: int | None
    drop_last: bool
    sampler: Any
    batch_sampler: Any

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Any = None, batch_sampler: Any = None, num_workers: int = 0,
        collate_fn: Callable[..., Any] | None = None, pin_memory: bool = False,
        drop_last: bool = False, timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None, multiprocessing_context: Any = None,
        generator: Any = None, *, prefetch_factor: int | None = None,
        persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.worker_init_fn, self.generator = worker_init_fn, generator
        self.multiprocessing_context = multiprocessing_context
        self.persistent_workers, self.in_order = persistent_workers, in_order
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self._check(shuffle, sampler, batch_sampler, batch_size, drop_last, prefetch_factor)
        is_iterable = isinstance(dataset, IterableDataset)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif not is_iterable and sampler is None:
            sampler = (
                RandomSampler(dataset, generator=generator) if shuffle
                else SequentialSampler(dataset)
            )  # fmt: skip
        if batch_size is not None and not is_iterable:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        if collate_fn is None:
            is_batched = batch_sampler is not None or batch_size is not None
            collate_fn = default_collate if is_batched else default_convert
        self.collate_fn = collate_fn
        self._kept: _Workers | None = None

    def _check(
        self, shuffle: Any, sampler: Any, batch_sampler: Any, batch_size: Any, drop_last: bool,
        prefetch_factor: Any,
    ) -> None:  # fmt: skip
        def must(arg: str, rule: str, got: Any) -> Exception:
            return errors.wrong_value("DataLoader", arg, rule, got)

        if type(self.num_workers) is not int or self.num_workers < 0:
            raise must("num_workers", "be an int that is not negative", self.num_workers)
        if self.timeout < 0:
            raise must("timeout", "not be negative", self.timeout)
        if not self.num_workers and (prefetch_factor is not None or self.persistent_workers):
            rule = "be left out without workers"
            raise must("prefetch_factor or persistent_workers", rule, prefetch_factor)
        if sampler is not None and shuffle:
            raise must("shuffle", "be left out beside a sampler", shuffle)
        if isinstance(self.dataset, IterableDataset) and (
            shuffle or sampler is not None or batch_sampler is not None
        ):
            rule = "be left out beside an IterableDataset, which has its own order"
            raise must("sampler", rule, sampler)
        if batch_sampler is not None and (
            batch_size != 1 or shuffle or sampler is not None or drop_last
        ):
            rule = "be given without batch_size, shuffle, sampler and drop_last"
            raise must("batch_sampler", rule, batch_sampler)
        if batch_size is None and drop_last:
            raise must("drop_last", "be False where batch_size is None", drop_last)

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)
        count = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return count
        whole, rest = divmod(count, self.batch_size)
        return whole + bool(rest and not self.drop_last)

    def _requests(self) -> Iterator[Any]:
        """Return an iterator over requests, one for each batch. For an iterable dataset it is
        endless."""
        if isinstance(self.dataset, IterableDataset):
            return iter(lambda: None, 0)
        return iter(self.batch_sampler if self.batch_sampler is not None else self.sampler)

    def __iter__(self) -> Iterator[Any]:
        # Draw the seed in every pass, even without workers, so that the order of indices does not
        # depend on the number of workers.
        seed = int(functions.randint(0, 2**62, (), generator=self.generator).item())
        return _Batches(self._of_workers(seed) if self.num_workers else self._here())

    def _of_workers(self, seed: int) -> Iterator[Any]:
        workers = self._kept
        if workers is None or not workers.is_alive:
            workers = _Workers(self, seed)
            self._kept = workers if self.persistent_workers else None
        elif workers.is_busy:  # another pass is still using the workers
            workers = _Workers(self, seed)
        yield from workers.batches(self)

    def _here(self) -> Iterator[Any]:
        fetch, state = _Fetch(self), dict[str, Any]()
        for request in self._requests():
            try:
                batch = fetch(self.dataset, request, state)
            except StopIteration:
                return
            except Exception as error:
                yield _Failed(error)
            else:
                yield self._pinned(batch)

    def _pinned(self, batch: Any) -> Any:
        return pin_memory(batch) if self.pin_memory else batch


def pin_memory(data: Any, device: Any = None) -> Any:
    """Copy a container's tensors to page-locked memory if there is a GPU. device: accepted without
    effect."""
    return _pytree.tree_map_only(Tensor, _page_locked, data) if cuda().is_available() else data


def _page_locked(x: Tensor) -> Tensor:
    made: Tensor = functions.empty(x.shape, dtype=x.dtype, pin_memory=True)
    return made.copy_(x)


@contextmanager
def _memory() -> Iterator[None]:
    """Raise OutOfMemoryError if the system has no memory for a new process or mapping."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        raise errors.host_memory_exhausted("DataLoader", error) from None


class _Workers:
    """The worker processes of a loader. is_busy: True during a pass."""

    def __init__(self, loader: DataLoader[Any], seed: int) -> None:
        context = loader.multiprocessing_context
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self.count = loader.num_workers
        self.results = context.Queue()
        fetch = _Fetch(loader)
        self.processes, pipes = [], []
        self.channels: list[Any] = []  # one connection for each worker, for its segments
        for n in range(self.count):
            info = WorkerInfo(n, self.count, seed + n, loader.dataset)
            reader, writer = context.Pipe(duplex=False)
            ours, theirs = context.Pipe() if segments.is_available else (None, None)
            args = (info, reader, self.results, theirs, fetch, loader.worker_init_fn)
            process = context.Process(target=work, args=args, daemon=True)
            with _memory():
                process.start()
            reader.close()  # a write to a worker that has ended then fails instead of blocking
            if theirs is not None:
                theirs.close()
            self.channels.append(ours)
            self.processes.append(process)
            pipes.append(writer)
        # start threads after the last fork, because a forked process has no copies of threads
        self.requests = [Requests(pipe) for pipe in pipes]
        self.is_busy = False
        self.number = self.passes = 0
        self._end = weakref.finalize(
            self, _end, self.processes, self.requests, self.results, self.channels
        )

    @property
    def is_alive(self) -> bool:
        return self._end.alive

    def batches(self, loader: DataLoader[Any]) -> Iterator[Any]:
        """Yield the batches of one pass, in the order of the requests."""
        requests = loader._requests()
        waiting: dict[int, int] = {}  # maps the number of a request to that of its worker
        answers: dict[int, Any] = {}
        running = list(range(self.count))
        first = self.number
        self.passes += 1
        self.is_busy = True
        assert loader.prefetch_factor is not None
        try:
            turn = 0
            while True:
                while running and len(waiting) < loader.prefetch_factor * len(running):
                    try:
                        request = next(requests)
                    except StopIteration:
                        running = []
                        break
                    worker = running[turn % len(running)]
                    turn += 1
                    self.requests[worker].put((self.number, request, self.passes))
                    waiting[self.number] = worker
                    self.number += 1
                if not waiting:
                    return
                worker = waiting[first]
                answer = self._answer(first, answers, loader.timeout)
                del waiting[first]
                first += 1
                if isinstance(answer, Ended):
                    if not isinstance(loader.dataset, IterableDataset):
                        return  # __getitem__ raised StopIteration
                    running = [n for n in running if n != worker]
                elif isinstance(answer, Raised):
                    yield _Failed(answer.again(worker))
                else:
                    yield loader._pinned(answer)
        finally:
            if loader._kept is self and self.is_alive:
                for number in waiting:  # discard batches that were requested
                    self._answer(number, answers, loader.timeout)
                self.is_busy = False
            else:
                self.end()

    def _answer(self, number: int, answers: dict[int, Any], timeout: float) -> Any:
        """Return the result of a request. Store results of other requests in `answers`
        meanwhile."""
        waited = 0.0
        while number not in answers:
            step = min(LOOK_AFTER, timeout - waited) if timeout else LOOK_AFTER
            try:
                worker, found, answer = self.results.get(timeout=step)
                answers[found] = self._loaded(worker, answer)
                continue
            except queue.Empty:
                waited += step
            dead = [n for n, x in enumerate(self.processes) if not x.is_alive()]
            if dead:
                code = self.processes[dead[0]].exitcode
                self.end()
                message = f"worker {dead[0]} of the DataLoader has ended with exit code {code}"
                raise RuntimeError(f"{message}; a negative code is the signal that ended it")
            if timeout and waited >= timeout:
                self.end()
                raise RuntimeError(f"a DataLoader's worker has sent no batch for {timeout} s")
        return answers.pop(number)

    def _loaded(self, worker: int, answer: bytes) -> Any:
        """Unpickle a worker's result. If this fails, the batch is lost, so end the workers."""
        try:
            with _memory():
                return segments.loads(answer, self.channels[worker])
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        self._end()


def _end(
    processes: Sequence[Any], requests: Sequence[Requests], results: Any, channels: Sequence[Any]
) -> None:
    for x in requests:
        x.put(None)
    # A worker that is blocked while it writes to the queue never reads the None, so terminate it.
    for process in processes:
        process.join(0.2)
        if process.is_alive():
            process.terminate()
            process.join()
    results.cancel_join_thread()
    results.close()
    for channel in channels:
        if channel is not None:
            channel.close()
