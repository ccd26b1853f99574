"""The emulator's reports about wrong kernels: kernel, place, block and thread."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from gputensor.core import errors

from ..support import Device, fresh_emulator, requires_emulator

pytestmark = [requires_emulator, pytest.mark.emulator]

HEAD = """#line 2 "wrong.cu"
struct P { float* out; int n; };
extern "C" __global__ void wrong(const __grid_constant__ P p) {
"""

# body (line 4 of the text), threads, the message
FINDINGS = {
    "barrier in a branch": (
        "if (threadIdx.x < 8) __syncthreads();",
        64,
        r"wrong\.cu:4: divergent __syncthreads: thread \(8,0,0\) has left the kernel \(block "
        r"\(0,0,0\), thread \(0,0,0\)",
    ),
    "barriers in two branches": (
        "if (threadIdx.x == 33) { __syncthreads(); }\nelse { __syncthreads(); }",
        64,
        r"wrong\.cu:5: divergent __syncthreads: thread \(33,0,0\) waits in __syncthreads at "
        r"wrong\.cu:4",
    ),
    "shuffle without some lanes": (
        "if (threadIdx.x < 8) p.out[0] = __shfl_down_sync(0xffffffffu, 1.0f, 1);\n__syncthreads();",
        32,
        r"wrong\.cu:4: divergent __shfl_down_sync: thread \(8,0,0\) waits in __syncthreads at "
        r"wrong\.cu:5",
    ),
    "shuffle from a lane that has left": (
        "if (threadIdx.x >= 8) return;\np.out[0] = __shfl_down_sync(0xffffffffu, 1.0f, 1);",
        32,
        r"wrong\.cu:5: __shfl_down_sync reads lane 8, which has left the kernel or does not exist "
        r"\(block \(0,0,0\), thread \(7,0,0\)",
    ),
    "shuffle from outside the mask": (
        "if (threadIdx.x < 8) p.out[0] = __shfl_sync(0xffu, 1.0f, 9);",
        32,
        r"wrong\.cu:4: __shfl_sync reads lane 9, which is not in the mask",
    ),
    "lane not in its own mask": (
        "p.out[0] = __ballot_sync(0x1u, 1);",
        32,
        r"wrong\.cu:4: the calling lane is not in its own mask \(block \(0,0,0\), thread \(1,0,0\)",
    ),
    "misaligned vector": (
        "*(float4*)(p.out + 1 + threadIdx.x) = make_float4(0, 0, 0, 0);",
        1,
        r"wrong\.cu:4: misaligned address \(block \(0,0,0\), thread \(0,0,0\)",
    ),
    "misaligned through the load function": (
        "GPUTENSOR_CHECK_ALIGNED(p.out + threadIdx.x, 8);",
        4,
        r"wrong\.cu:4: misaligned address \(block \(0,0,0\), thread \(1,0,0\)",
    ),
    "misaligned __ldg": (
        "p.out[0] = __ldg((const float2*)(p.out + 1)).x;",
        1,
        r"wrong\.cu:4: misaligned address",
    ),
    "outside a shared array": (
        "__shared__ float tile[32];\ntile[threadIdx.x + 1] = 0;",
        32,
        r"wrong\.cu:5: index out of the bounds of its array \(block \(0,0,0\), thread \(31,0,0\)",
    ),
    "behind dynamic shared memory": (
        "extern __shared__ float tile[];\ntile[threadIdx.x] = 0;",
        17,
        r"wrong: wrote past the 64 bytes of dynamic shared memory of its launch \(block "
        r"\(0,0,0\)\)",
    ),
    "null": (
        "*(float*)nullptr = 1;",
        2,
        r"wrong\.cu:4: (null pointer|illegal address).* \(block \(0,0,0\), thread \(0,0,0\)",
    ),
    "far away": (
        "p.out[(threadIdx.x == 3) * 1000000000000ll] = 1;",
        4,
        r"wrong\.cu:4: illegal address(?: 0x[0-9a-f]+|, of more bits than addresses have) \(block "
        r"\(0,0,0\), thread \(3,0,0\)",
    ),
    "far away in a fiber": (
        "__syncthreads();\np.out[(threadIdx.x == 3) * 1000000000000ll] = 1;",
        4,
        r"wrong\.cu:5: illegal address(?: 0x[0-9a-f]+|, of more bits than addresses have) \(block "
        r"\(0,0,0\), thread \(3,0,0\)",
    ),
    "trap": (
        "if (threadIdx.x == 2) __trap();",
        4,
        r"wrong\.cu:4: __trap\(\) \(.*thread \(2,0,0\)",
    ),
    "assert": (
        "__syncthreads();\nassert(threadIdx.x < p.n);",
        4,
        r"wrong\.cu:5: assertion failed: threadIdx\.x < p\.n \(.*thread \(2,0,0\)",
    ),
    "one past the end": (
        "p.out[threadIdx.x] = 1;",
        17,
        r"wrong: wrote out of bounds: 0 bytes past the end of an allocation of 64 bytes at "
        r"0x[0-9a-f]+ on device 0",
    ),
    "before the begin": (
        "p.out[-2] = 1;",
        1,
        r"wrong: wrote out of bounds: 5 bytes before the begin of an allocation of 64 bytes",
    ),
}


@pytest.fixture
def device(monkeypatch):
    return Device(fresh_emulator(monkeypatch, devices=2))


@pytest.mark.parametrize("case", sorted(FINDINGS))
def test_finding(device, case):
    body, threads, sentence = FINDINGS[case]
    kernel = device.kernel(HEAD + body + "\n}", "wrong")
    target = device.runtime.allocate(64, 0)
    with pytest.raises(errors.KernelError, match=f"^{sentence}"):
        device.launch(kernel, 1, threads, "Qi", target, 2, shared=64)
    # the device is usable afterwards, and nothing is reported twice
    good = device.kernel(HEAD + "p.out[threadIdx.x] = p.n;\n}", "wrong")
    device.launch(good, 1, 16, "Qi", target, 5)
    device.runtime.synchronize(0)
    assert (device.get(target) == 5).all()


def test_memory_of_another_device_needs_peer_access(device):
    kernel = device.kernel(HEAD + "p.out[0] = 1;\n}", "wrong")
    there = device.runtime.allocate(64, 1)
    assert not device.runtime.can_access_peer(0, 1)
    rule = r"wrong: 'params\[0:8\]' must point to memory that cuda:0 may use "
    rule += r"\(got 64 bytes at 0x\w+ on device 1\)"
    with pytest.raises(errors.DeviceError, match=rule):
        device.launch(kernel, 1, 1, "Qi", there, 0)
    device.runtime.enable_peer_access(0, 1)
    device.launch(kernel, 1, 1, "Qi", there, 0)
    with pytest.raises(errors.KernelError, match=r"'stream' must be of cuda:0"):
        stream = device.runtime.default_stream(1)
        device.launch(kernel, 1, 1, "Qi", there, 0, stream=stream)


def test_a_pointer_kept_after_its_memory_was_dropped(monkeypatch):
    device = Device(fresh_emulator(monkeypatch, order="lazy"))
    kernel = device.kernel(HEAD + "p.out[0] = 1;\n}", "wrong")
    memory = device.runtime.allocate(64, 0)
    address = memory.ptr
    del memory
    with pytest.raises(errors.DeviceError, match="on device 0, freed"):
        device.launch(kernel, 1, 1, "Qi", address, 0)


def test_copies_are_checked_against_the_allocation(device):
    runtime, host = device.runtime, np.zeros(100, np.uint8)
    memory = runtime.allocate(64, 0)
    with pytest.raises(
        errors.DeviceError,
        match=r"copy: 'dst' must be 100 bytes of memory of cuda:0 \(got byte 0 of 64 bytes",
    ):
        runtime.copy_async(memory.ptr, 0, host.ctypes.data, -1, 100, device.stream)
    with pytest.raises(
        errors.DeviceError, match=r"copy: 'src' must be 8 bytes of memory of cuda:1"
    ):
        runtime.copy_async(memory.ptr, 0, memory.ptr, 1, 8, device.stream)
    with pytest.raises(errors.DeviceError, match="which is no device memory"):
        runtime.memset_async(host.ctypes.data, 0, 8, 0, device.stream)


def test_a_write_before_the_free_is_found_at_the_free(monkeypatch):
    device = Device(fresh_emulator(monkeypatch))
    memory = device.runtime.allocate(64, 0)
    device.runtime.devices.machine.check = lambda *_: None  # as if no launch came after it
    device.launch(device.kernel(HEAD + "p.out[40] = 1;\n}", "wrong"), 1, 1, "Qi", memory, 0)
    del memory
    with pytest.raises(
        errors.KernelError, match="96 bytes past the end of an allocation of 64 bytes"
    ):
        device.runtime.synchronize(0)


SANITIZED = f"""
import numpy as np
from gputensor import runtime
from tests.cuda.support import Device
device = Device(runtime.cuda())
target = device.runtime.allocate(68, 0)
for body in ("p.out[0] = p.out[threadIdx.x];", "__syncthreads(); p.out[threadIdx.x + 3] = 1;",
             "extern __shared__ float tile[]; tile[threadIdx.x] = 1;",
             "__shared__ float s[20]; float* q = s; q[threadIdx.x + p.n] = 1; p.out[0] = q[0];",
             "p.out[threadIdx.x % 8] = 1 << p.n;"):
    text = {HEAD!r} + body + "\\n}}"
    text = text.replace("const __grid_constant__ P p", "P p")
    try:
        device.launch(device.kernel(text, "wrong"), 2, 18, "Qi", target, 3, shared=64)
    except Exception as error:
        print(error)
    else:
        print("nothing found")
x = device.put(np.arange(17, dtype=np.float32))
print(device.get(x)[16])
"""


@pytest.mark.full
def test_a_sanitized_run_reports_file_line_block_and_thread(tmp_path):
    settings = {"GPUTENSOR_CUDA": "emulator", "GPUTENSOR_EMULATOR_SANITIZE": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", SANITIZED],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    overflow = "wrong.cu:4: heap-buffer-overflow, {} of 4 bytes (block (0,0,0), thread ({},0,0))"
    assert lines[0] == overflow.format("read", 17)
    assert lines[1] == overflow.format("write", 14)
    assert lines[2] == (
        "wrong.cu:4: use-after-poison, write of 4 bytes (block (0,0,0), thread (16,0,0))"
    )
    assert lines[3] == (
        "wrong.cu:4: global-buffer-overflow, write of 4 bytes (block (0,0,0), thread (17,0,0))"
    )
    assert lines[4:] == ["nothing found", "16.0"]


USERS = """
import numpy as np
import gputensor as gt
text = '''extern "C" __global__ void k(const float* in, float* out) {
  __shared__ float s[32];
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[31 - threadIdx.x];
}'''
kernel = gt.cuda.Kernel(text, "k")[1, 32]
for n in (32, 30):
    try:
        y = gt.zeros(n, device="cuda")
        kernel(gt.ones(32, device="cuda"), y)
        print(y.cpu().numpy().sum())
    except gt.GpuTensorError as error:
        print(error)
"""


@pytest.mark.full
def test_a_users_kernel_under_libasan():
    settings = {"GPUTENSOR_CUDA": "emulator", "GPUTENSOR_EMULATOR_SANITIZE": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", USERS],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines() == [
        "32.0", "k.cu:5: heap-buffer-overflow, write of 4 bytes (block (0,0,0), thread (30,0,0))"
    ]  # fmt: skip


def test_every_list_of_cases_has_cases():
    assert FINDINGS
