"""Memory of the emulator: addresses, freed allocations, and memory that a kernel may access."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.cuda import Kernel, emulator_settings

from ...harness import tier
from ..support import fresh_emulator, requires_emulator

pytestmark = [requires_emulator, pytest.mark.emulator]
MODES = ("", "writes", "memory", "all")
SLOTS = 20000  # arena.h


@pytest.fixture
def machine(monkeypatch):
    return fresh_emulator(monkeypatch).devices.machine


def test_a_random_program_of_allocations(machine):
    """Allocations are aligned and separate, and every byte next to them is guarded or unmapped."""
    draw, live = random.Random(0), {}
    sizes = (0, 1, 511, 512, 513, 4095, 4096, 4097, 65536, 65537, 300_000)
    for step in range(2000):
        if live and draw.random() < 0.45:
            address, nbytes = live.popitem() if step % 2 else (next(iter(live)), None)
            live.pop(address, None)
            assert machine.free(address) is None
            continue
        nbytes = draw.choice(sizes) + draw.choice((0, 0, draw.randrange(2000)))
        address = machine.allocate(nbytes, 0)
        assert address % 512 == 0
        nearest = min((abs(address - a) for a in live), default=1 << 20)
        assert nearest >= 1 << 20
        live[address] = nbytes
        if nbytes:
            assert machine.find(address + nbytes - 1).begin == address
    for address in live:
        assert machine.free(address) is None


@pytest.mark.full
def test_more_allocations_than_pages_of_their_own(machine):
    held = [machine.allocate(4, 0) for _ in range(SLOTS + 500)]
    assert len(set(held)) == len(held)
    assert machine.check() is None
    for address in held:
        assert machine.free(address) is None


def test_small_pinned_memory_is_reused_in_the_end(machine):
    """Guards of freed memory count too: kept memory is bounded in bytes, not in elements."""
    seen = set()
    for _ in range(40_000):
        address = machine.allocate(1, -1)
        seen.add(address)
        assert machine.free(address) is None
    assert len(seen) < 20_000


# --- what a launch may reach ----------------------------------------------------------------------

HEAD = "struct Node { Node* next; float value; };\n__device__ float* kept;\n"
# body of `k(float* x, float** table, Node* node, int n)`; True if it writes to y, to which the
# table, the second node and the variable point
REACHES = {
    "a table of pointers": "table[0][n] = 5;",
    "a list": "node->next->value = 5; table[0][n] = 5;",
    "one past the end": "float* end = x + n; end[-1] = 1; table[0][n] = 5;",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("body", REACHES.values(), ids=REACHES)
def test_memory_that_arguments_lead_to_is_not_accused(emulated, mode, body):
    x, y = gt.zeros(100, device="cuda"), gt.zeros(200, device="cuda")
    table = gt.tensor([y.data_ptr()], dtype=gt.int64, device="cuda")
    second = gt.zeros(2, dtype=gt.int64, device="cuda")
    node = gt.tensor([second.data_ptr(), 0], dtype=gt.int64, device="cuda")
    text = (
        f'{HEAD}extern "C" __global__ void k(float* x, long long* t, long long* m, int n) {{\n'
        f"float** table = (float**)t; Node* node = (Node*)m;\n{body}\n}}"
    )
    with emulator_settings(sanitize=mode):
        Kernel(text, "k")[1, 1](x, table, node, 100)
    assert y.cpu().numpy()[100] == 5


@pytest.mark.parametrize("mode", MODES)
def test_a_pointer_in_a_variable_leads_to_memory(emulated, mode):
    y = gt.zeros(10, device="cuda")
    text = f'{HEAD}extern "C" __global__ void k(int n) {{ kept[n] = 5; }}'
    with emulator_settings(sanitize=mode):
        kernel = Kernel(text, "k")
        kernel.set("kept", np.array([y.data_ptr()], np.int64))
        kernel[1, 1](3)
    assert y.cpu().numpy()[3] == 5


@pytest.mark.parametrize("mode", MODES[1:])
def test_another_live_tensor_is_out_of_bounds(emulated, mode):
    x, y = gt.zeros(100, device="cuda"), gt.zeros(100, device="cuda")
    at = (y.data_ptr() - x.data_ptr()) // 4 + 7
    text = 'extern "C" __global__ void k(float* x, long long at) {\nx[at] = 1;\n}'
    with emulator_settings(sanitize=mode):
        with pytest.raises(errors.KernelError, match=r"^k\.cu:2: wrote 4 B") as raised:
            Kernel(text, "k")[1, 1](x, at)
    assert f"index {at} of 100" in str(raised.value) and "'y'" not in str(raised.value)
    assert not y.cpu().numpy().any()


# --- which argument is blamed ---------------------------------------------------------------------

BLAME = """
template <typename T> __device__ void touch(T* p, long long i, int does) {
  if (does) p[i] = 1; else p[0] = ((volatile T*)p)[i];
}
extern "C" __global__ void k(
    float* a, unsigned char* b, double* c, int which, long long i, int does) {
  if (which == 0) touch(a, i, does);
  if (which == 1) touch(b, i, does);
  if (which == 2) touch(c, i, does);
}
"""
LAUNCHES = int(os.environ.get("GPUTENSOR_TEST_LAUNCHES") or 120)
CLEAR = 1 << 14  # bytes: closer to another argument the target is ambiguous (findings.py)


def forget_late_writes() -> None:
    """Without checks, a write may hit freed memory, which is only detected later."""
    for _ in range(9):
        try:
            return gt.cuda.synchronize()
        except errors.KernelError:
            pass


@pytest.mark.full
@pytest.mark.parametrize("mode", tier.pick(["memory"], MODES))
def test_no_argument_is_blamed_for_another(emulated, mode):
    """Random accesses are outside of one of three arguments: the error contains its index, and
    names no other."""
    draw = random.Random(f"{mode}{LAUNCHES}")
    dtypes = (gt.float32, gt.uint8, gt.float64)
    silent = 0
    forget_late_writes()
    for _ in range(LAUNCHES):
        counts = [draw.choice((1, 100, 127, 128, 1000, 1024, 5000, 100_000)) for _ in range(3)]
        arrays = [gt.zeros(n, dtype=d, device="cuda") for n, d in zip(counts, dtypes)]
        which, does = draw.randrange(3), draw.randrange(2)
        far = draw.choice((1, 2, 127, 128, 1000, 100_000, 1 << 20, int(2 ** draw.uniform(0, 31))))
        index = counts[which] - 1 + far if draw.random() < 0.6 else -far
        size = dtypes[which].itemsize
        address = arrays[which].data_ptr() + index * size
        ends = [
            (x.data_ptr(), x.data_ptr() + n * d.itemsize) for x, n, d in zip(arrays, counts, dtypes)
        ]
        others = [e for at, e in enumerate(ends) if at != which]
        is_near_another = any(b - CLEAR - 8 <= address <= e + CLEAR for b, e in others)
        said = ""
        with emulator_settings(sanitize=mode):
            try:
                Kernel(BLAME, "k")[1, 1](*arrays, which, index, does)
            except errors.KernelError as error:
                said = str(error)
        forget_late_writes()
        if not said:
            silent += 1
            assert mode in ("", "writes") and (mode == "" or not does) or is_near_another
        elif not is_near_another:
            name = "abc"[which]
            assert f"index {index} of {counts[which]}" in said or "illegal address" in said, said
            blamed = re.search(r"(?:past|before|far from) '(\w)'", said)
            assert blamed is None or blamed[1] == name, (said, name, index)
    assert silent < LAUNCHES / 2


# --- large grids ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["race", "all"])
def test_a_large_grid_is_checked_for_races(emulated, mode):
    text = 'extern "C" __global__ void k(float* x) { if (blockIdx.x == 3) __trap(); }'
    with emulator_settings(sanitize=mode):
        with pytest.raises(errors.KernelError, match=r"^k\.cu:1: __trap\(\) \(block \(3,0,0\)"):
            Kernel(text, "k")[(65535, 65535), 1](np.zeros(1, np.float32))
        with pytest.raises(
            errors.KernelError, match="the check 'race' has no memory for 140735340806145 blocks"
        ):
            Kernel(text, "k")[(2**31 - 1, 65535), 1](np.zeros(1, np.float32))
    with emulator_settings(sanitize=""):
        with pytest.raises(errors.KernelError, match=r"^k\.cu:1: __trap\(\) \(block \(3,0,0\)"):
            Kernel(text, "k")[(2**31 - 1, 65535), 1](np.zeros(1, np.float32))


def test_limits_and_their_words(monkeypatch):
    from gputensor.runtime.emulator import settings

    monkeypatch.setattr(settings, "_now", None)
    monkeypatch.setenv("GPUTENSOR_EMULATOR_LIMIT", "2.5")
    assert settings.current().limit_s == 2.5
    with emulator_settings(limit_s=0):
        assert settings.current().limit_s is None
        assert settings.current().options(0, 1).limit_ms == 0
    with emulator_settings(limit_s=0.0001):  # 0 milliseconds would mean no limit
        assert settings.current().options(0, 1).limit_ms == 1
    for wrong in ("-1", "x", "nan", "inf"):
        monkeypatch.setenv("GPUTENSOR_EMULATOR_LIMIT", wrong)
        settings.forget()
        with pytest.raises(
            errors.ArgumentValueError, match="GPUTENSOR_EMULATOR_LIMIT: must be a number of seconds"
        ):
            settings.current()
    settings.forget()


def test_a_long_kernel_within_its_limit_goes_on(emulated):
    x = np.zeros(1, np.float32)
    text = """extern "C" __global__ void k(volatile float* x) {
  for (int i = 0; i < 3000000; ++i) x[0] += 1;
}"""
    with emulator_settings(limit_s=60):
        Kernel(text, "k")[1, 1](x)
    assert x[0] == 3000000


def test_every_table_has_rows():
    assert REACHES


_LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_AS, ({gib} << 30, {gib} << 30))
import gputensor as gt
assert gt.ones(100, device="cuda").sum().item() == 100
pages = int(open("/proc/self/statm").read().split()[0])
assert pages * resource.getpagesize() <= {gib} << 29, pages
"""


@pytest.mark.full
@pytest.mark.parametrize("gib", [3, 40, 100])
def test_reserved_addresses_leave_room_where_addresses_are_limited(gib):
    """Batch systems limit addresses (`ulimit -v`): most of them must remain for the program."""
    _of_a_process(_LIMITED.format(gib=gib))


def _of_a_process(program):
    command, environment = [sys.executable, "-c", program], {"GPUTENSOR_CUDA": "emulator"}
    answer = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


_NO_STACKS = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))  # too few to reserve
import gputensor as gt
from gputensor import runtime
from gputensor.cuda import Kernel, emulator_settings

x = gt.zeros(32, device="cuda")
far = Kernel('extern "C" __global__ void far(float* x) { x[threadIdx.x + 32] = 1; }', "far")
text = 'extern "C" __global__ void meets(float* x) { __syncthreads(); x[threadIdx.x] = 1; }'
meets = Kernel(text, "meets")
meets._function(runtime.cuda(), 0)

def message(kernel):
    try:
        kernel[1, 32](x)
        gt.cuda.synchronize()
    except gt.GpuTensorError as error:
        return str(error)

with emulator_settings(sanitize="memory"):
    print(message(far))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (40 << 20), 2 << 30))
print(message(meets))
"""


@pytest.mark.full
def test_a_launch_without_memory_for_stacks_tells_of_no_earlier_finding():
    far, meets = _of_a_process(_NO_STACKS).splitlines()
    assert "wrote 4 B past 'x'" in far
    assert meets.startswith("meets: no memory for the stacks of its threads")
    assert "thread (" not in meets and "index" not in meets, meets


def test_memory_may_be_dropped_when_the_interpreter_has_emptied_the_modules(monkeypatch):
    runtime = fresh_emulator(monkeypatch)
    memory = runtime.allocate(16, 0)
    with monkeypatch.context() as at_exit:
        at_exit.setattr(runtime.memory, "devices", None)
        del memory  # an exception in a finaliser would fail this test
    assert runtime.memory_allocated(0) == 0 and runtime.mem_get_info(0)[0] == 4 << 30
