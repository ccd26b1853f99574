"""The CuPy runtime and all modules above it, without a GPU: with a `cupy` on the emulator.

All other tests use our emulator runtime for CUDA; these test what runs only on GPUs: runtime/cuda,
the calls of NVRTC, the launch block, CuPy's current device and stream.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .support import requires_emulator

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ORDERS = ("lazy", "random")


# The first one has a call of each kind; the quick tier omits the others.
TESTS = [
    ["tests/cuda/over_cupy.py"],
    ["tests/cuda/layout_over_cupy.py"],
    ["tests/cuda/streams_over_cupy.py", "lazy"],
    ["tests/cuda/streams_over_cupy.py", "random"],
    ["tests/cuda/runtime/test_runtime_conformance.py", "-k", "gpu"],
    ["tests/cuda/test_library.py", "-k", "large_products"],
    ["tests/device/test_graphs.py"],
    ["tests/device/test_graphs.py", "lazy"],
    ["tests/layout/test_transfers.py", "tests/layout/test_seed_example.py"],
    ["tests/operators/test_ops_cpu_vs_cuda.py", "-k", "[add] or [cat] or [clone] or [mm]"],
    # Calls of CuPy's libraries.
    ["tests/operators/test_ops_cpu_vs_cuda.py", "-k", "fft or linalg or ctc or sort or pool"],
]


def name_of(tests: list[str]) -> str:
    more = [t for t in tests if t in ORDERS]
    return "-".join([Path(tests[0]).stem, *more, *["libraries"] * ("linalg" in tests[-1])])


@requires_emulator
@pytest.mark.emulator
@pytest.mark.full
@pytest.mark.parametrize("tests", TESTS, ids=name_of)
def test_over_cupy(tests: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    order = "eager"
    if tests[-1] in ORDERS:
        *tests, order = tests
    setting = {
        "GPUTENSOR_EMULATOR_ORDER": order,
        "GPUTENSOR_CUDA": "required", "GPUTENSOR_EMULATOR_DEVICES": "2",
        "PYTHONPATH": os.pathsep.join([str(HERE / "cupy_on_emulator"), str(ROOT)]),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT, env=os.environ | setting, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
