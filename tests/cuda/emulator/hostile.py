"""Kernels that would crash a process, one of each kind, and the error of their launch."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np

# x has 1000 elements of 4 bytes. Another tensor and a Python string are elsewhere in memory.
N = 1000


class Hostile(NamedTuple):
    """The body of a kernel of (float* x, const float* y, long long at, int n), for threads t of 64.
    at: the argument of the launch. said: the end of the error's sentence. modes: the checks that
    find the error; without them the launch may end without an error, but the process continues.
    is_wild: it writes far from its arguments, to unrelated memory.
    """

    body: str
    said: str
    at: int = 0
    modes: tuple[str, ...] = ("", "writes", "memory", "all")
    is_wild: bool = False


CHECKED = ("writes", "memory", "all")
READS = ("memory", "all")
_PAST = r"wrote( 4 B)? past 'x' \(.*index {} of 1000\)"
_FAR = r"wrote( 4 B)? (past 'x'|far from 'x'|outside of its arguments|before 'x'|at 0x)"
_FAR += "|illegal address"
# The message about such a write if the memory that it hit is checked.
LATE = "was written to after it was freed"

KERNELS = {
    **{
        f"write at +{at}": Hostile("x[n + at - 1] = 1;", _PAST.format(N + at - 1), at, modes)
        for at, modes in ((1, CHECKED), (127, CHECKED), (128, CHECKED), (1000, CHECKED))
    },
    **{
        f"write at {at}": Hostile("x[at] = 1;", _FAR, at, is_wild=True)
        for at in (-1_000, -100_000, 100_000, 2_000_000, 2**31 - 1, -(2**31), 2**33)
    },
    "write just before the begin": Hostile("x[-1] = 1;", r"wrote( 4 B)? before 'x'"),
    "write into the constant argument's end": Hostile(
        "((float*)y)[n + 5] = 1;", "wrote( 4 B)? past '[xy]'", modes=CHECKED
    ),
    "write to a live tensor": Hostile("*(float*)~at = 1;", "wrote 4 B (outside of its arguments|of "
                                                           "memory that the kernel was not "
                                                           "given|past 'x'|before 'x')", -1,
                                                           CHECKED),
    "write to the process's memory": Hostile("*(float*)~at = 1;", "wrote 4 B", -2, CHECKED),
    "write to code": Hostile("*(float*)~at = 1;", "wrote 4 B|illegal address", -3),
    "null": Hostile("*(volatile float*)(at + 0) = 1;", "null pointer"),
    "a wild read": Hostile("x[0] = y[at];", "read( 4 B)? (past|far from|outside)|illegal address",
    2**32),
    "a read of no address": Hostile("x[0] = *(float*)at;", "illegal address|read 4 B",
    0x5A5A5A5A5A5A5A58),
    "a jump to nowhere": Hostile("((void (*)())at)();", "null pointer|illegal address|undefined "
                                                        "behaviour", 64),
    "an abort": Hostile("__builtin_abort();", r"abort\(\)"),
    "a trap": Hostile("if (n) __builtin_trap();", "a trap by g"),
    "an assertion": Hostile("assert(n < 0);", "assertion failed: n < 0"),
    "endless recursion": Hostile("x[t] = deep(n);", r"the thread's stack of \d+ KiB is full"),
    "a local array without end": Hostile(
        "volatile char own[1 << 26]; own[at] = 1; x[t] = own[at + 5];", r"the thread's stack of "
                                                                        r"\d+ KiB is full"
    ),
    "an alloca without end": Hostile(
        "volatile char* p = (char*)__builtin_alloca(1 << 28); p[0] = 1; x[t] = p[5];",
        r"the thread's stack of \d+ KiB is full"
    ),
    "recursion through barriers": Hostile("x[t] = deep_and_together(t);", r"the thread's stack of "
                                                                          r"\d+ KiB is full"),
    "memset without end": Hostile("memset(x, 0, 1 << 30);", r"wrote( 1073741824 B)? past 'x'"),
    "memcpy from nowhere": Hostile("memcpy(x, y + (1 << 28), 64);",
    "read( 64 B)? (past|outside|far)"),
    "a jump out of nowhere": Hostile("void* b[5]; __builtin_longjmp(b, 1);", "illegal address|null "
                                                                             "pointer|wrote"),
    "a write through a local array": Hostile(
        "float own[4]; float* p = own; p[at] = 1; x[t] = own[0];", "illegal address|wrote|stack",
        -(2**22), CHECKED
    ),
    "endless": Hostile("while (((volatile float*)x)[0] != 7) {}", "ran longer than its limit of "
                                                                  "0.05 s"),
    "endless arithmetic": Hostile("float v = n; while (v != 7) v = sinf(v) + 1; x[0] = v;",
    "ran longer than its limit"),
    "endless printing": Hostile('while (n) printf("%s", "");', "ran longer than its limit"),
    "a wrong string is printed": Hostile('printf("%s", (char*)at);', "illegal address", 1 << 45),
    "far past dynamic shared memory": Hostile(
        "extern __shared__ float s[]; s[t + at] = 1;", "illegal address|shared memory|wrote",
        1 << 20
    ),
    "far past static shared memory": Hostile(
        "__shared__ float s[64]; float* p = s; p[t + at] = 1; x[t] = s[t];", "wrote|illegal",
        1 << 36
    ),
    "a barrier on one path": Hostile("if (t == 0) __syncthreads();", "divergent __syncthreads"),
}  # fmt: skip

_HEAD = """
__device__ int deep(int n) {
  volatile int own[64];
  own[n & 63] = n;
  return deep(n + 1) + own[n & 63];
}
__device__ int deep_and_together(int n) {
  volatile int own[20];
  __syncthreads();
  own[n % 20] = n;
  return deep_and_together(n + 1) + own[n % 20];
}
"""
_KERNEL = """
extern "C" __global__ void NAME(float* x, const float* y, long long at, int n) {
  const int t = threadIdx.x;
  BARRIER
  BODY
}
"""


def name_of(case: str, in_fibers: bool) -> str:
    """Return `k3`, or `f3` if each thread has its own stack, as in a kernel with barriers."""
    return f"{'f' if in_fibers else 'k'}{list(KERNELS).index(case)}"


def text() -> str:
    """Return all kernels in one text, so that the compiler runs once."""
    kernels = [
        _KERNEL.replace("NAME", name_of(case, in_fibers))
        .replace("BARRIER", "__syncthreads();" if in_fibers else "")
        .replace("BODY", KERNELS[case].body)
        for case in KERNELS
        for in_fibers in (False, True)
    ]
    return _HEAD + "".join(kernels)


def address_for(case: str, other: int, own: np.ndarray) -> int:
    """Return the value of the parameter `at`: some cases use an address of this process."""
    at = KERNELS[case].at
    if "~at" in KERNELS[case].body:
        code = ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value
        return ~{-1: other, -2: own.ctypes.data, -3: code}[at]  # not a tensor's address
    return at
