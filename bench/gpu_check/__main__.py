"""`bench/gpu_check.sh prepare|correct|measure [--dry] [--only STEP,…] [--budget SECONDS]`.

Exit status: 0 success, 1 a step failed, hung or did not begin, 2 bad input, 3 no NVRTC.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib import import_module
from pathlib import Path

from bench.records import checkout
from gputensor.runtime import trust

from . import steps
from .run import Run

CARRIED = checkout.NOTE.parent
# All cubins are in one archive. Because they are similar, they compress to an eighth of their size.
CUBINS = CARRIED / "cubins.tar.xz"
# Pure Python packages that tests need and that the machine with the GPU may lack.
PACKAGES, WANTED = CARRIED / "python", ("yaml",)
# The time limit of all steps together, in seconds. It leaves 15 s of nine minutes for the start and
# for packing the results.
BUDGET_S = 525.0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench/gpu_check.sh", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("prepare", *steps.MODES))
    parser.add_argument(
        "--dry", action="store_true", help="on the emulator, with little of each step"
    )
    parser.add_argument(
        "--only", type=lambda text: text.split(","), help="these steps alone, as a,b"
    )
    parser.add_argument("--budget", type=float, metavar="SECONDS", help=f"default: {BUDGET_S:.0f}")
    parser.add_argument("--arch", default="sm_90", help="prepare: what to compile for")
    parser.add_argument(
        "--work", type=Path, help="folder for what steps write (default: out/gpu_check-MODE)"
    )
    given = parser.parse_args(argv)
    if given.what == "prepare":
        return prepare(given.arch)
    work = given.work or checkout.ROOT / "out" / f"gpu_check-{given.what}"
    wanted = steps.of(given.what, work, is_dry=given.dry)
    unknown = set(given.only or ()) - {step.name for step in wanted}
    if unknown:
        names = ", ".join(step.name for step in wanted)
        print(
            f"gpu_check: '--only' must be of {names} (got {', '.join(sorted(unknown))})",
            file=sys.stderr,
        )
        return 2
    if given.only:
        wanted = [step for step in wanted if step.name in given.only]
    shutil.rmtree(work, ignore_errors=True)
    budget = given.budget or BUDGET_S * (steps.SLACK if given.dry else 1)
    out = Path(os.environ.get("OUT") or checkout.ROOT / "out")
    return Run(given.what, wanted, work, out, budget, settings(given.dry)).run()


def settings(is_dry: bool) -> dict[str, str]:
    """Return the environment variables of all steps."""
    if is_dry:
        return {"GPUTENSOR_CUDA": "emulator", "GPUTENSOR_EMULATOR_DEVICES": "2"}
    found = {
        "GPUTENSOR_CUDA": "required", "GPUTENSOR_REQUIRE_CUDA": "1",
        # JAX would otherwise reserve three quarters of a GPU's memory in each process
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }  # fmt: skip
    if PACKAGES.is_dir() and not all(map(is_there, WANTED)):
        found["PYTHONPATH"] = os.pathsep.join([str(PACKAGES), os.environ.get("PYTHONPATH", "")])
    # `correct` and `measure` share one kernel cache on a machine
    found["GPUTENSOR_CACHE_DIR"] = os.environ.get("GPUTENSOR_CACHE_DIR") or str(
        own_folder("kernels")
    )
    if CUBINS.exists():
        mine = own_folder("cubins")
        shutil.rmtree(mine, ignore_errors=True)
        mine.mkdir(mode=0o700)
        with tarfile.open(CUBINS) as archive:
            # Python before 3.11.4 has no extraction filters.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(mine)
        # Loaders of compiled code reject files to which other users can write.
        for path in (mine, *mine.iterdir()):
            path.chmod(0o700)
        found["GPUTENSOR_CARRIED_CUBINS"] = str(mine)
    return found


def is_there(package: str) -> bool:
    try:
        import_module(package)
    except ImportError:
        return False
    return True


def own_folder(name: str) -> Path:
    """Return a folder to which other users cannot write, because the loaders of kernels demand
    this. It is in the checkout's out/ if possible, otherwise in the folder for temporary files."""
    for place in (checkout.ROOT / "out", Path(tempfile.gettempdir()) / f"gpu_check-{os.getuid()}"):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = place.resolve() / name
        if not trust.wrong_folder(str(folder)):
            break
    return folder


def prepare(arch: str) -> int:
    """Fill `.carried/` with cubins for a GPU, packages and the commit. Needs a machine with git and
    NVRTC."""
    with tempfile.TemporaryDirectory() as made:
        compile_all = ["cache", "warm", "--all", "--arch", arch, "--to", made]
        status = subprocess.run(
            [sys.executable, "-m", "gputensor", *compile_all], check=False
        ).returncode
        CARRIED.mkdir(exist_ok=True)
        with tarfile.open(CUBINS, "w:xz", preset=1) as archive:
            archive.add(made, arcname=".")
    shutil.rmtree(PACKAGES, ignore_errors=True)
    for name in WANTED:
        folder = Path(import_module(name).__file__ or "").parent
        compiled = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(folder, PACKAGES / name, ignore=compiled)
    print(f"gpu_check: {checkout.note()}; carry the folder {CARRIED.name}/ along")
    return status


if __name__ == "__main__":
    sys.exit(main())
