"""Collectives on several ranks, by a real mpiexec, against NumPy; the folder `cases` has the
cases."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gputensor import cuda

from ..harness import tier
from . import launch
from .run_cases import CASES

WORLDS = tier.pick(
    [(1, "cpu"), (2, "cpu")],
    [(1, "cpu"), (2, "cpu"), (4, "cpu"), (2, "cuda")],
)


def _check(folder: Path, ranks: int, output: str) -> None:
    found = [folder / f"{rank}.json" for rank in range(ranks)]
    assert all(file.exists() for file in found), output
    for rank, file in enumerate(found):
        said = json.loads(file.read_text())
        wrong = {name: text for name, text in said.items() if text}
        assert not wrong, f"rank {rank}: {wrong}"
        assert set(said) == set(CASES)


@pytest.mark.full
@pytest.mark.parametrize(("ranks", "device"), WORLDS, ids=str)
def test_every_case_holds_on_all_ranks(ranks: int, device: str, tmp_path: Path) -> None:
    if device == "cuda" and not cuda.is_emulated():
        pytest.skip("collectives on CUDA are those of the emulator: GPUTENSOR_CUDA=emulator")
    done = launch.run(ranks, "-m", "tests.distributed.run_cases", str(tmp_path), device)
    _check(tmp_path, ranks, done.stdout)
    assert done.returncode == 0, done.stdout


@pytest.mark.full
@pytest.mark.parametrize(("order", "ranks"), [("eager", 1), ("lazy", 3)])
def test_every_case_holds_between_gpus(order: str, ranks: int, tmp_path: Path) -> None:
    """The runtime calls NCCL, which a stand-in replaces."""
    env = launch.emulated(order)
    done = launch.run(ranks, "-m", "tests.distributed.run_cases", str(tmp_path), "nccl", **env)
    _check(tmp_path, ranks, done.stdout)
    assert done.returncode == 0, done.stdout


@pytest.mark.full
def test_a_world_of_one_needs_no_launcher(tmp_path: Path) -> None:
    launch.mpiexec()
    program = [sys.executable, "-m", "tests.distributed.run_cases", str(tmp_path), "cpu"]
    done = subprocess.run(program, cwd=launch.ROOT, capture_output=True, text=True, timeout=120)
    _check(tmp_path, 1, done.stdout + done.stderr)


def test_there_are_cases() -> None:
    assert len(CASES) >= 25


def test_nothing_of_mpi_is_imported_before_it_is_asked_for() -> None:
    program = (
        "import sys, gputensor as gt\n"
        "gt.distributed.ReduceOp.SUM, gt.distributed.all_reduce, gt.distributed.is_available()\n"
        "assert not gt.distributed.is_initialized()\n"
        "assert not [n for n in sys.modules if n.startswith('mpi4py')]\n"
        "try: gt.distributed.all_reduce(gt.ones(1))\n"
        "except gt.distributed.DistributedError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == (
        "all_reduce: there must be a process group (got none); call init_process_group() first\n"
    ), done.stderr


def test_without_mpi_there_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").write_text("raise ImportError('no MPI here')\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import gputensor as gt\n"
        "try: gt.distributed.init_process_group()\n"
        "except gt.distributed.DistributedError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == (
        "init_process_group: MPI must be there (got ImportError: no MPI here); "
        "pip install 'gputensor[mpi]'\n"
    ), done.stderr
