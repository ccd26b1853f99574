"""A launch of a crashing kernel raises an error, and the process continues.

Every kernel of hostile.py runs in this process, with and without checks, in the main thread and
another, in each order of the queues. After each one a good kernel runs, and memory is unchanged.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.cuda import Kernel, emulator_settings

from .hostile import KERNELS, LATE, N, address_for, name_of, text
from ...harness import tier
from ..support import requires_emulator

pytestmark = [requires_emulator, pytest.mark.emulator]
MODES = ("", "writes", "memory", "all")
GOOD = (
    'extern "C" __global__ void good(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = n; }'
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("hostile") / "hostile.cu"
    file.write_text(text())
    return file


def attempt(path: Path, case: str, mode: str, in_fibers: bool) -> str:
    """Launch it. Return the error's text; "" if there is none."""
    x, y, other = (gt.ones(N, device="cuda") for _ in range(3))
    own = np.ones(64, np.float32)
    at = address_for(case, other.data_ptr(), own)
    said = ""
    is_endless = case.startswith("endless") and case != "endless recursion"
    # on a busy machine any other kernel may take long
    with emulator_settings(sanitize=mode, limit_s=0.05 if is_endless else 0):
        try:
            Kernel(path, name_of(case, in_fibers))[2, 64, 64](x, y, at, N)
            gt.cuda.synchronize()
        except errors.KernelError as error:
            said = str(error)
        Kernel(GOOD, "good")[1, 64](y, 40)
        gt.cuda.synchronize()
    assert y.cpu().numpy()[:41].tolist() == [40.0] * 40 + [1.0]
    assert not mode or (other.cpu().numpy() == 1).all()
    assert (own == 1).all()
    return said


def attempt_all(path: Path, mode: str, wrong: list[str]) -> None:
    for case, kernel in KERNELS.items():
        if mode == "" and case == "write to the process's memory":
            continue  # guarded by `writes` only
        for in_fibers in (False, True):
            said = attempt(path, case, mode, in_fibers)
            # without checks it may hit freed memory, and the error names that memory
            wanted = kernel.said if mode or not kernel.is_wild else f"{kernel.said}|{LATE}"
            if mode in kernel.modes and not re.search(wanted, said):
                wrong.append(f"{case} ({mode}, {'fibers' if in_fibers else 'plain'}): {said!r}")


RUNS = [
    *((mode, "main", "eager") for mode in MODES),
    ("", "worker", "lazy"), ("all", "worker", "eager"), ("writes", "main", "random"),
]  # fmt: skip
if os.environ.get("GPUTENSOR_TEST_LONG") == "1":
    ORDERS = ("eager", "lazy", "random")
    RUNS = [(m, w, o) for m in MODES for w in ("main", "worker") for o in ORDERS]


@pytest.mark.full
@pytest.mark.parametrize(("mode", "where", "order"), RUNS)
def test_every_launch_ends_with_a_sentence(emulated, monkeypatch, path, mode, where, order):
    from gputensor.runtime import cuda_emulator

    monkeypatch.setattr(cuda_emulator.devices.scheduler, "order", order)
    wrong: list[str] = []
    if where == "main":
        attempt_all(path, mode, wrong)
    else:
        ended = threading.Event()

        def work() -> None:
            attempt_all(path, mode, wrong)
            ended.set()

        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        assert ended.is_set()
    assert not wrong, "\n".join(wrong)


# --- a run of pytest with the plugin --------------------------------------------------------------

TESTS = """
import pytest
import gputensor as gt
TEXT = '''
extern "C" __global__ void put(float* x, long long at) { x[at] = 1; }
extern "C" __global__ void wait(float* x) { while (((volatile float*)x)[0] != 7) {} }
extern "C" __global__ void axpy(float* x, float* y, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = a * x[i] + y[i];
}
'''
@pytest.mark.parametrize("at", [0, 1000, 1126, 1127, 1999, 100_999, 10**9, -1, -1000, -10**6])
def test_put(gputensor_cuda, at):
    x = gt.zeros(1000, device="cuda")
    gputensor_cuda.Kernel(TEXT, "put")[1, 1](x, at)
def test_axpy_without_its_if(gputensor_cuda):
    x, y = gt.ones(1000, device="cuda"), gt.ones(1000, device="cuda")
    gputensor_cuda.Kernel(TEXT, "axpy")[4, 512](x, y, 2.0, 1000)
def test_wait(gputensor_cuda):
    gputensor_cuda.Kernel(TEXT, "wait")[1, 1](gt.zeros(1, device="cuda"))
def test_good(gputensor_cuda):
    x = gt.zeros(1000, device="cuda")
    gputensor_cuda.Kernel(TEXT, "put")[1, 1](x, 999)
    assert x.sum().item() == 1
"""
PUTS = (1000, 1126, 1127, 1999, 100_999, 10**9, -1, -1000, -(10**6))


@pytest.mark.full
@pytest.mark.parametrize("order", tier.pick(["random"], ["eager", "random"]))
def test_one_kernel_fails_its_own_test_and_the_others_go_on(tmp_path, order):
    (tmp_path / "test_kernels.py").write_text(TESTS)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GPUTENSOR_") or "CACHE" in k}
    environment = kept | {
        "PYTHONPATH": str(Path(__file__).parents[3]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "GPUTENSOR_EMULATOR_ORDER": order,
    }  # fmt: skip
    options = "-rfE -p gputensor.pytest_plugin -p no:cacheprovider --gputensor=emulator".split()
    command = [sys.executable, "-m", "pytest", *options, "--gputensor-limit=1", "."]
    answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    said = answer.stdout + answer.stderr
    assert answer.returncode == 1, said
    assert "checks writes, limit 1 s" in said
    # if the order is not eager, a kernel fails at the end of its test, which counts as an error
    bad = re.findall(r"^(?:FAILED|ERROR) test_kernels.py::(\S+)", said, re.MULTILINE)
    assert set(bad) == {f"test_put[{at}]" for at in PUTS} | {
        "test_axpy_without_its_if",
        "test_wait",
    }
    for index in PUTS[:5]:
        assert f"wrote 4 B past 'x' (block (0,0,0), thread (0,0,0), index {index} of 1000)" in said


# --- Ctrl-C ---------------------------------------------------------------------------------------

INTERRUPTED = """
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & has it ignored
import gputensor as gt
ENDLESS = 'extern "C" __global__ void wait(volatile float* x) { while (x[0] != 7) {} }'
said = []
def work():
    try:
        gt.cuda.Kernel(ENDLESS, "wait")[1, 1](gt.zeros(1, device="cuda"))
    except BaseException as error:
        said.append(f"{type(error).__name__}: {error}")
worker = threading.Thread(target=work, daemon="daemon" in sys.argv)
x = gt.ones(4, device="cuda")
gt.cuda.Kernel(ENDLESS, "wait")._function(gt.runtime.cuda(), 0)  # compiled before the clock runs
worker.start()
time.sleep(0.3)
if "ctrl-c" in sys.argv:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        (x + 1).cpu() if "waits" in sys.argv else worker.join()
    except KeyboardInterrupt:
        said.append("KeyboardInterrupt")
    worker.join()
    assert (x + 1).cpu().numpy().tolist() == [2.0] * 4  # the machine is free again
    print(sorted(said))
"""


WAYS = ["ctrl-c", "ctrl-c waits", "ctrl-c daemon", "daemon"]


@pytest.mark.full
@pytest.mark.parametrize("sanitize", ["", "all"])
@pytest.mark.parametrize("what", WAYS)
def test_an_endless_kernel_in_another_thread_ends(sanitize, what):
    settings = {"GPUTENSOR_CUDA": "emulator", "GPUTENSOR_EMULATOR_SANITIZE": sanitize}
    answer = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *what.split()],
        env={**os.environ, **settings, "GPUTENSOR_EMULATOR_LIMIT": ""}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    if "ctrl-c" in what:
        place = "KernelError: wait.cu:1: interrupted (block (0,0,0), thread (0,0,0))"
        assert answer.stdout == f"{['KernelError: PLACE', 'KeyboardInterrupt']}\n".replace(
            "KernelError: PLACE", place
        )


def test_every_table_has_rows():
    assert KERNELS


_DEFAULT_ALARM = """
import signal, threading, time
import gputensor as gt
endless = 'extern "C" __global__ void k(volatile float* x) { x[0] = 1; while (x[0]) {} }'
kernel, x = gt.cuda.Kernel(endless, "k"), gt.zeros(1, device="cuda")
threading.Thread(target=kernel[1, 1], args=(x,), daemon=True).start()
time.sleep(1)  # the kernel has begun
signal.alarm(1)
time.sleep(5)
print("it was lost")
"""


@pytest.mark.full
def test_an_alarm_that_nobody_handles_ends_the_process_while_another_thread_launches():
    answer = subprocess.run(
        [sys.executable, "-c", _DEFAULT_ALARM], capture_output=True, text=True,
        env={**os.environ, "GPUTENSOR_CUDA": "emulator"},
    )  # fmt: skip
    assert answer.returncode == -signal.SIGALRM, (answer.stdout, answer.stderr)
