"""What a figure depends on besides the code: machine, versions, commit. A record carries it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gputensor as gt

from . import peers

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
    if device != "cpu" and gt.cuda.is_available():
        record["gpu"] = {
            "name": gt.cuda.get_device_name(device),
            "emulated": gt.cuda.is_emulated(),
            "capability": gt.cuda.get_device_capability(device),
        } | _driver()
    return record


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


def _driver() -> dict[str, str]:
    query = "driver_version,clocks.sm,clocks.mem,temperature.gpu,power.limit"
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return {}
    first = done.stdout.splitlines()[0].split(",")
    return {name: value.strip() for name, value in zip(query.split(","), first)}
