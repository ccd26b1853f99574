"""State of a GPU after each round of a measurement: clocks, temperature, power and throttling.

The values come from NVIDIA's management library (`nvml.py`), or from nvidia-smi once per case.
"""

from __future__ import annotations

import subprocess
from typing import Any

from . import nvml

# A round is measured again if the SM clock was below this share of the default clock.
LEAST_CLOCK = 0.75
_FIELDS = {
    "sm_clock_mhz": "clocks.sm", "memory_clock_mhz": "clocks.mem",
    "max_sm_clock_mhz": "clocks.max.sm",
    "temperature_c": "temperature.gpu", "power_w": "power.draw",
    "throttle_reasons": "clocks_throttle_reasons.active",
}  # fmt: skip


def query(fields: dict[str, str], bus_id: str | None) -> dict[str, Any]:
    """Return a dict from name to value for fields of nvidia-smi, or {} if nvidia-smi fails. Numeric
    values are converted to numbers."""
    rows = smi(f"--query-gpu={','.join(fields.values())}", bus_id)
    return {name: _number(value) for name, value in zip(fields, rows[0])} if rows else {}


def smi(what: str, bus_id: str | None) -> list[list[str]]:
    """Return the rows of nvidia-smi's output for one GPU, or [] if nvidia-smi fails."""
    if bus_id is None:
        return []
    command = ["nvidia-smi", f"--id={bus_id}", what, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return []
    return [
        [v.strip() for v in line.split(",")] for line in done.stdout.splitlines() if line.strip()
    ]


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


class Watch:
    """The GPU's state in each round of a case. device: None on the CPU, on the emulator, and
    without NVML.

    timing.alternate calls `is_fair` after each round, which stores the state and returns True if
    the clock was high enough. `state` returns the data for the record.
    """

    def __init__(self, device: nvml.Device | None, bus_id: str | None = None) -> None:
        self.device, self.bus_id = device, bus_id
        self.default = None if device is None else device.default_clock_mhz()
        self.rounds: list[dict[str, Any]] = []
        self.unfair = 0

    def is_fair(self) -> bool:
        if self.device is None:
            return True
        now = self.device.state()
        self.rounds.append(now)
        fair = not _is_slow(now["sm_clock_mhz"], self.default)
        self.unfair += not fair
        return fair

    def state(self) -> dict[str, Any] | None:
        """Return each quantity's values in all rounds, in order. Without NVML, return nvidia-smi's
        present values, or None if they are unknown."""
        if self.device is None:
            found = query(_FIELDS, self.bus_id)
            if not found:
                return None
            return found | {"is_slow": _is_slow(found["sm_clock_mhz"], found["max_sm_clock_mhz"])}
        names = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_w")
        found = {name: [now[name] for now in self.rounds] for name in names}
        reasons = dict.fromkeys(r for now in self.rounds for r in now["throttle_reasons"])
        return found | {
            "default_sm_clock_mhz": self.default, "throttle_reasons": list(reasons),
            "slow_rounds": self.unfair,
            # slow rounds are repeated; if at least half of all rounds were slow, some results may
            # come from slow rounds
            "is_slow": self.unfair * 2 >= len(self.rounds) > 0,
        }  # fmt: skip


def _is_slow(clock: Any, default: Any) -> bool:
    both = isinstance(clock, (int, float)) and isinstance(default, (int, float))
    return both and clock < LEAST_CLOCK * default
