"""Settings of the emulator: checks, time limit, and the order of threads.

`GPUTENSOR_EMULATOR_SANITIZE` selects checks of each memory access, in a separate build: `writes` (a
kernel writes only to its own arguments), `memory` (also reads, and accesses of shared memory),
`init` (shared memory is written before it is read), `race`, `overflow` (of signed integers, and
division by zero), or `all`; `1` means libasan (sanitizer.py). `GPUTENSOR_EMULATOR_LIMIT` is the
number of seconds that a kernel may run (default: no limit). `GPUTENSOR_EMULATOR_SCHEDULE` is the
order of blocks, and of threads between barriers: `forward`, `reversed` or `random`
(`GPUTENSOR_EMULATOR_SEED`). If a result depends on this order, the kernel has a bug that can appear
on a GPU.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

from gputensor.core import errors

# `all` selects these checks; `memory` includes `writes`.
CHECKS = ("memory", "init", "race", "overflow")
WRITES = "writes"
# Checks that the engine makes. The check `overflow` is made by the compiled code.
_BY_THE_ENGINE = (WRITES, *CHECKS[:3])
_EACH_ACCESS = CHECKS[:3]
SCHEDULES = ("forward", "reversed", "random")
_LONGEST = 10**6  # A time limit may have at most this number of seconds.


class Options(ctypes.Structure):
    """The options that the engine receives at each launch."""

    _fields_ = (
        ("device", ctypes.c_int), ("reachable", ctypes.c_uint), ("order", ctypes.c_int),
        ("seed", ctypes.c_ulonglong), ("limit_ms", ctypes.c_ulonglong),
        *((f"check_{name}", ctypes.c_int) for name in ("writes", "memory", "fresh", "races")),
    )  # fmt: skip


class Settings:
    """The settings of later launches. They are immutable, so a queued launch keeps its settings."""

    __slots__ = ("_options", "build", "checks", "limit_s", "schedule", "seed")
    schedule: str
    seed: int

    def __init__(
        self, checks: frozenset[str], schedule: str, seed: int, limit_s: float | None
    ) -> None:
        self.checks, self.schedule, self.seed, self.limit_s = checks, schedule, seed, limit_s
        # Three flags for the compiler. The first: kernels call the engine at each access. The
        # second: kernels test integer arithmetic for overflow. The third: kernels call the engine
        # at each write, but not at each read.
        each = not checks.isdisjoint(_EACH_ACCESS)
        self.build = each, "overflow" in checks, WRITES in checks and not each
        self._options: dict[tuple[int, int], Options] = {}

    def options(self, device_index: int, reachable: int) -> Options:
        """Return these settings as a struct for the engine, which only reads it."""
        known = self._options.get((device_index, reachable))
        if known is None:
            known = self._options[device_index, reachable] = Options(
                device_index, reachable, SCHEDULES.index(self.schedule), self.seed,
                math.ceil((self.limit_s or 0) * 1000),
                *(int(name in self.checks) for name in _BY_THE_ENGINE),
            )  # fmt: skip
        return known


_now: Settings | None = None


def current() -> Settings:
    global _now
    if _now is None:
        _now = from_environment()
    return _now


def from_environment() -> Settings:
    schedule = os.environ.get("GPUTENSOR_EMULATOR_SCHEDULE") or "forward"
    seed = os.environ.get("GPUTENSOR_EMULATOR_SEED") or "0"
    limit = os.environ.get("GPUTENSOR_EMULATOR_LIMIT") or ""
    checks = os.environ.get("GPUTENSOR_EMULATOR_SANITIZE") or ""
    return _made(parse_checks(checks), schedule, parse_seed(seed), parse_limit(limit))


def parse_limit(text: str) -> float | None:
    """Return the number of seconds; None (no limit) for an empty text or 0."""
    try:
        limit = float(text or 0)
    except ValueError:
        limit = -1.0
    if not 0 <= limit <= _LONGEST:
        rule = f"be a number of seconds in [0, {_LONGEST}]"
        raise errors.wrong_setting("GPUTENSOR_EMULATOR_LIMIT", rule, text)
    return limit or None


def parse_seed(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise errors.wrong_setting("GPUTENSOR_EMULATOR_SEED", "be an integer", text) from None


def parse_checks(text: str) -> frozenset[str]:
    """Return the set of checks in a text such as `memory,race`. For `1`, which means libasan, the
    set is empty."""
    names = [name for name in str(text).replace(" ", "").split(",") if name not in ("", "0", "1")]
    if names == ["all"]:
        return frozenset(CHECKS)
    unknown = next((name for name in names if name not in (WRITES, *CHECKS)), None)
    if unknown is not None:
        rule = f"be all, or of {', '.join((*CHECKS, WRITES))} (or 1, for libasan)"
        raise errors.wrong_setting("GPUTENSOR_EMULATOR_SANITIZE", rule, text)
    return frozenset(names)


def _made(checks: frozenset[str], schedule: str, seed: int, limit_s: float | None) -> Settings:
    if schedule not in SCHEDULES:
        rule = f"be one of {', '.join(SCHEDULES)}"
        raise errors.wrong_setting("GPUTENSOR_EMULATOR_SCHEDULE", rule, schedule)
    return Settings(checks, schedule, seed, limit_s)


@contextmanager
def emulator_settings(
    sanitize: str | None = None, schedule: str | None = None, seed: int | None = None,
    limit_s: float | None = None,
) -> Iterator[Settings]:  # fmt: skip
    """`with gt.cuda.emulator_settings(sanitize="all", schedule="random", seed=7):` changes settings
    within a block, for the whole process.

    sanitize: `writes`, `memory`, `init`, `race`, `overflow`, several of them separated by commas,
    or `all`; "" for none. schedule: `forward`, `reversed` or `random`, the order of blocks and of
    threads between barriers. limit_s: the seconds that a kernel may run; 0 for no limit. None
    leaves a setting unchanged. On a real GPU nothing changes.
    """
    global _now
    before = current()
    _now = _made(
        before.checks if sanitize is None else parse_checks(sanitize),
        before.schedule if schedule is None else schedule,
        before.seed if seed is None else parse_seed(str(seed)),
        before.limit_s if limit_s is None else parse_limit(str(limit_s)),
    )
    try:
        yield _now
    finally:
        _now = before


def forget() -> None:
    """Discard the settings, so that the environment variables are read again. Only tests and the
    pytest plugin call this."""
    global _now
    _now = None
