"""`gputensor doctor`: report what works on this machine, with remedies for what does not.

Every line has a state: ok, absent (not an error; the feature is unavailable) or broken. The exit
status is 1 if a line is broken, and 3 if `--require` names a device that does not work.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from . import driver
from .output import CHECK_FAILED, DEVICE_ABSENT, FINE, Arguments, Refusal, print_json, table

OK, ABSENT, BROKEN = "ok", "absent", "broken"


class Finding(NamedTuple):
    """One line of the report: the subject, its state, a description, and a remedy or ""."""

    name: str
    state: str
    found: str
    remedy: str = ""


def main(argv: list[str]) -> int:
    parser = Arguments("doctor", "What gputensor finds on this machine.")
    text = "exit with 3 unless it answers: cuda (a GPU) or emulator"
    parser.add_argument("--require", metavar="DEVICE", help=text)
    arguments = parser.parse_args(argv)
    if arguments.require not in (None, "cuda", "emulator"):
        raise Refusal(f"'--require' must be cuda or emulator (got {arguments.require!r})")
    findings = examine()
    if arguments.json:
        print_json({"findings": [f._asdict() for f in findings]})
    else:
        print(table(("what", "state", "found"), [(f.name, f.state, f.found) for f in findings]))
        for f in findings:
            if f.remedy:
                print(f"\n{f.name}: {f.remedy}", end="")
        print()
    required = {"cuda": "GPU", "emulator": "emulator"}.get(arguments.require)
    lacking = next((f for f in findings if f.name == required and f.state != OK), None)
    if lacking is not None:
        raise Refusal(f"'--require {arguments.require}' is not met: {lacking.found}", DEVICE_ABSENT)
    return CHECK_FAILED if any(f.state == BROKEN for f in findings) else FINE


def examine() -> list[Finding]:
    """Return all findings. This function raises no exception."""
    answer = driver.find()
    cupy = _cupy(answer)
    return [
        _python(), *_packages(), cpu_loops(), _driver(answer), cupy, _nvrtc(cupy), _setting(),
        _gpu(answer), _emulator(), _mpi(), _nccl(), _cache(), *_carried(), *_devices(),
    ]  # fmt: skip


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < (3, 11):  # noqa: UP036 - a checkout runs with any
        return Finding("Python", BROKEN, version, "use Python 3.11 or newer")
    return Finding("Python", OK, f"{version} at {sys.executable}")


def _packages() -> list[Finding]:
    findings = []
    for name, oldest in (("gputensor", ""), ("numpy", "2"), ("ml_dtypes", "")):
        version = _version(name)
        if version is None and name == "gputensor":
            import gputensor

            found = f"{gputensor.__version__}, not installed: run from its folder"
            findings.append(Finding(name, OK, found))
        elif version is None:
            findings.append(Finding(name, BROKEN, "not installed", f"pip install {name}"))
        elif oldest and int(version.split(".")[0]) < int(oldest):
            findings.append(Finding(name, BROKEN, version, f"pip install '{name}>={oldest}'"))
        else:
            findings.append(Finding(name, OK, version))
    return findings


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cpu_loops() -> Finding:
    """Report whether the CPU runs compiled loops or NumPy's."""
    from gputensor.core.errors import GpuTensorError
    from gputensor.kernels.compiled import library

    try:
        choice = library.choice()
    except GpuTensorError as error:
        return Finding("CPU loops", BROKEN, str(error), f"change or unset {library.VARIABLE}")
    found = f"{choice.capability}, NumPy's" if choice.library is None else choice.capability
    if choice.reason:
        found += f": {choice.reason}"
    return Finding("CPU loops", OK if choice.library else ABSENT, found, choice.remedy)


def _driver(answer: driver.Driver) -> Finding:
    version = "" if answer.version is None else f"CUDA {answer.version[0]}.{answer.version[1]}"
    if answer.reason is None:
        return Finding("NVIDIA driver", OK, f"{version}, {answer.device_count} devices")
    if answer.version is None:
        remedy = "for a GPU install NVIDIA's driver; without one everything runs in CPU-only mode"
        return Finding("NVIDIA driver", ABSENT, answer.reason, remedy)
    remedy = "see what nvidia-smi says; in a container pass --gpus all; CUDA 12 or newer is needed"
    return Finding("NVIDIA driver", BROKEN, f"{version}, but {answer.reason}", remedy)


def _cupy(answer: driver.Driver) -> Finding:
    names = ("cupy-cuda12x", "cupy-cuda13x", "cupy-cuda11x", "cupy")
    wheels = {w: v for w in names if (v := _version(w))}
    found = ", ".join(f"{w} {v}" for w, v in wheels.items()) or "not installed"
    extra = answer.extra
    if len(wheels) > 1:
        remedy = f"keep one of them: pip uninstall {' '.join(wheels)}, then "
        remedy += f"pip install 'gputensor[{extra or 'cuda12'}]'"
        return Finding("CuPy", BROKEN, found, remedy)
    if not wheels:
        remedy = f"pip install 'gputensor[{extra}]'" if extra else ""
        return Finding("CuPy", BROKEN if extra else ABSENT, found, remedy)
    (wheel,) = wheels
    # "cupy-cuda13x" is built for CUDA 13 and needs a driver of this version or newer.
    if extra and wheel != "cupy" and int(wheel[9:11]) > int(extra[4:]):
        remedy = f"pip uninstall {wheel}, then pip install 'gputensor[{extra}]'"
        return Finding("CuPy", BROKEN, f"{found} needs a newer driver", remedy)
    return Finding("CuPy", OK, found)


def _nvrtc(cupy: Finding) -> Finding:
    if cupy.state != OK:
        return Finding("NVRTC", ABSENT, "comes with CuPy's extra [ctk]")
    # Import CuPy in a separate process, because the import may fail or print.
    code = "from cupy.cuda import nvrtc; print('.'.join(map(str, nvrtc.getVersion())))"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if asked.returncode:
        reason = (asked.stderr.strip().splitlines() or ["no answer"])[-1]
        remedy = "install CuPy's wheel with the extra [ctk], which brings NVRTC"
        return Finding("NVRTC", BROKEN, reason, remedy)
    return Finding("NVRTC", OK, asked.stdout.strip())


def _setting() -> Finding:
    from gputensor import runtime

    value = os.environ.get("GPUTENSOR_CUDA") or "auto"
    if value not in runtime.CHOICES:
        remedy = f"set it to one of {', '.join(runtime.CHOICES)}"
        return Finding("GPUTENSOR_CUDA", BROKEN, value, remedy)
    return Finding("GPUTENSOR_CUDA", OK, value)


def _chosen() -> tuple[Any, str]:
    """Return two values: the CUDA runtime of this process or None, and the reason why CUDA is not
    available. The reason is "" if CUDA is available."""
    from gputensor import runtime
    from gputensor.core.errors import GpuTensorError

    try:
        module = runtime.cuda()
    except GpuTensorError as error:
        return None, str(error)
    return module, module.unavailable_reason() or ""


def _gpu(answer: driver.Driver) -> Finding:
    module, reason = _chosen()
    if module is None:
        return Finding("GPU", BROKEN, reason)
    if module.is_emulated:
        found = "GPUTENSOR_CUDA=emulator: CUDA devices are emulated in this process"
        return Finding("GPU", ABSENT, found)
    if not module.is_available():
        if os.environ.get("GPUTENSOR_CUDA") != "off" and answer.version is None:
            reason = "there is no NVIDIA driver"  # this is the cause of CuPy's error
        remedy = "GPUTENSOR_CUDA=emulator runs the CUDA kernels on the CPU"
        return Finding("GPU", ABSENT, reason, remedy)
    return Finding("GPU", OK, f"{module.device_count()} devices")


def _emulator() -> Finding:
    compiler = shutil.which("g++")
    if compiler is None:
        remedy = "install g++ (Debian: apt install g++)"
        return Finding("emulator", ABSENT, "g++ is not found", remedy)
    asked = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True)
    return Finding("emulator", OK, f"g++ {asked.stdout.strip()} at {compiler}")


def _mpi() -> Finding:
    """Report the MPI library that gt.distributed uses, without starting it."""
    remedy = "pip install 'gputensor[mpi]'"
    try:
        version = metadata.version("mpi4py")
    except metadata.PackageNotFoundError:
        return Finding("MPI", ABSENT, "mpi4py is not installed", remedy)
    here = str(Path(sys.executable).parent)
    launcher = shutil.which("mpiexec", path=f"{here}{os.pathsep}{os.environ.get('PATH', '')}")
    if launcher is None:
        found = f"mpi4py {version}, but there is no mpiexec: worlds of one process"
        return Finding("MPI", ABSENT, found, remedy)
    found = f"mpi4py {version}, mpiexec at {launcher}"
    return Finding("MPI", OK, f"{found}; moves tensors on the CPU")


def _nccl() -> Finding:
    """Report NCCL, which transfers CUDA tensors between ranks, without starting it."""
    module, _ = _chosen()
    if module is None or not module.is_available():
        return Finding("NCCL", ABSENT, "there is no GPU for it")
    try:
        found = module.nccl()
    except ImportError as reason:
        return Finding("NCCL", ABSENT, str(reason), "pip install nvidia-nccl-cu12")
    if found is None:
        return Finding("NCCL", ABSENT, "devices are emulated: MPI moves their tensors in its place")
    version = found.get_version()
    return Finding("NCCL", OK, f"{version} through CuPy moves tensors between GPUs")


def _cache() -> Finding:
    from gputensor.runtime import trust
    from gputensor.runtime.compilation import kernel_cache

    folder = Path(kernel_cache.directory())
    reason = trust.wrong_folder(str(folder))
    if reason:
        remedy = "set GPUTENSOR_CACHE_DIR to a folder of your own"
        why = f"{reason}, so every process compiles anew"
        return Finding("kernel cache", BROKEN, why, remedy)
    nearest = folder
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        found = f"{folder} is not writable, so every process compiles anew"
        return Finding(
            "kernel cache", BROKEN, found, "set GPUTENSOR_CACHE_DIR to a writable folder"
        )
    count, nbytes = kernel_cache.stored()
    return Finding("kernel cache", OK, f"{folder}: {count} kernels, {nbytes / 2**20:.1f} MiB")


def _carried() -> list[Finding]:
    """Report the folder of precompiled kernels, if one is set (runtime/compilation/carried.py)."""
    from gputensor.runtime import trust
    from gputensor.runtime.compilation import carried

    given = os.environ.get(carried.VARIABLE)
    if not given:
        return []
    reason = trust.wrong_folder(os.path.realpath(given))
    if reason:
        remedy = f"copy it to a folder of your own and name it in {carried.VARIABLE}"
        return [Finding("carried cubins", BROKEN, f"{reason}, so they are not used", remedy)]
    count = len(list(Path(given).glob("*.cubin")))
    return [Finding("carried cubins", OK if count else ABSENT, f"{given}: {count}")]


def _devices() -> list[Finding]:
    from gputensor import runtime

    findings = [Finding("cpu", OK, f"{runtime.cpu.get_num_threads()} threads")]
    module, _ = _chosen()
    for i in range(module.device_count() if module is not None else 0):
        free, total = module.mem_get_info(i)
        capability = ".".join(map(str, module.capability(i)))
        memory = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
        found = f"{module.device_name(i)}, capability {capability}, {memory}"
        findings.append(Finding(f"cuda:{i}", OK, found))
    return findings
