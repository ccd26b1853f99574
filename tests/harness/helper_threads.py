"""Helper threads of the CPU, for tests that wait for one."""

from __future__ import annotations

from gputensor.runtime import cpu


def anew(count: int) -> None:
    """Let kernels use `count` new threads.

    A helper that has not run yet still has an older ticket and is not asked again (Note [Standing
    threads]): a test that needs it would wait for ever.
    """
    cpu.set_num_threads(1)
    cpu.set_num_threads(count)
