"""CPU memory and the thread pool."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from gputensor.core import errors
from gputensor.runtime import cpu
from tests.harness import helper_threads


@pytest.fixture(autouse=True)
def restore_threads():
    before = cpu.get_num_threads()
    yield
    cpu.set_num_threads(before)


@pytest.mark.parametrize("nbytes", [0, 1, 4096, cpu.ALIGNED_FROM - 1])
def test_small_memory_is_a_plain_array(nbytes):
    array = cpu.allocate(nbytes)
    assert array.dtype == np.uint8 and array.shape == (nbytes,) and array.base is None


@pytest.mark.parametrize("nbytes", [cpu.ALIGNED_FROM, cpu.ALIGNED_FROM + 1, 1 << 20])
def test_large_memory_is_aligned(nbytes):
    arrays = [cpu.allocate(nbytes) for _ in range(5)]
    for array in arrays:
        assert array.shape == (nbytes,) and array.ctypes.data % cpu.ALIGNMENT == 0
        assert array.flags.c_contiguous and array.flags.writeable


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize(
    ("length", "grain"), [(0, 1), (1, 1), (10, 100), (1000, 1), (1000, 333), (7, 0)]
)
def test_parts_cover_the_range_once(threads, length, grain):
    cpu.set_num_threads(threads)
    parts = []
    cpu.parallel_for(3, 3 + length, grain, lambda first, last: parts.append((first, last)))
    parts.sort()
    assert [i for first, last in parts for i in range(first, last)] == list(range(3, 3 + length))
    assert len(parts) <= threads
    assert all(last - first >= grain for first, last in parts[:-1])


def test_parts_run_in_several_threads():
    helper_threads.anew(2)
    barrier = threading.Barrier(2)
    cpu.parallel_for(0, 2, 1, lambda first, last: barrier.wait())


def test_a_nested_call_runs_in_its_own_thread():
    cpu.set_num_threads(2)
    seen = []

    def outer(first, last):
        own = threading.get_ident()
        cpu.parallel_for(0, 100, 1, lambda a, b: seen.append((own, threading.get_ident(), a, b)))

    cpu.parallel_for(0, 2, 1, outer)
    assert len(seen) == 2
    assert all(own == inner and (a, b) == (0, 100) for own, inner, a, b in seen)


def test_a_failure_in_any_part_is_raised():
    cpu.set_num_threads(3)

    def work(first, last):
        if first == 20:
            raise KeyError("in the last part")

    with pytest.raises(KeyError):
        cpu.parallel_for(0, 30, 1, work)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_shared_pieces_are_done_once_each(count, threads):
    cpu.set_num_threads(3)
    done, makers = [], []

    def make():
        makers.append(threading.get_ident())
        return done.append

    cpu.share(count, threads, make)
    assert sorted(done) == list(range(count))
    assert len(makers) <= max(1, min(count, threads, 3))


def test_shared_pieces_run_in_several_threads_and_nobody_waits_for_one_that_does_not_come():
    helper_threads.anew(2)
    barrier = threading.Barrier(2)
    cpu.share(2, 2, lambda: lambda index: barrier.wait())
    begun, release = threading.Barrier(3), threading.Event()

    def busy(index):
        begun.wait()
        release.wait()

    other = threading.Thread(target=lambda: cpu.share(2, 2, lambda: busy))
    other.start()
    begun.wait()  # the only helper is busy with another caller's part
    seen = []
    for _ in range(5):
        cpu.share(5, 2, lambda: seen.append)
    assert seen == [0, 1, 2, 3, 4] * 5
    assert cpu._the_pool()._tickets.qsize() <= 1  # requests do not pile up either
    release.set()
    other.join()


def test_a_failure_in_any_piece_is_raised():
    cpu.set_num_threads(2)

    def piece(index):
        if index == 30:
            raise KeyError("in a piece")

    with pytest.raises(KeyError):
        cpu.share(60, 2, lambda: piece)
    cpu.share(4, 2, lambda: lambda index: cpu.share(3, 2, lambda: lambda inner: None))


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_a_count_that_is_no_count(count):
    with pytest.raises(
        errors.GpuTensorError, match="set_num_threads: 'count' must be a positive integer"
    ):
        cpu.set_num_threads(count)


def test_threads_from_the_environment(monkeypatch):
    monkeypatch.setattr(cpu, "_num_threads", 0)
    monkeypatch.setenv("GPUTENSOR_NUM_THREADS", "5")
    assert cpu.get_num_threads() == 5
    monkeypatch.setattr(cpu, "_num_threads", 0)
    monkeypatch.setenv("GPUTENSOR_NUM_THREADS", "many")
    with pytest.raises(ValueError, match="GPUTENSOR_NUM_THREADS: must be a positive integer"):
        cpu.get_num_threads()
    monkeypatch.setenv("GPUTENSOR_NUM_THREADS", "1")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_the_pool_works_in_a_forked_child():
    cpu.set_num_threads(2)
    cpu.parallel_for(0, 2, 1, lambda first, last: None)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            parts = []
            cpu.parallel_for(0, 2, 1, lambda first, last: parts.append(first))
            status = 0 if sorted(parts) == [0, 1] else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
