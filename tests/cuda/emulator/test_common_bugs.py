"""Common bugs of CUDA kernels and their fixes: the emulator reports the bug and not the fix.

The finding must name the line with `// here` in every order of threads. In a source, `«bug|fix»`
marks both forms.
"""

from __future__ import annotations

import os
import re
import signal
import threading

import numpy as np
import pytest

from gputensor.core import errors
from gputensor.cuda import Kernel, emulator_settings

from ...harness import tier
from ..support import requires_emulator

pytestmark = [requires_emulator, pytest.mark.emulator]
ORDERS = ("forward", "reversed", "random")
F = np.float32


def line(n):
    return np.arange(n, dtype=F)


HEAD = """extern "C" __global__ void k(const float* in, float* out, int n) {
  const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
"""
# text after HEAD, (n of in, n of out), grid, block, the message, the fixed kernel's result
BUGS = {
    "a barrier is missing in a reduction": (
        "  __shared__ float s[256];\n  s[t] = i < n ? in[i] : 0;\n  __syncthreads();\n"
        "  for (int o = 128; o > 0; o /= 2) {\n    if (t < o) s[t] += s[t + o];  // here\n    "
        "«|__syncthreads();»\n  }\n  if (t == 0) out[blockIdx.x] = s[0];",
        (500, 2), 2, 256, r"race for shared memory: nothing orders this (read|write) and the "
                          r"(read|write) at k\.cu:7",
        lambda x: [x[:256].sum(), x[256:].sum()],
    ),
    "a halo begins one too early": (
        "  __shared__ float s[34];\n  s[t + 1] = i < n ? in[i] : 0;\n"
        "  if (t == 0) s[0] = «|i == 0 ? 0 : »in[i - 1];  // here\n  if (t == 31) s[33] = i + 1 < "
        "n ? in[i + 1] : 0;\n  __syncthreads();\n  if (i < n) out[i] = s[t] + s[t + 1] + s[t + 2];",
        (50, 50), 2, 32, r"read 4 B before 'in' \(block \(0,0,0\), thread \(0,0,0\), index -1 of "
                         r"50\)",
        lambda x: np.convolve(x, [1, 1, 1], "same"),
    ),
    "half of a halo is not loaded": (
        "  __shared__ float s[34];\n  s[t + 1] = i < n ? in[i] : 0;\n  if (t == 0) s[0] = i > 0 ? "
        "in[i - 1] : 0;\n"
        "  «|if (t == 31) s[33] = i + 1 < n ? in[i + 1] : 0;»\n  __syncthreads();\n  if (i < n) "
        "out[i] = s[t] + s[t + 1] + s[t + 2];  // here",
        (64, 64), 2, 32, r"read 4 B of shared memory that no thread has written \(block "
                         r"\(\d,0,0\), thread \(31,0,0\)\)",
        lambda x: np.convolve(x, [1, 1, 1], "same"),
    ),
    "a shuffle inside the bounds check": (
        "  float v = 0;\n  if (i < n) «{|v = in[i];»\n  «v = in[i];|{»\n    for (int o = 16; o > "
        "0; o /= 2) v += __shfl_down_sync(0xffffffffu, v, o);  // here\n  }\n  if (t % 32 == 0) "
        "out[i / 32] = v;",
        (50, 2), 1, 64, r"__shfl_down_sync reads lane \d+, which has left|divergent "
                        r"__shfl_down_sync|__shfl_down_sync",
        lambda x: [x[:32].sum(), x[32:].sum()],
    ),
    "a return before a barrier": (
        "  __shared__ float s[64];\n  «if (i >= n) return;|»\n  «s[t] = in[i];|if (i < n) s[t] = "
        "in[i]; else s[t] = 0;»\n  __syncthreads();  // here\n  if (i < n) out[i] = s[63 - t];",
        (100, 100), 2, 64, r"divergent __syncthreads: thread \(36,0,0\) has left the kernel "
                           r"\(block \(1,0,0\), thread \(0,0,0\)\)",
        lambda x: [*x[63::-1], *[0] * 28, *x[:63:-1]][:100],
    ),
    "a shared array for a smaller block": (
        "  __shared__ float s[«32|64»];\n  s[t] = in[i];  // here\n  __syncthreads();\n  out[i] = "
        "s[63 - t];",
        (64, 64), 1, 64, r"index out of the bounds of its array", lambda x: x[::-1],
    ),
    "less dynamic shared memory than is used": (
        "  extern __shared__ float s[];\n  s[t«|/ 2»] = «in[i]|1»;  // here\n  __syncthreads();\n  "
        "out[i] = s[(63 - t)«|/ 2»];",
        (64, 64), 1, 64, r"wrote 4 B past the 128 bytes of dynamic shared memory",
        lambda x: x * 0 + 1,
    ),
    "an index that int cannot hold": (
        "  const «int|long long» at = i * «70000 * 70000|70000ll * 70000»;  // here\n  if (i < n) "
        "out[i] = in[at % n];",
        (60, 60), 1, 64, r"70000 does not fit in 'int'|\d+ \* 70000 does not fit in 'int'",
        lambda x: x[np.arange(60) * 4900000000 % 60],
    ),
    "an index below zero that is unsigned": (
        "  const unsigned u = i;\n  out[i] = «in[u - 1]|u > 0 ? in[u - 1] : 0»;  // here",
        (32, 32), 1, 32, r"read 4 B far from 'in' \(block \(0,0,0\), thread \(0,0,0\), index "
                         r"4294967295 of 32, which is -1 in 32 bits\)",
        lambda x: [0, *x[:-1]],
    ),
    "a vector past the end of a row": (
        "  if (i * 4 «< n|+ 3 < n») {\n    const float4 v = *(const float4*)(in + i * 4);  // "
        "here\n    out[i] = v.x + v.y + v.z + v.w;\n  }\n  «|else if (i * 4 < n) { out[i] = 0; for "
        "(int j = i * 4; j < n; ++j) out[i] += in[j]; }»",
        (30, 8), 1, 32, r"read 16 B past 'in' \(block \(0,0,0\), thread \(7,0,0\), index 28 of "
                        r"30\)",
        lambda x: np.append(x, [0, 0]).reshape(8, 4).sum(1),
    ),
    "no bounds check": (
        "  «|if (i < n) »out[i] = 2 * in[i];  // here",
        (100, 100), 2, 64, r"read 4 B past 'in' \(block \(1,0,0\), thread \(\d+,0,0\), index 1\d\d "
                           r"of 100\)", lambda x: 2 * x,
    ),
    "a histogram without atomics": (
        "  if (i < n) «out[(int)in[i] % 4] += 1|atomicAdd(out + (int)in[i] % 4, 1.0f)»;  // here",
        (100, 4), 2, 64, r"race for 'out': nothing orders this (read|write) and the (write|read) "
                         r"at k\.cu:3 .*index \d of 4",
        lambda x: np.bincount(x.astype(int) % 4),
    ),
    "a tile is overwritten while it is read": (
        "  __shared__ float s[64];\n  float sum = 0;\n  for (int b = 0; b < n; b += 64) {\n    "
        "s[t] = in[b + t];  // here\n    __syncthreads();\n"
        "    for (int j = 0; j < 64; ++j) sum += s[j];  // or here\n    «|__syncthreads();»\n  }\n "
        " out[i] = sum;",
        (128, 64), 1, 64, r"race for shared memory", lambda x: [x.sum()] * 64,
    ),
    "lanes that wait for nothing": (
        "  __shared__ float s[64];\n  s[t] = in[i];\n  «|__syncwarp();»\n  out[i] = s[t ^ 1];  // "
        "here\n  // or here",
        (64, 64), 1, 64, r"race for shared memory|read 4 B of shared memory that no thread has "
                         r"written", lambda x: x.reshape(-1, 2)[:, ::-1].ravel(),
    ),
    "blocks that wait for nothing": (
        "  «if (t == 0) out[blockIdx.x] = in[blockIdx.x];|»  // or here\n  if (i == 0) out[0] = "
        "«out[0] + out[1]|in[0] + in[1]»;  // here",
        (2, 2), 2, 32, r"race for 'out': .*the other by block \(\d,0,0\)", lambda x: [1, 0],
    ),
    "a counter that starts as it was left": (
        "  __shared__ int hits;\n  «|if (t == 0) hits = 0;»\n  «|__syncthreads();»\n  if (in[i] > "
        "9) atomicAdd(&hits, 1);  // here\n  __syncthreads();\n  if (t == 0) out[0] = hits;",
        (32, 1), 1, 32, r"atomic operation of shared memory that no thread has written",
        lambda x: [22],
    ),
}  # fmt: skip


def text_of(body: str, repaired: bool) -> str:
    return HEAD + re.sub(r"«([^|»]*)\|([^»]*)»", r"\2" if repaired else r"\1", body) + "\n}\n"


def launch(name: str, repaired: bool) -> np.ndarray:
    body, (n, m), grid, block, *_ = BUGS[name]
    x, out = line(n), np.zeros(m, F)
    Kernel(text_of(body, repaired), "k")[grid, block, 128](x, out, n)
    return out


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", tier.pick(list(BUGS)[::4], list(BUGS)))
def test_a_bug_is_named_and_its_repair_is_not_accused(emulated, name, order):
    body, *_, sentence, expected = BUGS[name]
    lines = [n for n, text in enumerate(text_of(body, False).splitlines(), 1) if " here" in text]
    with emulator_settings(sanitize="all", schedule=order, seed=4):
        with pytest.raises(
            errors.KernelError, match=rf"^k\.cu:({'|'.join(map(str, lines))}): .*({sentence})"
        ):
            launch(name, repaired=False)
        assert launch(name, repaired=True).tolist() == list(expected(line(BUGS[name][1][0])))


PLAIN = {
    "no bounds check": r"k: wrote past 'out' \(index 100 of 100\); the check 'memory' names line "
    r"and thread",
    "less dynamic shared memory than is used": r"k: wrote past the 128 bytes of dynamic shared "
    r"memory of its launch \(block \(0,0,0\)\); the "
    r"check 'memory' names",
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_launch_without_checks_says_what_it_sees_and_which_check_says_more(emulated, name):
    with emulator_settings(sanitize=""), pytest.raises(errors.KernelError, match=f"^{PLAIN[name]}"):
        launch(name, repaired=False)


def test_a_kernel_is_accused_once(emulated):
    """The write is far past the end, where only a full check of the guards finds it, and is
    repeated."""
    text = HEAD + "  out[n + 40] = 1; out[n + 90] = 1; out[-100] = 1;\n}"
    kept = [np.zeros(10, F) for _ in range(2)]
    kernel = Kernel(text, "k")[1, 1]
    with emulator_settings(sanitize=""):
        with pytest.raises(errors.KernelError, match=r"wrote past 'out' \(index 50 of 10\)"):
            kernel(*kept, 10)
        Kernel(HEAD + "  out[t] = 2;\n}", "k")[1, 10](*kept, 10)
    assert (kept[1] == 2).all()


def test_null_pointers_are_called_so(emulated):
    for sanitize, said in (("", "null pointer"), ("all", "read 4 B through a null pointer")):
        with (
            emulator_settings(sanitize=sanitize),
            pytest.raises(errors.KernelError, match=rf"^k\.cu:3: {said} \(block"),
        ):
            Kernel(HEAD + "  out[i] = in[i];\n}", "k")[1, 1](None, np.zeros(1, F), 1)


def test_local_variables_start_as_garbage(emulated):
    from gputensor.runtime.emulator import toolchain

    if toolchain._major_version() < 12:
        pytest.skip("g++ before 12 cannot fill them")
    out = np.zeros(2, F)
    text = (
        HEAD
        + "  float sum, a[8];\n  for (int j = 1; j < n; ++j) a[j] = sum += in[j];\n  out[0] = sum; "
        "out[1] = a[0];\n}"
    )
    Kernel(text, "k")[1, 1](line(8), out, 8)
    assert (out < -1e30).all()


OVERFLOWS = {
    "n + 2147483647": "1 + 2147483647", "-2147483647 - n - n": "-2147483648 - 1",
    "n * 3037000500ll * 3037000500ll / 3": r"3037000500 \* 3037000500",
    "-(n - 1 - 2147483647 - 1)": "0 - -2147483648", "(-2147483647 - n) / -n": "-2147483648 / -1",
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("expression", tier.pick(list(OVERFLOWS)[:1], list(OVERFLOWS)))
def test_signed_overflow_is_a_finding_of_its_own_check(emulated, expression):
    text = (
        HEAD.replace("float*", "int*")
        + f"  out[0] = (int)({expression});\n  unsigned u = 4000000000u * n; out[0] += (int)(u * "
        f"u);\n}}"
    )
    launch = Kernel(text, "k")[1, 1]
    given = np.zeros(1, np.int32), np.zeros(1, np.int32), 1
    for sanitize in ("", "memory,init,race"):
        with emulator_settings(sanitize=sanitize):
            launch(*given)
    for sanitize in ("overflow", "all"):
        with (
            emulator_settings(sanitize=sanitize),
            pytest.raises(
                errors.KernelError,
                match=rf"^k\.cu:3: .*{OVERFLOWS[expression].replace('+', chr(92) + '+')} does not "
                rf"fit in '(int|long long int)' \(block \(0,0,0\), thread \(0,0,0\)\)",
            ),
        ):
            launch(*given)


ENDLESS = (
    HEAD.replace("const float* in", "volatile float* in").replace("float* out", "int* out")
    + "  if (t == 3)\n    while («») { }\n  out[1] = 1;\n}"
)


CONDITIONS = ["in[0] == 0", "atomicAdd(out, 0) == 0", "in[0] == 0 && clock64() != 0"]


@pytest.mark.parametrize("sanitize", ["", "all"])
@pytest.mark.parametrize("condition", CONDITIONS[: tier.pick(1, None)])
@pytest.mark.usefixtures("ctrl_c")
def test_a_kernel_that_does_not_end_can_be_interrupted(emulated, condition, sanitize):
    kernel = Kernel(ENDLESS.replace("«»", condition), "k")[1, 32]
    with emulator_settings(sanitize=sanitize):
        kernel(np.ones(1, F), np.ones(2, np.int32), 1)  # compiled by now
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        # A function of the emulator that is called, such as an atomic, has no line in the text.
        place = r"k\.cu:4" if condition == "in[0] == 0" else r"k(\.cu:4)?"
        with pytest.raises(
            KeyboardInterrupt, match=rf"^{place}: interrupted \(block \(0,0,0\), thread \(3,0,0\)\)"
        ):
            kernel(np.zeros(1, F), np.zeros(2, np.int32), 1)


@pytest.mark.parametrize("handler", ["ignored", "own"])
def test_ctrl_c_is_what_the_program_made_of_it(emulated, handler):
    """An ignored SIGINT does not end a kernel; a handler of the program is called."""

    def rings(*_: object) -> None:
        raise TimeoutError("its own handler")

    kernel = Kernel(ENDLESS.replace("«»", "in[0] == 0"), "k")[1, 32]
    kernel(np.ones(1, F), np.ones(2, np.int32), 1)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if handler == "ignored" else rings)
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        if handler == "own":
            with pytest.raises(TimeoutError, match="its own handler"):
                kernel(np.zeros(1, F), np.zeros(2, np.int32), 1)
        else:
            with (
                emulator_settings(limit_s=0.8),
                pytest.raises(errors.KernelError, match="ran longer than its limit of 0.8 s"),
            ):
                kernel(np.zeros(1, F), np.zeros(2, np.int32), 1)
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_alarm_reaches_python_out_of_an_endless_kernel(emulated):
    """pytest-timeout works this way."""

    def rings(*_: object) -> None:
        raise TimeoutError("too long")

    kernel = Kernel(ENDLESS.replace("«»", "in[0] == 0"), "k")[1, 32]
    kernel(np.ones(1, F), np.ones(2, np.int32), 1)
    before = signal.signal(signal.SIGALRM, rings)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(TimeoutError, match="too long"):
            kernel(np.zeros(1, F), np.zeros(2, np.int32), 1)
    finally:
        signal.signal(signal.SIGALRM, before)
    out = np.zeros(2, np.int32)
    kernel(np.ones(1, F), out, 1)
    assert out[1] == 1
