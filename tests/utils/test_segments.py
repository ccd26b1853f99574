"""Batches of workers reach the main process without a copy and leave no memory behind."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.synchronize import SemLock
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.utils import data
from gputensor.utils.data import segments

pytestmark = pytest.mark.skipif(
    not segments.is_available, reason="batches are pickled where files in memory have names"
)
ROWS, WIDE = 4, 1 << 17  # an item of half a MiB


class Large(data.Dataset[Any]):
    def __len__(self) -> int:
        return 6 * ROWS

    def __getitem__(self, n: int) -> Any:
        return gt.full((WIDE,), float(n)), np.full((3, WIDE), n, np.uint8), n


class Dies(Large):
    def __getitem__(self, n: int) -> Any:
        if n == 5 * ROWS + 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(n)


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that the process has no further descriptors and mappings, and that there is no new name
    in shared memory.

    Other processes have names there too: MPI's, and semaphores that were not made here.
    """
    make_name, semaphores = SemLock._make_name, set[str]()

    def noted() -> str:
        name = str(make_name())
        semaphores.add(f"sem.{name.removeprefix('/')}")
        return name

    def seen() -> Any:
        return len(os.listdir("/proc/self/fd")), mappings()

    def names() -> set[str]:
        others = ("mpich_shm_", "sem.loky-")  # of MPI and joblib, which other tests may use now
        found = {name for name in os.listdir("/dev/shm") if not name.startswith(others)}
        return {name for name in found if not name.startswith("sem.mp-") or name in semaphores}

    monkeypatch.setattr(SemLock, "_make_name", staticmethod(noted))
    resource_tracker.ensure_running()  # it is opened once
    gc.collect()
    before, named = seen(), names()
    yield
    gc.collect()
    assert seen() == before and not multiprocessing.active_children()
    assert names() <= named


def mappings(process: Any = "self") -> int:
    return len(re.findall("gputensor batch", Path(f"/proc/{process}/maps").read_text()))


def check(batch: Any, number: int) -> None:
    wide, bytes_, numbers = batch
    first = number * ROWS
    assert numbers.tolist() == [*range(first, first + ROWS)]
    assert wide.shape == (ROWS, WIDE) and bytes_.shape == (ROWS, 3, WIDE)
    for row in range(ROWS):
        assert wide[row].eq(first + row).all().item() and bytes_[row].eq(first + row).all().item()


@pytest.mark.full
@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("is_kept", [True, False])
def test_large_batches(context: str, is_kept: bool) -> None:
    """Stored batches do not change while further batches arrive."""
    loader = data.DataLoader(Large(), ROWS, num_workers=2, multiprocessing_context=context)
    if is_kept:
        opened = len(os.listdir("/proc/self/fd"))
        kept = list(loader)
        assert mappings() == 2 * len(kept) == 12 and len(os.listdir("/proc/self/fd")) == opened
        for number, batch in enumerate(kept):
            check(batch, number)
        kept[0][0].add_(1)  # it can be written to
        assert kept[0][0][0, 0].item() == 1.0
        arrays = [batch[0].numpy() for batch in kept]
        del kept, batch
        assert [array[0, 0] for array in arrays] == [1.0, 4.0, 8.0, 12.0, 16.0, 20.0]
    else:
        for number, batch in enumerate(loader):
            check(batch, number)


def test_pages_are_used_again_and_what_is_kept_is_not() -> None:
    loader = data.DataLoader(Large(), ROWS, num_workers=1, persistent_workers=True)
    kept = []
    for _ in range(8):
        for number, batch in enumerate(loader):
            check(batch, number)
            if number == 2:
                kept.append(batch[0][1])
    assert loader._kept is not None
    (worker,) = loader._kept.processes
    # each pass keeps one; the others are reused in turn
    assert mappings(worker.pid) <= len(kept) + 2 * (2 + 3)
    for row in kept:
        assert row.eq(2 * ROWS + 1).all().item()
    loader._kept.end()


def test_a_batch_that_a_fork_sees_is_not_written_over() -> None:
    loader = iter(data.DataLoader(Large(), ROWS, num_workers=1))
    batch = next(loader)
    go_on, said = multiprocessing.Pipe()
    child = os.fork()
    if child == 0:
        go_on.poll(60)
        said.close()
        os._exit(not batch[0].lt(ROWS).all().item())
    del batch
    for _ in range(5):
        next(loader)
    said.send(1)
    assert os.waitpid(child, 0)[1] == 0
    del loader
    go_on.close()
    said.close()


@pytest.mark.full
def test_a_worker_that_is_killed_leaves_nothing() -> None:
    kept = []
    with pytest.raises(RuntimeError, match="has ended with exit code -9"):
        for batch in data.DataLoader(Dies(), ROWS, num_workers=1):
            kept.append(batch)
    for number, batch in enumerate(kept):
        check(batch, number)
    assert kept
    batch = None  # because the exception refers to this frame


@contextmanager
def ends() -> Iterator[tuple[Any, Any]]:
    """The two ends of a channel, for the worker and the main process; at the end all segments must
    be returned."""
    here, there = multiprocessing.Pipe()
    yield here, there
    gc.collect()
    segments.take_back(here)
    assert not segments._sent
    segments._close_spare(0)
    here.close()
    there.close()


def test_what_travels() -> None:
    big = gt.arange(1 << 18)
    small, empty = gt.ones(3), gt.zeros(0, 4)
    meta = gt.ones(1 << 20, device="meta")
    leaf = gt.ones(1 << 18, requires_grad=True)
    batch = {"view": big[5:], "turned": big.view(2, -1).t(), "small": small, "empty": empty,
             "meta": meta, "leaf": leaf, "text": ["a"]}  # fmt: skip
    with ends() as (here, there):
        pickled = segments.dumps(batch, here)
        assert len(pickled) < 1 << 14
        check_what_travels(segments.loads(pickled, there), big)


def check_what_travels(found: Any, big: gt.Tensor) -> None:
    assert found["view"].equal(big[5:]) and found["turned"].equal(big.view(2, -1).t())
    assert found["view"]._storage is found["turned"]._storage
    found["view"][0] = -1
    assert found["turned"].t().reshape(-1)[5].item() == -1 and big[5].item() == 5
    assert found["small"].tolist() == [1.0] * 3 and found["empty"].shape == (0, 4)
    assert found["meta"].is_meta and found["leaf"].requires_grad and found["leaf"].is_leaf


def test_a_tensor_in_a_segment_is_not_copied_and_may_be_sent_twice() -> None:
    made = segments.empty((1 << 18,), gt.float32)
    assert made is not None and segments.empty((3,), gt.float32) is None
    made.fill_(1.0)
    with ends() as (here, there):
        first = segments.loads(segments.dumps(made, here), there)
        second = segments.loads(segments.dumps([made], here), there)[0]
        made.fill_(2.0)
        assert first[0].item() == second[-1].item() == 2.0
        del made, first
        segments.take_back(here)
        assert not segments._spare  # the second still exists
        other = segments.empty((1 << 18,), gt.float32)
        assert other is not None
        other.fill_(3.0)
        assert second[0].item() == 2.0
        del second, other
        segments.take_back(here)
        assert len(segments._spare) == 2


def test_more_storages_than_a_message_takes() -> None:
    batch = [gt.full((1 << 16,), float(n)) for n in range(segments._MOST + 3)]
    with ends() as (here, there):
        found = segments.loads(segments.dumps(batch, here), there)
        assert all(x[-1].item() == n for n, x in enumerate(found))
        del found


def test_no_room_for_a_segment_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    loader = data.DataLoader(Large(), ROWS, num_workers=1, multiprocessing_context="fork")
    with pytest.raises(OSError, match="worker 0 of the DataLoader raised OSError(.|\n)*No space"):
        list(loader)
