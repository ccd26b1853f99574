"""BLAS has one thread while small matrices are factorised, and its former number afterwards."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import gputensor as gt
from gputensor.runtime import blas


class Pool:
    """The thread pool of a simulated BLAS."""

    def __init__(self) -> None:
        self.count, self.seen = 4, list[int]()

    def set(self, count: int) -> None:
        self.count = count
        self.seen.append(count)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    made = Pool()
    functions: Any = (lambda: made.count, made.set)
    monkeypatch.setattr(blas, "_found", {"numpy": functions, "scipy": None})
    return made


def test_one_thread_until_the_last_has_left(pool: Pool) -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with blas.one_thread():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with blas.one_thread():
        assert pool.count == 1
        thread.start()
        inside.wait()
    assert pool.count == 1
    leave.set()
    thread.join()
    assert pool.count == 4
    with pytest.raises(ValueError), blas.one_thread():
        raise ValueError
    assert pool.count == 4


def test_as_many_threads_as_were_set(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "_wanted", 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 60)
    before = gt.get_num_threads()
    try:
        gt.set_num_threads(before + 1)
        assert pool.count == before + 1
        with blas.one_thread():
            gt.set_num_threads(before + 2)
            assert pool.count == 1
        assert pool.count == before + 2
        gt.set_num_threads(61)
        assert pool.count == 60
        gt.set_num_threads(before + 2)
        late = Pool()
        blas._found.pop("scipy")
        monkeypatch.setattr(blas, "_functions", lambda path: (lambda: late.count, late.set))
        __import__("scipy")
        with blas.one_thread():
            assert late.count == 1
        assert late.count == before + 2
    finally:
        gt.set_num_threads(before)


def test_threads_set_before_blas_is_there_are_those_of_blas() -> None:
    code = (
        "import gputensor as gt; gt.set_num_threads(1); x = gt.ones(4, 4); x @ x\n"
        "from gputensor.runtime import blas; print([count() for count, _ in blas._loaded()])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert set(done.stdout.strip(" []\n").split(", ")) <= {"1", ""}


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "set"])
def test_a_signals_handler_may_calculate_or_raise_at_any_call(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """The handler runs at each call of BLAS's functions, while the lock is held."""

    def stopped() -> None:
        raise KeyboardInterrupt

    for action in (lambda: gt.linalg.inv(gt.eye(3)), stopped):
        left = [action]

        def interrupted(left: list[Any] = left) -> None:
            if left:
                left.pop()()

        def count() -> int:
            if asked:
                interrupted()
            return pool.count

        def to(count: int) -> None:
            if not asked:
                interrupted()
            pool.set(count)

        monkeypatch.setattr(blas, "_found", {"numpy": (count, to), "scipy": None})
        with contextlib.suppress(KeyboardInterrupt):
            gt.linalg.inv(gt.eye(3))
        assert pool.count == 4 and not blas._users


def test_of_small_matrices_alone(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "SMALL", 8)
    for side in (8, 9):
        x = gt.eye(side)
        gt.linalg.qr(x), gt.linalg.svd(x), gt.linalg.solve(x, x), gt.linalg.eigh(x)
        assert pool.seen == [1, 4] * 4


def test_the_openblas_that_is_here_is_found_and_set() -> None:
    gt.linalg.inv(gt.eye(3))
    found = [functions for functions in blas._found.values() if functions is not None]
    if not found:
        pytest.skip("NumPy and SciPy have another BLAS than OpenBLAS")
    before = [count() for count, _ in found]
    with blas.one_thread():
        assert [count() for count, _ in found] == [1] * len(found)
    assert [count() for count, _ in found] == before


def test_a_child_that_is_forked_inside_has_all_threads(pool: Pool) -> None:
    with blas.one_thread():
        child = os.fork()
        if not child:
            os._exit(0 if pool.count == 4 and not blas._users else 1)
        assert os.waitpid(child, 0)[1] == 0 and pool.count == 1
