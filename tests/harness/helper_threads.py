"""Helper threads of the CPU, for tests that wait for one."""

from __future__ import annotations

from gputensor.runtime import cpu


def anew(count: int) -> None:
    """Let kernels use `count` new threads.

    A helper that has not run yet still has an older ticket and gets no new one (Note [Standing
    threads]). A test that needs this helper would never end.
    """
    cpu.set_num_threads(1)
    cpu.set_num_threads(count)
