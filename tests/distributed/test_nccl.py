"""Signatures of CuPy's class that we call, and errors without NCCL."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

from . import launch, stand_in

CALLED = ["allReduce", "reduce", "broadcast", "bcast", "reduceScatter", "allGather", "send", "recv",
          "abort", "destroy", "check_async_error"]  # fmt: skip
NAMES = ["get_unique_id", "groupStart", "groupEnd", "NcclError", *(
    name for name in vars(stand_in) if name.startswith("NCCL_")
)]  # fmt: skip


def _extension() -> bytes:
    """Return CuPy's module of NCCL as bytes. It is not imported, because that needs NCCL's
    library."""
    if util.find_spec("cupy_backends") is None:
        pytest.skip("CuPy is not installed")
    folder = util.find_spec("cupy_backends.cuda.libs")
    assert folder is not None and folder.submodule_search_locations
    for place in folder.submodule_search_locations:
        for file in Path(place).glob("nccl.*.so"):
            return file.read_bytes()
    pytest.skip("this CuPy has no NCCL")


@pytest.mark.parametrize("name", CALLED)
def test_the_stand_in_has_the_signatures_of_cupy(name: str) -> None:
    found = re.search(rf"NcclCommunicator\.{name}\((.*?)\)".encode(), _extension())
    assert found is not None
    theirs = [part.split()[-1] for part in found[1].decode().split(", ")]
    ours = [*inspect.signature(getattr(stand_in.NcclCommunicator, name)).parameters]
    assert ours == theirs


@pytest.mark.parametrize("name", NAMES)
def test_cupy_has_the_names(name: str) -> None:
    assert re.search(rf"\0{name}[\0.]".encode(), _extension())


def test_the_constructor_takes_what_cupy_takes() -> None:
    found = re.search(rb"NcclCommunicator\(int ndev, ([^)]*)\)", _extension())
    assert found is not None
    parts = ["int ndev", *found[1].decode().split(", ")]
    theirs = [part.partition("=")[0].split()[-1] for part in parts]
    assert [*inspect.signature(stand_in.NcclCommunicator).parameters] == theirs


def test_without_nccl_there_is_one_sentence() -> None:
    program = (
        "import gputensor as gt\n"
        "from gputensor.runtime import cuda_emulator\n"
        "def missing(): raise ImportError('no libnccl here')\n"
        "cuda_emulator.nccl = missing\n"
        "gt.distributed.init_process_group()\n"
        "x = gt.ones(3, device='cuda')\n"
        "try: gt.distributed.all_reduce(x)\n"
        "except gt.distributed.DistributedError as error: print(error)\n"
        "print(x.tolist())\n"
    )
    launch.mpiexec()
    env = {**launch.os.environ, **launch.emulated("eager")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=120
    )
    assert done.stdout == (
        "all_reduce: GPUs need NCCL to communicate (got none: no libnccl here); "
        "pip install nvidia-nccl-cu12, or use .cpu()\n[1.0, 1.0, 1.0]\n"
    ), done.stderr
