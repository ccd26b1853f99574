"""Settings of the emulator for programs: checks and the order of threads."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ..runtime.emulator import settings


def emulator_settings(
    sanitize: str | None = None, schedule: str | None = None, seed: int | None = None,
    limit_s: float | None = None,
) -> AbstractContextManager[Any]:  # fmt: skip
    """`with gt.cuda.emulator_settings(sanitize="all", schedule="random", seed=7):` sets them for a
    block.

    sanitize: `writes`, `memory`, `init`, `race`, `overflow`, several of them with commas, or `all`;
    "" for none. schedule: `forward`, `reversed` or `random`, the order of blocks and of threads
    between barriers. limit_s: the seconds that a kernel may run; 0 for no limit. None keeps a
    setting. On a real GPU nothing changes.
    """
    return settings.using(sanitize, schedule, seed, limit_s)
