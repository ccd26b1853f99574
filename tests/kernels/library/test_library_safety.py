"""The compiled library within a process: Ctrl-C, forks, threads of all kinds, no memory.

Each test runs a program in a new process. `refusing` loads a shim before the library, which makes
requests for memory or threads fail.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gputensor.kernels.compiled import library

from ...harness import shims

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

# The beginning of each program. check() runs loops of several kinds on all threads and compares
# results.
BEGIN = """
import gc, os, signal, sys, threading, warnings
import numpy as np
import gputensor as gt

gt.set_num_threads(2)
X = np.random.default_rng(0).standard_normal((40, 5000))
GIVEN = gt.tensor(X)

def close(x, expected):
    np.testing.assert_allclose(x.numpy(), expected, 1e-9, 1e-9)

def check():
    close(GIVEN * 2 + 1, X * 2 + 1)
    close(GIVEN.t().exp(), np.exp(X.T))
    close(GIVEN.sum(), X.sum())
    close(GIVEN.sum(0), X.sum(0))
    close(GIVEN.cumsum(1), X.cumsum(1))
    close(GIVEN.softmax(1).sum(1), np.ones(40))
    close(GIVEN.topk(3, 1)[0], -np.sort(-X, 1)[:, :3])
    close(GIVEN.float().double(), X.astype(np.float32))

def helpers():
    "The library's own threads, which Python does not know."
    known = {t.native_id for t in threading.enumerate()} | {os.getpid()}
    return sorted({int(t) for t in os.listdir("/proc/self/task")} - known - BEFORE)

BEFORE = frozenset()
BEFORE = frozenset(helpers())  # BLAS has some
"""


def run(program: str, **settings: str) -> str:
    """Run a program, which must end without an error, and return its output."""
    given = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    env = given | {"GPUTENSOR_CUDA": "off"} | settings
    command = [sys.executable, "-c", BEGIN + program]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.strip()


# --- signals --------------------------------------------------------------------------------------


@pytest.mark.full
def test_ctrl_c_within_a_loop_raises_once_it_is_done_and_the_next_one_is_right():
    program = """
signal.signal(signal.SIGINT, signal.default_int_handler)
large = gt.ones(1 << 20)
stopped = 0
for seconds in np.linspace(0.001, 0.03, 20):
    to_all = stopped % 2  # the system chooses a thread, or the test does
    press = (lambda: os.kill(os.getpid(), signal.SIGINT)) if to_all else (
        lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
    timer = threading.Timer(seconds, press)
    try:
        timer.start()
        while True:
            large.exp().sum(); large.cumsum(0); (large + large) * large
    except KeyboardInterrupt:
        stopped += 1
    timer.join()
    check()
print(stopped)
"""
    assert run(program) == "20"


@pytest.mark.full
def test_helpers_take_no_signals():
    program = """
check()
blocked = []
for thread in helpers():
    lines = open(f"/proc/self/task/{thread}/status").read().splitlines()
    mask = next(int(line.split()[1], 16) for line in lines if line.startswith("SigBlk"))
    blocked.append(all(mask >> (s - 1) & 1 for s in (signal.SIGINT, signal.SIGTERM)))
print(blocked)
"""
    assert run(program) == "[True]"


@pytest.mark.full
def test_a_handler_calculates():
    program = """
calls = []
def handler(*_):
    check()
    calls.append(1)
    if len(calls) < 10:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
check()  # all modules are loaded
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.002)
while len(calls) < 10:
    check()
print(len(calls))
"""
    assert run(program) == "10"


# --- forks ----------------------------------------------------------------------------------------

FORK = """
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a process with threads forks

def child_is_right():
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert helpers() == []
            check()
            status = 0 if len(helpers()) == 1 else 2
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_child_has_helpers_of_its_own_and_so_has_its_parent():
    program = """
check()
assert len(helpers()) == 1
print([child_is_right() for _ in range(3)])
check()
assert len(helpers()) == 1
"""
    assert run(FORK + program) == "[True, True, True]"


@pytest.mark.full
def test_a_process_forks_while_other_threads_are_within_loops():
    program = """
over = threading.Event()
large = gt.ones(1 << 20)
check()  # a fork within an import of another thread is another matter
def work():
    while not over.is_set():
        large.exp().sum()
        check()
threads = [threading.Thread(target=work) for _ in range(2)]
for t in threads: t.start()
right = [child_is_right() for _ in range(20)]
over.set()
for t in threads: t.join()
check()
print(all(right))
"""
    assert run(FORK + program) == "True"


@pytest.mark.full
def test_processes_of_multiprocessing_that_fork():
    program = """
import multiprocessing
check()
def task(number):
    check()
    return float((GIVEN + number).sum()) == float((GIVEN + number).sum())
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(all(pool.map(task, range(8))))
check()
"""
    assert run(FORK + program) == "True"


# --- threads --------------------------------------------------------------------------------------


@pytest.mark.full
def test_many_threads_call_at_once_while_their_number_changes():
    program = """
failures = []
def work():
    try:
        for _ in range(10): check()
    except BaseException as error:
        failures.append(error)
threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads: t.start()
while any(t.is_alive() for t in threads):
    for count in (1, 3, 2, 7):
        gt.set_num_threads(count)
        check()
for t in threads: t.join()
print(failures)
"""
    assert run(program) == "[]"


@pytest.mark.full
def test_a_hook_of_backward_calculates():
    program = """
seen = []
x = GIVEN.clone().requires_grad_()
def hook(grad):
    thread = threading.Thread(target=check)
    thread.start()
    check()
    thread.join()
    seen.append(1)
    return grad * 2
x.register_hook(hook)
(x * x).sum().backward()
close(x.grad, 4 * X)
print(seen)
"""
    assert run(program) == "[1]"


def test_the_number_of_threads_is_obeyed():
    program = """
def ticks(thread):
    fields = open(f"/proc/self/task/{thread}/stat").read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
gt.set_num_threads(1)
check()
none = len(helpers())
gt.set_num_threads(3)
for _ in range(5): check()
two = len(helpers())
gt.set_num_threads(1)
before = [ticks(t) for t in helpers()]
for _ in range(20): check()
print(none, two, [ticks(t) for t in helpers()] == before)
"""
    assert run(program) == "0 2 True"


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2, reason="one CPU"
)
def test_a_helper_that_wakes_runs_on_another_cpu_than_the_call():
    """Linux would often wake it where the call runs, even if another CPU is idle."""
    program = """
import time
first, second = sorted(os.sched_getaffinity(0))[:2]
os.sched_setaffinity(0, {first, second})
check()
(helper,) = helpers()
seen = []
for cpu in (first, second, first):
    os.sched_setaffinity(0, {cpu})  # the call runs there
    os.sched_setaffinity(0, {first, second})
    time.sleep(0.01)
    check()
    seen.append(os.sched_getaffinity(helper))
print(all(len(of) == 1 and of < {first, second} for of in seen))
os.sched_setaffinity(0, {first})  # no other CPU is left
time.sleep(0.01)
check()
"""
    assert run(program) == "True"


# --- failures of the system -----------------------------------------------------------------------

# Functions of the C library that count calls from our library, and fail after a call of `refuse`.
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
int refuse_memory, refuse_threads, refused;
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
static int is_ours(void *caller) {
  Dl_info found;
  return dladdr(caller, &found) && strstr(found.dli_fname, "_library.abi3.so");
}
static int refuses(int wanted, void *caller) {
  return wanted && is_ours(caller) ? __atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED) : 0;
}
void *malloc(size_t n) {
  return refuses(refuse_memory, __builtin_return_address(0)) ? 0 : __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
  return refuses(refuse_memory, __builtin_return_address(0)) ? 0 : __libc_calloc(n, size);
}
int pthread_create(pthread_t *thread, const pthread_attr_t *a, void *(*f)(void *), void *given) {
  if (refuses(refuse_threads, __builtin_return_address(0))) return EAGAIN;
  int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
      dlsym(RTLD_NEXT, "pthread_create");
  return real(thread, a, f, given);
}
"""

SWITCHES = """
import ctypes
def switch(name):
    return ctypes.c_int.in_dll(ctypes.CDLL(None), name)
refuse_memory, refuse_threads, refused = map(switch, ("refuse_memory", "refuse_threads", "refused"))
"""

RunRefusing = Callable[[str], str]


@pytest.fixture
def refusing(tmp_path: Path) -> RunRefusing:
    """Runs a program with the shim, which can make requests for memory and threads fail."""
    if library.choice().capability == "neon":
        pytest.skip("the shim was tried with glibc on x86_64 alone")
    shim = shims.built(SHIM, tmp_path)
    return lambda program: run(SWITCHES + program, LD_PRELOAD=str(shim))


@pytest.mark.full
def test_without_threads_the_caller_does_the_work(refusing: RunRefusing):
    program = """
refuse_threads.value = 1
check()
assert helpers() == [] and refused.value
refuse_threads.value = 0
check()
print(len(helpers()))
"""
    assert refusing(program) == "1"


# Calls that allocate temporary memory; operands are large enough for that.
NEEDS = """
F = gt.nn.functional
def drawn(*sizes, dtype=gt.float32):
    return gt.tensor(np.random.default_rng(1).standard_normal(sizes)).to(dtype)
tall, wide, line = drawn(70_000, 12), drawn(12, 70_000), drawn(300_000)
square = drawn(3, 20, 20) + 40 * gt.eye(20)
image = drawn(6, 8, 30, 30)
def gradients(f):
    def both():
        x = image.clone().requires_grad_()
        made = f(x)
        made.backward(gt.ones_like(made) * 0.5)
        return x.grad
    return both
weight = gt.ones(8)
NEEDS = {
    "sum": lambda: line.sum(), "sum of columns": lambda: tall.sum(0),
    "mean": lambda: line.mean(), "var": lambda: wide.var(1), "var of all": lambda: line.var(),
    "std of columns": lambda: tall.std(0), "var_mean": lambda: gt.var_mean(line)[0],
    "norm": lambda: line.norm(), "logsumexp": lambda: line.logsumexp(0),
    "logsumexp of columns": lambda: tall.logsumexp(0), "prod": lambda: (line * 0 + 1).prod(),
    "amax": lambda: line.amax(), "argmax": lambda: line.argmax(), "min": lambda: line.min(0)[1],
    "argmax of columns": lambda: tall.argmax(0), "any": lambda: (line > 9).any(),
    "topk": lambda: line.topk(2000)[0], "topk of a few": lambda: line.topk(5)[0],
    "topk of rows": lambda: wide.topk(1500)[0], "kthvalue": lambda: line.kthvalue(1000)[0],
    "median": lambda: wide.median(1)[0], "sort": lambda: line.sort()[0],
    "bincount": lambda: (line * 9).abs().long().bincount(), "histc": lambda: line.histc(50),
    "nonzero": lambda: (line > 0).nonzero(), "unique": lambda: line.round().unique(),
    "masked_select": lambda: line.masked_select(line > 0), "cumsum": lambda: line.cumsum(0),
    "cumsum of columns": lambda: tall.cumsum(0), "randperm": lambda: gt.randperm(70_000).sort()[0],
    "index_add": lambda: gt.zeros(5).index_add(0, (line * 0).long(), line),
    "layer_norm": gradients(lambda x: F.layer_norm(x, (30,), gt.ones(30).requires_grad_())),
    "batch_norm": gradients(lambda x: F.batch_norm(x, None, None, weight, weight, True)),
    "group_norm": gradients(lambda x: F.group_norm(x, 2, weight.clone().requires_grad_(), weight)),
    "batch_norm of rows": lambda: F.batch_norm(tall, None, None, training=True),
    "bmm": lambda: square @ square, "bmm of others": lambda: drawn(9, 40, 300).mT @ drawn(9, 40, 7),
    "inv": lambda: square.inverse(), "det": lambda: gt.linalg.det(square),
    "solve": lambda: gt.linalg.solve(square, drawn(3, 20, 2)),
    "cholesky": lambda: gt.linalg.cholesky(square + square.mT),
    "qr": lambda: gt.linalg.qr(square)[1], "svd": lambda: gt.linalg.svdvals(square),
    "eigh": lambda: gt.linalg.eigvalsh(square + square.mT),
    "lstsq": lambda: gt.linalg.lstsq(square, drawn(3, 20, 2))[0],
    "matrix_exp": lambda: gt.linalg.matrix_exp(square / 80),
    "cross_entropy": lambda: F.cross_entropy(tall, gt.zeros(70_000, dtype=gt.int64)),
    "flip": lambda: tall.flip(0), "copy": lambda: drawn(40, 40, 41).permute(2, 0, 1).contiguous(),
}
"""


@pytest.mark.full
def test_without_memory_an_operator_is_right_or_raises_memory_error(refusing: RunRefusing):
    program = """
counts = {}
for name, call in NEEDS.items():
    gt.manual_seed(0)
    expected = call().numpy()
    refused.value, refuse_memory.value = 0, 1
    try:
        gt.manual_seed(0)
        found = call().numpy()
    except MemoryError:
        found = None
    finally:
        refuse_memory.value = 0
    counts[name] = refused.value
    if found is not None:
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5, err_msg=name)
    gt.manual_seed(0)
    np.testing.assert_array_equal(call().numpy(), expected, err_msg=name)
    check()
print(",".join(name for name, count in counts.items() if count))
"""
    asked = refusing(NEEDS + program).split(",")
    needed = {"sum", "var", "logsumexp", "argmax", "topk", "kthvalue", "bincount", "group_norm"}
    assert {*needed, "bmm of others", "qr", "svd", "eigh", "matrix_exp"} <= {*asked}, asked


@pytest.mark.full
def test_an_address_space_that_is_full_raises_memory_error():
    program = """
import resource
large = gt.ones(1 << 20)
calls = [
    lambda: large + 1, lambda: large.exp(), lambda: large.cumsum(0), lambda: large.topk(300_000),
    lambda: large.to(gt.float64), lambda: large.sort(), lambda: large.nonzero(),
    lambda: gt.randn(1 << 20), lambda: large.view(1024, 1024).t().contiguous(),
]
for call in calls:
    call()
gc.collect()
pages = int(open("/proc/self/statm").read().split()[0])
raised = 0
for headroom in (0, 1 << 20, 8 << 20):
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + headroom, -1))
    kept = []
    for call in calls * 3:
        try:
            kept.append(call())  # until nothing is left
        except MemoryError:
            raised += 1
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    del kept
    check()
print(raised > 0)
"""
    assert run(program) == "True"
