"""Times of the CUDA emulator: for a launch, for a thread with and without barriers, and for a
compilation after an edit.

The peer is numba's simulator, if installed. It runs kernels written in Python, with one
operating-system thread for each CUDA thread. The results of both are compared first. All code runs
on the CPU, so the times do not describe a GPU.
"""

from __future__ import annotations

import importlib
import itertools
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import gputensor as gt
from gputensor import runtime

from .measurement import timing
from .measurement.places import WrongResult

NAME = "emulator"
# Lower bound of numba's time divided by ours, for each kernel.
BUDGET_TIMES = 50.0
# Upper bound of the time of a launch with the pytest plugin's default checks, divided by the time
# of a launch without checks.
BUDGET_PROTECTED = 3.0
PLAIN, PROTECTED = ", plain", ", as in pytest"

AXPY_THREADS, BLUR_SIZE, SUM_THREADS = 1024, 32, 128

TEXT = r"""
extern "C" __global__ void nothing(float* x) {}

extern "C" __global__ void axpy(const float* x, float* y, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}

extern "C" __global__ void cross(const float* x, float* y, int n) {
  __shared__ float tile[18][18];
  const int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  for (int i = threadIdx.y * 16 + threadIdx.x; i < 18 * 18; i += 256) {
    const int r = blockIdx.y * 16 + i / 18 - 1, c = blockIdx.x * 16 + i % 18 - 1;
    tile[i / 18][i % 18] = r >= 0 && r < n && c >= 0 && c < n ? x[r * n + c] : 0.0f;
  }
  __syncthreads();
  const int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
  if (row < n && column < n)
    y[row * n + column] = tile[ty][tx - 1] + tile[ty][tx + 1] + tile[ty - 1][tx] + tile[ty + 1][tx];
}

extern "C" __global__ void block_sum(const float* x, float* y) {
  __shared__ float part[128];
  part[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
"""

# Kernels for which access checks are most expensive: they execute few instructions per access.
DENSE = r"""
extern "C" __global__ void product(const float* a, const float* b, float* c, int n) {
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

extern "C" __global__ void fill(const float* a, const float* b, float* c, int n) {
  const int t = (blockIdx.y * gridDim.x + blockIdx.x) * 256 + threadIdx.y * 16 + threadIdx.x;
  for (int k = t; k < n * n; k += gridDim.x * gridDim.y * 32) c[k] = a[k];
}

extern "C" __global__ void local(const float* a, const float* b, float* c, int n) {
  const int t = (blockIdx.y * gridDim.x + blockIdx.x) * 256 + threadIdx.y * 16 + threadIdx.x;
  float own[16];
  for (int k = 0; k < 16; ++k) own[k] = a[(t + k) % (n * n)];
  for (int k = 0; k < n; ++k) own[k % 16] = own[(k + 3) % 16] * 0.5f;
  c[t % (n * n)] = own[t % 16];
}
"""
DENSE_SIZE = 48

cuda: Any = None
Side = Callable[[], Any]
Input = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def _inputs() -> dict[str, Input]:
    """Return (x, expected y) for each kernel."""
    random = np.random.default_rng(0)
    line = random.integers(-9, 9, AXPY_THREADS).astype(np.float32)
    image = random.integers(-9, 9, (BLUR_SIZE, BLUR_SIZE)).astype(np.float32)
    padded = np.pad(image, 1)
    crossed = padded[1:-1, :-2] + padded[1:-1, 2:] + padded[:-2, 1:-1] + padded[2:, 1:-1]
    values = random.integers(-9, 9, SUM_THREADS).astype(np.float32)
    return {
        "axpy": (line, line * np.float32(2)), "cross": (image, crossed),
        "block_sum": (values, values.sum(keepdims=True)),
    }  # fmt: skip


THREADS = {"nothing": 1, "axpy": AXPY_THREADS, "cross": BLUR_SIZE**2, "block_sum": SUM_THREADS}
PHASES = {"nothing": 0, "axpy": 0, "cross": 1, "block_sum": 8}


def _ours(inputs: dict[str, Input]) -> tuple[dict[str, Side], dict[str, Any]]:
    kernels = {name: gt.cuda.Kernel(TEXT, name) for name in THREADS}
    x = {name: gt.from_numpy(given).to("cuda") for name, (given, _) in inputs.items()}
    y = {name: gt.zeros(*out.shape, device="cuda") for name, (_, out) in inputs.items()}
    launch = {
        "nothing": kernels["nothing"][1, 1], "axpy": kernels["axpy"][AXPY_THREADS // 256, 256],
        "cross": kernels["cross"][(BLUR_SIZE // 16, BLUR_SIZE // 16), (16, 16)],
        "block_sum": kernels["block_sum"][1, SUM_THREADS],
    }  # fmt: skip
    sides: dict[str, Side] = {
        "nothing": lambda: launch["nothing"](x["axpy"]),
        "axpy": lambda: launch["axpy"](x["axpy"], y["axpy"], 2.0, AXPY_THREADS),
        "cross": lambda: launch["cross"](x["cross"], y["cross"], BLUR_SIZE),
        "block_sum": lambda: launch["block_sum"](x["block_sum"], y["block_sum"]),
    }
    return sides, {name: (lambda out=out: out.cpu().numpy()) for name, out in y.items()}


def _numbas(inputs: dict[str, Input]) -> tuple[dict[str, Side], dict[str, Any]] | None:
    """Return the kernels in Python for numba's simulator, or None if numba is missing."""
    global cuda  # the simulator replaces this global while a kernel runs
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cuda = importlib.import_module("numba.cuda")
            jit, float32 = cuda.jit, importlib.import_module("numba").float32
    except Exception:
        return None

    @jit
    def nothing(x: Any) -> None:
        pass

    @jit
    def axpy(x: Any, y: Any, a: Any, n: Any) -> None:
        i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if i < n:
            y[i] = a * x[i]

    @jit
    def cross(x: Any, y: Any, n: Any) -> None:
        tile = cuda.shared.array((18, 18), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        left, top = cuda.blockIdx.x * 16, cuda.blockIdx.y * 16
        i = ty * 16 + tx
        while i < 18 * 18:
            r, c = top + i // 18 - 1, left + i % 18 - 1
            tile[i // 18, i % 18] = x[r, c] if 0 <= r < n and 0 <= c < n else 0.0
            i += 256
        cuda.syncthreads()
        if top + ty < n and left + tx < n:
            around = (
                tile[ty + 1, tx] + tile[ty + 1, tx + 2] + tile[ty, tx + 1] + tile[ty + 2, tx + 1]
            )
            y[top + ty, left + tx] = around

    @jit
    def block_sum(x: Any, y: Any) -> None:
        part = cuda.shared.array(128, float32)
        t = cuda.threadIdx.x
        part[t] = x[cuda.blockIdx.x * 128 + t]
        cuda.syncthreads()
        half = 64
        while half > 0:
            if t < half:
                part[t] += part[t + half]
            cuda.syncthreads()
            half //= 2
        if t == 0:
            y[cuda.blockIdx.x] = part[0]

    x = {name: given for name, (given, _) in inputs.items()}
    y = {name: np.zeros_like(out) for name, (_, out) in inputs.items()}
    blocks = BLUR_SIZE // 16
    sides: dict[str, Side] = {
        "nothing": lambda: nothing[1, 1](x["axpy"]),
        "axpy": lambda: axpy[AXPY_THREADS // 256, 256](
            x["axpy"], y["axpy"], np.float32(2), AXPY_THREADS
        ),
        "cross": lambda: cross[(blocks, blocks), (16, 16)](x["cross"], y["cross"], BLUR_SIZE),
        "block_sum": lambda: block_sum[1, SUM_THREADS](x["block_sum"], y["block_sum"]),
    }
    return sides, {name: (lambda out=out: out) for name, out in y.items()}


def run(
    device: str = "cpu", rounds: int = 11, libraries: Sequence[str] = ("numba",)
) -> dict[str, Any]:
    """Measure all cases; return the record that `bench run` prints and writes."""
    os.environ["GPUTENSOR_CUDA"] = "emulator"
    runtime.choose_again()
    inputs = _inputs()
    sides = {"gputensor": _ours(inputs)}
    theirs = _numbas(inputs) if "numba" in libraries else None
    if theirs is not None:
        sides["numba"] = theirs
    for library, (calls, results) in sides.items():
        for name, (_, expected) in inputs.items():
            calls[name]()
            if not (results[name]() == expected).all():
                raise WrongResult(f"{library}: {name} is wrong")
    cases = []
    for name in timing.progress(list(THREADS), str):
        samples = timing.alternate([calls[name] for calls, _ in sides.values()], rounds=rounds)
        cases.append({
            "name": name, "threads": THREADS[name], "barriers": PHASES[name],
            "ns": {library: s.median_ns for library, s in zip(sides, samples)},
            "quartiles_ns": {library: s.quartiles_ns for library, s in zip(sides, samples)},
        })  # fmt: skip
    cases += [*_protected(inputs), _checked(inputs), _edited(inputs)]
    return {"benchmark": NAME, "device": "cpu", "cases": cases, "peers": list(sides)[1:]}


def _case(name: str, threads: int, barriers: int, sample: timing.Sample) -> dict[str, Any]:
    return {
        "name": name, "threads": threads, "barriers": barriers,
        "ns": {"gputensor": sample.median_ns}, "quartiles_ns": {"gputensor": sample.quartiles_ns},
    }  # fmt: skip


def _protected(inputs: dict[str, Input]) -> list[dict[str, Any]]:
    """Measure every kernel without access checks and with checks of writes, in alternating
    rounds."""
    checked = {checks: _with_checks(inputs, checks) for checks in ("", "writes")}
    cases = []
    for name in checked[""]:
        pair = timing.alternate([sides[name] for sides in checked.values()])
        threads, barriers = THREADS.get(name, DENSE_SIZE**2), PHASES.get(name, 0)
        cases += [
            _case(name + how, threads, barriers, sample)
            for how, sample in zip((PLAIN, PROTECTED), pair)
        ]
    return cases


def _with_checks(inputs: dict[str, Input], checks: str) -> dict[str, Side]:
    """Return a dict from the name of a kernel to a call with the access checks `checks`. New
    kernels are made, because a kernel keeps the checks of its first launch."""
    with gt.cuda.emulator_settings(sanitize=checks):
        sides = {name: side for name, side in _ours(inputs)[0].items() if name != "nothing"}
        n = DENSE_SIZE
        a, b, c = (gt.rand(n, n, device="cuda") for _ in range(3))
        for name in ("product", "fill", "local"):
            launch = gt.cuda.Kernel(DENSE, name)[(n // 16, n // 16), (16, 16)]
            sides[name] = partial(launch, a, b, c, n)
    return {name: _under(checks, side) for name, side in sides.items()}


def _under(checks: str, side: Side) -> Side:
    def call() -> None:
        with gt.cuda.emulator_settings(sanitize=checks):
            side()

    return call


def _checked(inputs: dict[str, Input]) -> dict[str, Any]:
    """Measure the kernel block_sum with checks of all accesses."""
    with gt.cuda.emulator_settings(sanitize="all"):
        calls, _ = _ours(inputs)
        (sample,) = timing.alternate([calls["block_sum"]])
    return _case("block_sum, every access checked", SUM_THREADS, 8, sample)


def _edited(inputs: dict[str, Input]) -> dict[str, Any]:
    """Measure the time from an edited source to its result: g++ and one launch, with an empty
    cache."""
    given, _ = inputs["block_sum"]
    numbers = itertools.count()

    def edit_and_run() -> None:
        kernel = gt.cuda.Kernel(f"{TEXT}#define EDIT {next(numbers)}\n", "block_sum")
        kernel[1, SUM_THREADS](given, np.zeros(1, np.float32))

    kept = os.environ.get("GPUTENSOR_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="gputensor-") as folder:
        os.environ["GPUTENSOR_CACHE_DIR"] = folder
        try:
            (sample,) = timing.alternate([edit_and_run], rounds=5)
        finally:
            del os.environ["GPUTENSOR_CACHE_DIR"]
            if kept is not None:
                os.environ["GPUTENSOR_CACHE_DIR"] = kept
    # 0 threads: the time per thread has no meaning in this case
    return _case("block_sum, from an edit to the result", 0, 0, sample)


def report(record: dict[str, Any]) -> str:
    """Return a Markdown table of a record."""
    head = "| kernel | threads | barriers | launch µs | ns per thread |"
    line = "|---|---:|---:|---:|---:|"
    for peer in record["peers"]:
        head, line = f"{head} {peer} µs | times faster |", f"{line}---:|---:|"
    lines = [head, line]
    for case in record["cases"]:
        ours = case["ns"]["gputensor"]
        threads, barriers = case["threads"] or "", case["barriers"] if case["threads"] else ""
        each = f"{ours / threads:.0f}" if threads else ""
        cells = f"| {case['name']} | {threads} | {barriers} | {ours / 1e3:.1f} | {each} |"
        for peer in record["peers"]:
            theirs = case["ns"].get(peer)
            cells += " | |" if theirs is None else f" {theirs / 1e3:.0f} | {theirs / ours:.0f} |"
        lines.append(cells)
    if not record["peers"]:
        lines += ["", "numba's simulator was left out: numba cannot be imported."]
    return "\n".join(lines)


def failures(record: dict[str, Any]) -> list[str]:
    """Return a sentence for each budget that the record misses."""
    found = []
    for case in record["cases"]:
        theirs = case["ns"].get("numba")
        is_kernel = case["threads"] > 1 and PROTECTED not in case["name"]
        if is_kernel and theirs is not None and theirs / case["ns"]["gputensor"] < BUDGET_TIMES:
            found.append(
                f"{case['name']}: {theirs / case['ns']['gputensor']:.0f} times faster than numba's "
                f"simulator, below {BUDGET_TIMES:.0f}"
            )
    ns = {case["name"]: case["ns"]["gputensor"] for case in record["cases"]}
    for name in ns:
        kernel = name.removesuffix(PROTECTED)
        times = ns[name] / ns.get(kernel + PLAIN, ns[name])
        if times > BUDGET_PROTECTED:
            found.append(
                f"{kernel}: {times:.1f} times a plain launch with writes checked, above "
                f"{BUDGET_PROTECTED:.0f}"
            )
    return found
