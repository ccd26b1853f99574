"""Hand-over of work to the standing threads of runtime/cpu.py: no work is lost in any case."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import gputensor as gt
from gputensor.runtime import cpu
from tests.harness import helper_threads

NAME = "gputensor-cpu-"


@pytest.fixture(autouse=True)
def two_threads():
    before = cpu.get_num_threads()
    helper_threads.anew(2)
    yield
    cpu.set_num_threads(before)


def helpers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith(NAME)]


def both(piece, count=2):
    """Call `share` with parts that wait for each other, so that a helper runs one of them."""
    barrier = threading.Barrier(2)

    def work(index):
        if index in (0, count // 2):
            barrier.wait()
        piece(index)

    cpu.share(count, 2, lambda: work)


def in_helper() -> bool:
    return threading.current_thread().name.startswith(NAME)


def ended(threads):
    for thread in threads:
        thread.join(60)
    return not any(t.is_alive() for t in threads)


def test_the_same_thread_helps_again():
    seen = set()
    for _ in range(20):
        both(lambda index: seen.add(threading.current_thread()))
    assert seen - {threading.current_thread()} == set(helpers()) and len(helpers()) == 1
    assert all(t.daemon for t in helpers())


def test_a_thread_has_the_same_part_in_each_call_and_what_others_leave():
    for _ in range(3):
        mine, theirs, rest_is_done = [], [], threading.Event()

        def piece(index, mine=mine, theirs=theirs, rest_is_done=rest_is_done):
            if in_helper():
                theirs.append(index)
                rest_is_done.wait(60)
            else:
                mine.append(index)
                if len(mine) == 9:
                    rest_is_done.set()

        both(piece, 10)
        assert mine == [0, 1, 2, 3, 4, 6, 7, 8, 9] and theirs == [5]


def test_no_thread_is_left_after_set_num_threads_1():
    both(lambda index: None)
    old = helpers()
    cpu.set_num_threads(1)
    assert old and ended(old) and not helpers()
    cpu.set_num_threads(3)
    barrier = threading.Barrier(3)
    cpu.share(3, 3, lambda: lambda index: barrier.wait())
    assert len(helpers()) == 2


def test_a_thread_at_work_ends_with_its_piece_when_the_number_changes():
    def piece(index):
        if in_helper():
            cpu.set_num_threads(1)
            cpu.set_num_threads(2)

    both(lambda index: None)
    old = helpers()
    both(piece)
    assert ended(old)
    both(lambda index: None)
    assert len(helpers()) == 1 and helpers() != old


def test_a_helpers_failure_arrives_with_its_traceback_and_stops_the_rest():
    done = []

    def piece(index):
        done.append(index)
        if in_helper():
            raise KeyError("helper")
        deadline = time.monotonic() + 60
        while not failed and time.monotonic() < deadline:
            failed.extend(t for t in tickets() if t.failure is not None)

    def tickets():
        return [x for x in gc.get_objects() if type(x) is cpu._Ticket and x.failure is not None]

    failed = []
    with pytest.raises(KeyError, match="helper") as caught:
        both(piece, 1000)
    assert "piece" in [entry.name for entry in caught.traceback]
    assert sorted(done) == [0, 500]
    both(lambda index: None)  # and the helper is still there


def test_the_callers_failure_waits_for_the_helper():
    finished = []

    def piece(index):
        if not in_helper():
            raise ValueError("caller")
        time.sleep(0.05)
        finished.append(index)

    with pytest.raises(ValueError, match="caller"):
        both(piece, 100)
    assert len(finished) == 1


@pytest.mark.parametrize("failing", [False, True])
def test_operands_are_let_go_of_before_the_call_returns(failing):
    array = np.zeros(10)
    gone = weakref.ref(array)

    def piece(index, held=array):
        held[index] = 1
        if failing and in_helper():
            raise KeyError

    try:
        both(piece)
    except KeyError:
        assert failing
    del array, piece
    gc.collect()
    assert gone() is None


def test_helpers_see_no_state_of_the_caller():
    seen = {}

    def piece(index):
        if in_helper():
            seen["helper"] = (gt.is_grad_enabled(), np.geterr()["divide"])

    with gt.no_grad(), np.errstate(divide="raise"):
        both(piece)
    assert seen == {"helper": (True, np.geterr()["divide"])}


def test_nested_calls_run_inline_in_caller_and_helper():
    seen = []

    def inner(index):
        seen.append((threading.get_ident(), index))

    def piece(index):
        first = len(helpers())
        cpu.share(5, 2, lambda: inner)
        assert len(helpers()) == first

    both(piece)
    idents = {ident for ident, _ in seen}
    assert len(idents) == 2
    for ident in idents:
        assert [index for who, index in seen if who == ident] == [0, 1, 2, 3, 4]


def test_several_callers_at_once_get_their_own_pieces():
    cpu.set_num_threads(3)
    wrong = []

    def caller(number):
        generator = np.random.default_rng(number)
        for _ in range(200):
            count = int(generator.integers(1, 40))
            done, failing = [], generator.random() < 0.2

            def piece(index, done=done, failing=failing, count=count):
                done.append(index)
                if failing and index == count - 1:
                    raise LookupError(number)

            try:
                cpu.share(count, 3, lambda piece=piece: piece)
                if failing or sorted(done) != list(range(count)):
                    wrong.append((number, done))
            except LookupError as error:
                if error.args != (number,):
                    wrong.append((number, error))

    threads = [threading.Thread(target=caller, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    assert ended(threads) and not wrong
    assert len(helpers()) <= 2


def test_a_signals_handler_may_calculate_while_its_thread_waits():
    seen = []

    def handler(number, frame):
        cpu.share(4, 2, lambda: seen.append)

    before = signal.signal(signal.SIGUSR1, handler)
    try:

        def piece(index):
            if in_helper():
                time.sleep(0.05)
                os.kill(os.getpid(), signal.SIGUSR1)
                time.sleep(0.05)

        both(piece)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert sorted(seen) == [0, 1, 2, 3]


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_waiting_leaves_nothing_running(times):
    """The exception is raised after the helper's part has ended, and no further part begins."""
    begun, finished = [], []

    def piece(index):
        begun.append(index)
        if in_helper():
            for _ in range(times):
                time.sleep(0.03)
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.03)
            finished.append(index)

    with pytest.raises(KeyboardInterrupt):
        both(piece, 3)
    assert len(finished) == 1
    now = list(begun)
    time.sleep(0.05)
    assert begun == now
    both(lambda index: None)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_waiting_comes_before_what_a_piece_raised():
    begun = threading.Event()

    def piece(index):
        if not in_helper():
            assert begun.wait(10)
            raise MemoryError
        begun.set()
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.03)

    with pytest.raises(KeyboardInterrupt):
        both(piece, 2)
    both(lambda index: None)


def test_ctrl_c_at_any_moment_leaves_the_pool_as_it_was():
    """A thread that shares small parts gets many signals. Each call returns, or a signal interrupts
    it."""
    program = r"""
import os, signal, threading, time
import numpy as np
from gputensor.runtime import cpu

class Stop(Exception): pass
def handler(number, frame):
    if armed: raise Stop
armed = False
cpu.set_num_threads(2)
cpu.share(2, 2, lambda: lambda index: None)
signal.signal(signal.SIGUSR1, handler)
over = threading.Event()
me = threading.main_thread().ident
def rain():
    while not over.wait(0.0003):
        signal.pthread_kill(me, signal.SIGUSR1)
sender = threading.Thread(target=rain); sender.start()
begun, finished = [], []
x = np.zeros((8, 20_000))
def piece(index):
    helps = threading.get_ident() != me
    if helps:
        begun.append(index)
    np.add(x[index], 1, out=x[index])
    if helps:
        finished.append(index)
stopped = 0
for _ in range(3000):
    try:
        armed = True
        cpu.share(8, 2, lambda: piece)
        armed = False
    except Stop:
        armed = False
        stopped += 1
    assert len(begun) == len(finished)
assert begun
over.set(); sender.join()
while cpu._the_pool()._tickets.qsize():  # a call asks for nobody while a helper has yet to come
    time.sleep(0.001)
barrier = threading.Barrier(2)
cpu.share(2, 2, lambda: lambda index: barrier.wait(60))
assert sum(t.name.startswith("gputensor-cpu-") for t in threading.enumerate()) == 1
print("stopped", stopped > 0)
"""
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert answer.stdout == "stopped True\n", answer.stderr


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_child_forked_while_a_helper_works_has_helpers_of_its_own():
    status = []

    def piece(index):
        if in_helper():
            time.sleep(0.1)
            return
        child = os.fork()
        if child == 0:
            cpu._inside.part = False
            try:
                both(lambda index: None)
                fine = len(helpers()) == 1 and helpers()[0].is_alive()
                cpu.set_num_threads(1)
                os._exit(0 if fine and ended(helpers()) else 2)
            finally:
                os._exit(1)
        status.append(os.waitpid(child, 0)[1])

    both(piece)
    assert status == [0]
    both(lambda index: None)


def test_helpers_sleep_while_there_is_nothing_to_do():
    both(lambda index: None)
    time.sleep(0.05)
    begin = time.process_time()
    time.sleep(0.5)
    # It would be 0.5 for a spinning thread; other threads of the process need some of it.
    assert time.process_time() - begin < 0.3


def test_a_process_ends_while_its_helpers_sleep_and_calculates_on_its_way():
    program = """
import atexit
import gputensor as gt
gt.set_num_threads(2)
x = gt.ones(1 << 21)
atexit.register(lambda: print("exit", int((x + x).sum()) >> 22))
print("now", int((x + 1).sum()) >> 22)
"""
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 0 and answer.stdout.startswith("now 1\nexit 1\n"), answer.stderr


def test_a_finaliser_may_calculate_first_when_the_interpreter_ends():
    program = """
import os
from gputensor.runtime import cpu
import gputensor as gt
gt.set_num_threads(4)
class Late:
    share, write = cpu.share, os.write
    def __del__(self):
        done = []
        Late.share(8, 4, lambda: done.append)
        Late.write(1, repr(sorted(done)).encode())
late = Late()
"""
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 0 and answer.stdout == "[0, 1, 2, 3, 4, 5, 6, 7]", answer.stderr
