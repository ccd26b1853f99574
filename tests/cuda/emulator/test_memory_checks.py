"""Checks of every memory access: findings in wrong kernels, none in correct ones.

The finding must name the line with `// here`, in every order of threads.
"""

from __future__ import annotations

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.cuda import Kernel, check, emulator_settings

from ...harness import tier
from . import samples
from ..support import requires_emulator

pytestmark = [requires_emulator, pytest.mark.emulator]
ORDERS = ("forward", "reversed", "random")

# body of `k(float* x, int* count, int n)` for 2 blocks of 64 threads, with x of 128 elements; the
# message
WRONG = {
    "read past the end": ("if (t == 63) x[0] = x[b * 64 + t + 1];  // here", r"read 4 B past 'x' "
                                                                             r"\(block \(1,0,0\), "
                                                                             r"thread \(63,0,0\), "
                                                                             r"index 128 of 128\)"),
    "write before the begin": ("x[t - 1] = 0;  // here", r"wrote 4 B before 'x' \(block "
                                                         r"\(\d,0,0\), thread \(0,0,0\), index -1 "
                                                         r"of 128\)"),
    "far away": ("x[t + 1000000000ll] = 0;  // here", r"wrote 4 B outside of its arguments .*index "
                                                      r"1000000\d\d\d of 128 of 'x'"),
    "a vector over the end": (
        "float4* v = (float4*)x; v[31 + t % 2].x = v[t % 2 + 31].w;  // here", r"read 4 B past 'x'"
    ),
    "memcpy past the end": ("if (t == 0) memcpy(x, x + 100, 32 * 4);  // here",
    r"read 128 B past 'x'"),
    "atomic past the end": ("atomicAdd(count + 1, 1);  // here", r"atomic operation past 'count' "
                                                                 r".*index 1 of 1\)"),
    "in a function": ("beyond(x);", r"wrote 4 B past 'x'"),
    "past dynamic shared memory": ("extern __shared__ float s[];\ns[t] = 0;  // here",
    r"wrote 4 B past the 64 bytes of dynamic shared memory"),
    "shared memory read first": ("__shared__ float s[64];\nif (t < 32) s[t] = "
                                 "1;\n__syncthreads();\nx[b * 64 + t] = s[t];  // here",
                                 r"read 4 B of shared memory that no thread has written"),
    "another thread's local memory": ("__shared__ float* p;\nfloat own = t;\nif (t == 0) p = "
                                      "&own;\n__syncthreads();\nif (t == 1) x[b] = *p;  // "
                                      "here\n__syncthreads();", r"read 4 B of local memory of "
                                                                r"another thread"),
    "race in shared memory": ("__shared__ int s[64];\ns[t] = t;\n__syncthreads();\ns[t / 2] += 1;  "
                              "// here", r"race for shared memory: nothing orders this "
                                         r"(read|write) and the (write|read) at k\.cu:\d+ \("),
    "race of two writes": ("x[b * 64] = t + b;  // here", r"race for 'x': nothing orders this "
                                                          r"write and the write at .*index \d+ of "
                                                          r"128"),
    "race of two blocks": ("if (t == 0) x[b] = x[1 - b];  // here", r"race for 'x'.*the other by "
                                                                    r"block"),
    "race between plain and atomic": ("if (t == 0 && b == 0) atomicAdd(count, 1); else if (t == 1) "
                                      "*count = 5;  // here", r"race for 'count': nothing orders "
                                                              r"this (atomic operation|write) and "
                                                              r"the (atomic operation|write)"),
    "race in a warp": ("__shared__ int s[64];\ns[t] = t;\nx[b * 64 + t] = s[t ^ 1];  // here",
    r"race for shared memory|no thread has written"),
    "race for a variable": ("total = b * 64 + t;  // here", r"race for shared memory|race for "
                                                            r"memory"),
}  # fmt: skip

# correct bodies
RIGHT = {
    "a barrier": "__shared__ int s[64];\ns[t] = t;\n__syncthreads();\nx[b * 64 + t] = s[63 - t];",
    "a warp's barrier": "__shared__ int s[64];\ns[t] = t;\n__syncwarp();\nx[b * 64 + t] = s[t ^ "
                        "1];",
    "equal writes": "*count = 1;",
    "atomics": "atomicAdd(count, 1); atomicMax(count, t);",
    "bytes of one word": "((char*)x)[b * 64 + t] = 1;",
    "shared memory reused": "__shared__ int s[64];\nfor (int i = 0; i < 3; ++i) {\n  s[t] = i;\n  "
                            "__syncthreads();\n  x[b * 64 + t] = s[(t + 1) % 64];\n  "
                            "__syncthreads();\n}",
    "the last block reads the others' results": "__shared__ bool last;\nif (t == 0) { x[b] = b; "
                                                "__threadfence(); last = atomicAdd(count, 1) == 1; "
                                                "}\n__syncthreads();\nif (last && t == 0) x[2] = "
                                                "x[0] + x[1];",
    "the last thread reads the others' results": "__shared__ int parts[64], arrived;\nif (t == 0) "
                                                 "arrived = 0;\n__syncthreads();\nparts[t] = "
                                                 "t;\n__threadfence_block();\nif "
                                                 "(atomicAdd(&arrived, 1) == 63) for (int i = 0; i "
                                                 "< 64; ++i) x[b] += parts[i];",
    "integers that wrap where they may": "unsigned h = 2166136261u * (t + 1);\nh ^= h << 13; h *= "
                                         "2654435761u;\nx[b * 64 + t] = (float)(h >> 8) + "
                                         "(short)(40000 + t);",
    "local arrays": "float a[8];\nfor (int i = 0; i < 8; ++i) a[i] = t * i;\nfloat* p = a + t % "
                    "8;\nx[b * 64 + t] = *p;",
    "constants": "const int lookup[4] = {1, 2, 3, 4};\nx[b * 64 + t] = lookup[t % 4] + fixed[t % "
                 "2];",
    "parts of words": "__shared__ unsigned char s[64];\ns[t] = t;\n__syncthreads();\nx[b * 64 + t] "
                      "= *(unsigned*)(s + t / 4 * 4);",
    "a struct through shared memory": "struct S { float a, b, c; };\n__shared__ S s[64];\ns[t] = "
                                      "S{1, 2, 3};\n__syncthreads();\nS own = s[63 - t];\nx[b * 64 "
                                      "+ t] = own.a + own.c;",
}  # fmt: skip


def text_of(body: str) -> str:
    return (
        "__device__ int total;\n__constant__ int fixed[2] = {1, 2};\n"
        "__device__ void beyond(float* p) {\n  p[128 + threadIdx.x] = 1;  // here, in a "
        "function\n}\n"
        'extern "C" __global__ void k(float* x, int* count, int n) {\nconst int t = threadIdx.x, b '
        '= blockIdx.x;\n'
        + body + "\n}\n"
    )  # fmt: skip


def line_of(text: str, mark: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if line.endswith(mark))


def launch(text: str) -> np.ndarray:
    x = np.ones(128, np.float32)
    Kernel(text, "k")[2, 64, 64](x, np.zeros(1, np.int32), 1)
    return x


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", [*WRONG][:: tier.pick(3, 1)])
def test_a_wrong_access_is_named_at_its_line(emulated, case, order):
    body, sentence = WRONG[case]
    text = text_of(body)
    line = line_of(text, "in a function" if "beyond" in body else "// here")
    with (
        emulator_settings(sanitize="all", schedule=order, seed=2),
        pytest.raises(errors.KernelError, match=rf"^k\.cu:{line}: {sentence}"),
    ):
        launch(text)


@pytest.mark.full
@pytest.mark.parametrize("case", RIGHT)
def test_a_right_kernel_is_not_accused(emulated, case):
    results = []
    for order in ORDERS:
        with emulator_settings(sanitize="all", schedule=order, seed=3):
            results.append(launch(text_of(RIGHT[case])))
    assert all((r == results[0]).all() for r in results)


@pytest.mark.parametrize("check_name", ["memory", "init", "race"])
def test_only_what_was_asked_for_is_checked(emulated, check_name):
    uninitialised = text_of(WRONG["shared memory read first"][0])
    race = text_of(WRONG["race of two blocks"][0])
    for name, text in (("init", uninitialised), ("race", race)):
        with emulator_settings(sanitize=check_name):
            if name == check_name:
                with pytest.raises(errors.KernelError):
                    launch(text)
            else:
                launch(text)


# sample -> the removed or changed text; each change makes the kernel wrong
MUTATIONS = {
    "matmul": ("    __syncthreads();\n    for (int i", "    for (int i"),
    "transpose": ("  __syncthreads();\n", ""),
    "scan": ("    __syncthreads();\n    if (t < pairs) {", "    if (t < pairs) {"),
    "bitonic": ("      __syncthreads();\n      const unsigned at", "      const unsigned at"),
    "histogram64": ("  __syncthreads();\n", ""),
    "reduction": ("    __threadfence();\n", ""),
    "nbody": ("    __syncthreads();\n  }", "  }"),
    "stencil": ("first + k < n + 2 * RADIUS", "first + k <= n + 2 * RADIUS"),
    "warp_aggregate": ("i < n && x[i] > 0", "i <= n && x[i] > 0"),
}


@pytest.mark.full
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_sample_with_a_barrier_less_is_accused(emulated, name):
    text = (samples.FOLDER / f"{name}.cu").read_text()
    before, after = MUTATIONS[name]
    assert before in text
    broken = check.Check(
        Kernel(text.replace(before, after), samples.ENTRIES.get(name, name)), getattr(samples, name)
    )
    with (
        emulator_settings(sanitize="all"),
        pytest.raises(errors.KernelError, match=rf"^{name}\w*\.cu:\d+: "),
    ):
        broken.run()


def test_tensors_are_named_as_numpy_arrays_are(emulated):
    x, count = gt.ones(128, device="cuda"), gt.zeros(1, device="cuda", dtype=gt.int32)
    with emulator_settings(sanitize="all"), pytest.raises(errors.KernelError, match="past 'x'"):
        Kernel(text_of(WRONG["read past the end"][0]), "k")[2, 64](x, count, 1)


def test_wrong_settings_are_refused(emulated):
    with pytest.raises(
        errors.ArgumentValueError, match="must be all, or of memory, init, race, overflow"
    ):
        with emulator_settings(sanitize="everything"):
            pass
    with pytest.raises(errors.ArgumentValueError, match="must be all, or of memory, .* .got 3"):
        with emulator_settings(sanitize=3):
            pass
    with pytest.raises(errors.ArgumentValueError, match="must be one of forward, reversed, random"):
        with emulator_settings(schedule="sideways"):
            pass
    with pytest.raises(
        errors.ArgumentValueError, match="GPUTENSOR_EMULATOR_SEED: must be an integer"
    ):
        with emulator_settings(seed="some"):
            pass
