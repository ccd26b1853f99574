"""What a figure depends on besides the code: machine, versions, commit. A record carries it."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gputensor as gt

from . import gpu_state, peers

ROOT = Path(__file__).resolve().parent.parent


def environment(device: str) -> dict[str, Any]:
    """The environment of a run, as plain data."""
    record: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "versions": peers.versions() | {"gputensor": gt.__version__},
        "commit": _commit(),
        "argv": sys.argv[1:],
        "device": device,
    }
    record |= {
        "load": os.getloadavg()[0],
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "settings": {n: os.environ[n] for n in _SETTINGS if n in os.environ},
        "image": os.environ.get("GPUTENSOR_IMAGE_DIGEST"),
        "kernels": _hash(ROOT / "gputensor" / "kernels"),
        "seed": gt.initial_seed(),
    }
    if device != "cpu" and gt.cuda.is_available():
        record["gpu"] = {
            "name": gt.cuda.get_device_name(device),
            "emulated": gt.cuda.is_emulated(),
            "capability": list(gt.cuda.get_device_capability(device)),
        } | gpu_state.query(_GPU, gt.device(device).index or 0)
    record["missing"] = _missing(record)
    return record


_SETTINGS = (
    "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GPUTENSOR_CUDA", "GPUTENSOR_NUM_THREADS", "CUDA_VISIBLE_DEVICES",
)  # fmt: skip
_GPU = {
    "driver_version": "driver_version", "power_limit_w": "power.limit", "ecc": "ecc.mode.current",
    "max_sm_clock_mhz": "clocks.max.sm", "max_memory_clock_mhz": "clocks.max.mem",
    "persistence": "persistence_mode",
}  # fmt: skip


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _hash(folder: Path) -> str:
    """Of the texts of all kernels, so that a record says which ones it measured."""
    texts = sorted(p for p in folder.rglob("*") if p.suffix in (".py", ".cu", ".cuh"))
    return hashlib.sha256(b"".join(p.read_bytes() for p in texts)).hexdigest()[:16]


def _missing(record: dict[str, Any]) -> list[str]:
    """What a published record needs and this one lacks."""
    lacking = []
    commit = record["commit"]
    if commit is None or commit["dirty"]:
        lacking.append("a clean commit")
    if record["load"] > record["cpus"] / 2:
        lacking.append("an idle machine")
    gpu = record.get("gpu")
    if gpu is not None and gpu["emulated"]:
        lacking.append("a real GPU")
    elif gpu is not None and "driver_version" not in gpu:
        lacking.append("nvidia-smi")
    return lacking


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _commit() -> dict[str, Any] | None:
    def git(*args: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=True).stdout.strip()

    try:
        return {"hash": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return None

