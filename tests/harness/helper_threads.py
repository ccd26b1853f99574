"""Helper threads of the CPU, for tests that wait for one."""

from __future__ import annotations

from gputensor.runtime import cpu


def anew(count: int) -> None:
    """Let kernels use `count` threads, none of which was asked before.

    A helper that the machine has not let run yet has an older ticket before it, and is not asked
    again (Note [Standing threads]): who must meet it would wait for ever.
    """
    cpu.set_num_threads(1)
    cpu.set_num_threads(count)
