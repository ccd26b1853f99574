"""Clocks, temperature, power and throttling of a GPU at one moment, as nvidia-smi tells them."""

from __future__ import annotations

import subprocess
from typing import Any

# A sample below this share of the default clock is not a figure of the GPU.
LEAST_CLOCK = 0.75
_FIELDS = {
    "sm_clock_mhz": "clocks.sm", "memory_clock_mhz": "clocks.mem", "max_sm_clock_mhz": "clocks.max.sm",
    "temperature_c": "temperature.gpu", "power_w": "power.draw",
    "throttle_reasons": "clocks_throttle_reasons.active",
}  # fmt: skip


def query(fields: dict[str, str], index: int) -> dict[str, Any]:
    """name -> value of nvidia-smi's fields; numbers as numbers, {} where nvidia-smi does not answer."""
    command = ["nvidia-smi", f"--id={index}", f"--query-gpu={','.join(fields.values())}"]
    try:
        done = subprocess.run(
            [*command, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [v.strip() for v in done.stdout.splitlines()[0].split(",")]
    return {name: _number(value) for name, value in zip(fields, values)}


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def now(place: Any) -> dict[str, Any] | None:
    """The state of the place's GPU; None on the CPU, and where nothing tells it."""
    if place.clock is None:
        return None
    found = query(_FIELDS, place.index)
    if not found:
        return None
    clock, most = found["sm_clock_mhz"], found["max_sm_clock_mhz"]
    both = isinstance(clock, float) and isinstance(most, float)
    return found | {"is_slow": both and clock < LEAST_CLOCK * most}
