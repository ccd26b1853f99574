"""The number of CPUs that this process may use.

The process's affinity names CPUs. A Linux control group also limits the CPU time per period: a
container that was started with `--cpus=2` sees all CPUs of the machine, but may use only the time
of two. With more threads than that, the system stops the process for the rest of each period.

Source: https://docs.kernel.org/admin-guide/cgroup-v2.html (`cpu.max`), and "CFS Bandwidth Control"
for version 1 (`cpu.cfs_quota_us`).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/proc/self/cgroup")
_FILES = Path("/sys/fs/cgroup")


def available() -> int:
    """Return the number of CPUs of the process's affinity, or of its quota if that is smaller. A
    part of a CPU counts as one CPU."""
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    return min([count, *[max(math.ceil(quota), 1) for quota in _quotas()]])


def _quotas() -> Iterator[float]:
    """Yield the quotas of the process's control group and of the groups that contain it, in
    CPUs."""
    with contextlib.suppress(OSError, ValueError):
        for line in _GROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            top = _FILES if not controllers else _FILES / "cpu"
            # A container may see its own group as the top folder, under another path.
            group = top / path.lstrip("/")
            for folder in (group, *group.parents):
                yield from _quota(folder)
                if folder == top:
                    break


def _quota(folder: Path) -> Iterator[float]:
    with contextlib.suppress(OSError, ValueError):
        quota, period = (folder / "cpu.max").read_text().split()
        if quota != "max":
            yield int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError):
        quota = (folder / "cpu.cfs_quota_us").read_text()
        if int(quota) > 0:
            yield int(quota) / int((folder / "cpu.cfs_period_us").read_text())
