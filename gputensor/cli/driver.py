"""The version of the NVIDIA driver, read through ctypes. The version decides which extra is
installed.

This file uses only the standard library, because the Makefile runs it by path before installation
and uses the extra that it prints (`cuda12`, `cuda13` or `none`).
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

_LIBRARY = "libcuda.so.1"


class Driver(NamedTuple):
    """The NVIDIA driver. version: the CUDA version as (major, minor). reason: why the driver cannot
    be used, or None."""

    version: tuple[int, int] | None
    device_count: int
    reason: str | None

    @property
    def extra(self) -> str | None:
        """Return the extra of pyproject.toml for this driver, or None for CPU-only."""
        if self.reason is not None or self.version is None:
            return None
        return "cuda13" if self.version >= (13, 0) else "cuda12"


def find() -> Driver:
    """Return the driver of this machine. Raises no exception."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        return Driver(None, 0, f"{_LIBRARY} is not found")
    number = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return Driver(None, 0, f"{_LIBRARY} does not tell its version")
    version = (number.value // 1000, number.value % 1000 // 10)
    status = library.cuInit(0)
    if status != 0:
        return Driver(version, 0, f"cuInit fails with status {status}")
    if library.cuDeviceGetCount(ctypes.byref(number)) != 0 or number.value == 0:
        return Driver(version, 0, "the driver has no device")
    if version < (12, 0):
        return Driver(version, number.value, f"the driver is for CUDA {version[0]}.{version[1]}")
    return Driver(version, number.value, None)


if __name__ == "__main__":
    print(find().extra or "none")
