"""Clocks, temperature, power and throttling of a GPU, read from NVIDIA's management library (NVML).

NVML is fast enough for a query after every round; nvidia-smi is not.
"""

from __future__ import annotations

import ctypes
from typing import Any

# Enums of nvml.h: types of clocks, the sensor in the GPU, reasons for lower clocks.
_SM, _MEMORY = 1, 2
_GPU_SENSOR = 0
REASONS = {
    0x1: "idle", 0x2: "clocks set by the user", 0x4: "software power cap", 0x8: "hardware slowdown",
    0x10: "sync boost", 0x20: "software thermal slowdown", 0x40: "hardware thermal slowdown",
    0x80: "hardware power brake", 0x100: "display clocks",
}  # fmt: skip


class Absent(RuntimeError):
    """Exception raised if NVML is not installed or one of its functions fails."""


class Device:
    """One GPU. bus_id: its PCI bus id, which identifies the GPU, because CUDA and the driver number
    GPUs differently."""

    def __init__(self, bus_id: str, library: Any = None) -> None:
        try:
            self._library = library or ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise Absent(str(error)) from None
        self._call("nvmlInit_v2")
        self._handle = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByPciBusId_v2", bus_id.encode(), ctypes.byref(self._handle))

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise Absent(f"{name} gives {status}")

    def _ask(self, name: str, *arguments: Any, kind: Any = ctypes.c_uint) -> int | None:
        """Return one number from the driver, or None if the device does not support the query."""
        found = kind()
        try:
            self._call(name, self._handle, *arguments, ctypes.byref(found))
        except Absent:
            return None
        return int(found.value)

    def default_clock_mhz(self) -> int | None:
        """Return the SM clock at which the device runs without throttling."""
        return self._ask("nvmlDeviceGetDefaultApplicationsClock", _SM) or self._ask(
            "nvmlDeviceGetMaxClockInfo", _SM
        )

    def state(self) -> dict[str, Any]:
        """Return sm_clock_mhz, memory_clock_mhz, temperature_c, power_w (or None) and
        throttle_reasons."""
        power_mw = self._ask("nvmlDeviceGetPowerUsage")
        reasons = (
            self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong) or 0
        )
        return {
            "sm_clock_mhz": self._ask("nvmlDeviceGetClockInfo", _SM),
            "memory_clock_mhz": self._ask("nvmlDeviceGetClockInfo", _MEMORY),
            "temperature_c": self._ask("nvmlDeviceGetTemperature", _GPU_SENSOR),
            "power_w": None if power_mw is None else power_mw / 1000,
            "throttle_reasons": [name for bit, name in REASONS.items() if reasons & bit],
        }
