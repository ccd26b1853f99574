"""The environment on which results depend: machine, versions, commit. Each record contains it."""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import sys
import sysconfig
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import gputensor as gt

from ..measurement import gpu_state, peers
from . import checkout


def environment(device: str, argv: list[str] | None = None) -> dict[str, Any]:
    """Return the environment as plain data. Call this before a run, which makes CPUs busy.

    argv: the arguments of `python -m bench`.
    """
    record: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "python_build": _python_build(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "versions": peers.versions() | {"gputensor": gt.__version__},
        "wheels": _wheels(),
        "commit": checkout.commit(),
        "argv": _without_folder(sys.argv[1:] if argv is None else argv),
        "device": device,
        "load": os.getloadavg()[0],
        "busy_cpus": _busy_cpus(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "settings": {n: os.environ[n] for n in _SETTINGS if n in os.environ},
        "image": os.environ.get("GPUTENSOR_IMAGE_DIGEST"),
        "kernels": _hash(PACKAGE / "kernels"),
        "seed": gt.initial_seed(),
    }
    if device != "cpu" and gt.cuda.is_available():
        record["gpu"] = _gpu(device)
    record["missing"] = _missing(record)
    return record


def _without_folder(argv: list[str]) -> list[str]:
    """Return the arguments without `--out FOLDER`, because the folder does not affect the
    measurement."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--out")
    return parser.parse_known_args(argv)[1]


def _python_build() -> str:
    """Return text that names the compiler of the Python interpreter, and tells whether the
    interpreter is in a shared library. Internal calls of a shared library are slower. Both facts
    change host times by a tenth."""
    try:
        is_shared = "libpython" in Path("/proc/self/maps").read_text()
    except OSError:
        is_shared = bool(sysconfig.get_config_var("Py_ENABLE_SHARED"))
    return f"{'shared' if is_shared else 'static'} libpython, {platform.python_compiler()}"


PACKAGE = Path(gt.__file__).parent
_SETTINGS = (
    "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GPUTENSOR_CUDA", "GPUTENSOR_NUM_THREADS",
    "GPUTENSOR_CPU_CAPABILITY", "GPUTENSOR_FUSE",
    "ATEN_CPU_CAPABILITY", "CUDA_VISIBLE_DEVICES",
)  # fmt: skip
_GPU = {
    "driver_version": "driver_version", "power_limit_w": "power.limit", "ecc": "ecc.mode.current",
    "max_sm_clock_mhz": "clocks.max.sm", "max_memory_clock_mhz": "clocks.max.mem",
    "persistence": "persistence_mode",
}  # fmt: skip
_DISTRIBUTIONS = (
    "numpy", "ml_dtypes", "torch", "triton", "cupy-cuda12x", "cupy-cuda13x",
    "nvidia-cuda-nvrtc-cu12",
    "nvidia-cuda-nvrtc", "opencv-python-headless", "opencv-python",
)  # fmt: skip


def _wheels() -> dict[str, str]:
    """Return a dict from distribution to the hash of its RECORD file, which contains a hash of each
    installed file."""
    found = {}
    for name in _DISTRIBUTIONS:
        try:
            listed = metadata.distribution(name).read_text("RECORD")
        except metadata.PackageNotFoundError:
            continue
        if listed:
            found[name] = hashlib.sha256(listed.encode()).hexdigest()[:16]
    return found


def _gpu(device: str) -> dict[str, Any]:
    is_emulated = gt.cuda.is_emulated()
    bus_id = peers.bus_id(device)
    found: dict[str, Any] = {
        "name": gt.cuda.get_device_name(device),
        "emulated": is_emulated,
        "capability": list(gt.cuda.get_device_capability(device)),
        "bus_id": bus_id,
    } | gpu_state.query(_GPU, bus_id)
    module = peers.cupy(device)
    if module is not None:
        cuda = module.cuda
        found |= {
            "cuda_driver": cuda.runtime.driverGetVersion(),
            "cuda_runtime": cuda.runtime.runtimeGetVersion(),
            "nvrtc": ".".join(map(str, cuda.nvrtc.getVersion())),
        }  # fmt: skip
        rows = gpu_state.smi("--query-compute-apps=pid,used_memory", bus_id)
        found["other_processes"] = sum(row[0] != str(os.getpid()) for row in rows)
    return found


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _busy_cpus(seconds: float = 0.25) -> float | None:
    """Return the number of CPUs that were busy while this process slept, or None if unknown."""

    def ticks() -> tuple[int, int]:
        fields = [int(n) for n in (_read("/proc/stat") or "").partition("\n")[0].split()[1:9]]
        return sum(fields), sum(fields[3:5])  # (all ticks, ticks without work)

    total, idle = ticks()
    time.sleep(seconds)
    later, later_idle = ticks()
    if not total:
        return None
    return round((1 - (later_idle - idle) / max(1, later - total)) * (os.cpu_count() or 1), 2)


def _hash(folder: Path) -> str:
    """Return one hash of all kernel sources, which identifies the sources that a record
    measured."""
    texts = sorted(p for p in folder.rglob("*") if p.suffix in (".py", ".cu", ".cuh"))
    return hashlib.sha256(b"".join(p.read_bytes() for p in texts)).hexdigest()[:16]


def _missing(record: dict[str, Any]) -> list[str]:
    """Return the conditions for publication that this record does not meet."""
    lacking = []
    commit = record["commit"]
    if commit is None or commit["dirty"]:
        lacking.append("a clean commit")
    if (record["busy_cpus"] or 0) > record["cpus"] / 4:
        lacking.append(
            f"an idle machine ({record['busy_cpus']:.1f} of {record['cpus']} CPUs were busy)"
        )
    gpu = record.get("gpu")
    if gpu is None:
        return lacking
    if gpu["emulated"]:
        return [*lacking, "a real GPU"]
    if "driver_version" not in gpu:
        lacking.append("nvidia-smi")
    if gpu.get("other_processes"):
        lacking.append(f"a GPU of its own ({gpu['other_processes']} other processes)")
    return lacking


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), ""
    )
