"""CPU loops raise no warning or error of NumPy, for any error state of the caller."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from gputensor.kernels.cpu import quiet

ONE = np.ones(3, np.float32)
ZERO = np.zeros(3, np.float32)


def by_hand(loop, *args):
    try:
        return quiet.enter(loop, *args)
    except RuntimeError as error:
        return quiet.again(error, loop, *args)


RUNNERS = [quiet.run, by_hand]


@pytest.mark.parametrize("run", RUNNERS)
def test_no_warning_and_no_error_whatever_the_user_asked_numpy_for(run):
    with np.errstate(all="raise"):
        before = np.geterr()
        assert np.isinf(run(np.divide, ONE, ZERO)).all()
        assert np.geterr() == before
        with pytest.raises(FloatingPointError):
            np.divide(ONE, ZERO)


@pytest.mark.parametrize("run", RUNNERS)
def test_a_run_inside_a_run(run):
    assert np.isinf(run(run, run, np.divide, ONE, ZERO)).all()
    assert quiet.run(np.add, 1, 2, dtype=np.float64) == 3.0


def test_a_loops_own_runtime_error_is_raised_once():
    calls = []

    def loop():
        calls.append(1)
        raise RuntimeError("cannot enter context: not this one")

    for run in (quiet.run, by_hand):
        calls.clear()
        with pytest.raises(RuntimeError, match="not this one"):
            run(loop)
        assert calls == [1]
        with pytest.raises(RuntimeError, match="not this one"):
            run(run, loop)
        assert np.isinf(run(np.divide, ONE, ZERO)).all()


@pytest.mark.parametrize("run", RUNNERS)
def test_threads_that_are_inside_at_the_same_time(run):
    together = threading.Barrier(4)
    results, failures = [], []

    def loop():
        together.wait(60)  # passes only when all four are inside
        return np.divide(ONE, ZERO)

    def work():
        try:
            with np.errstate(all="raise"):
                results.append(run(loop))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(results) == 4


def test_tasks_keep_their_own_error_state():
    async def task(mode):
        with np.errstate(all=mode):
            for _ in range(3):
                quiet.run(np.divide, ONE, ZERO)
                await asyncio.sleep(0)
            return np.geterr()["divide"]

    async def both():
        return await asyncio.gather(task("raise"), task("ignore"))

    assert asyncio.run(both()) == ["raise", "ignore"]
