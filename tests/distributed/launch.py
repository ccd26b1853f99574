"""Start programs under mpiexec, with a time limit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 240


def mpiexec() -> str:
    """Return the launcher; skips if MPI is missing."""
    if util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed: pip install 'gputensor[mpi]'")
    here = Path(sys.executable).parent
    found = shutil.which("mpiexec", path=f"{here}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip("there is no mpiexec: pip install 'gputensor[mpi]'")
    return found


def emulated(order: str) -> dict[str, str]:
    """Return the environment in which CUDA devices are emulated; skips without g++."""
    if shutil.which("g++") is None:
        pytest.skip("emulated devices need g++")
    return {"GPUTENSOR_CUDA": "emulator", "GPUTENSOR_EMULATOR_ORDER": order}


def run(
    ranks: int, *command: str, limit_s: float = LIMIT_S, cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run `mpiexec -n RANKS python COMMAND`; return output and errors of all ranks together."""
    program = [mpiexec(), "-n", str(ranks), sys.executable, *command]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"
    } | env  # fmt: skip
    with subprocess.Popen(
        program, cwd=cwd or ROOT, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            pytest.fail(f"{' '.join(command)} took more than {limit_s} s\n{output[-4000:]}")
    return subprocess.CompletedProcess(program, process.returncode, output, "")
