"""Executor of chains on the CPU.

A chain is one program of the compiled library if the library has all of its loops
(cpu/programs.py; with reductions, cpu/rows.py). Otherwise it runs in stages over whole operands:
programs of as many operators as possible, and operators alone.
"""

from __future__ import annotations

from . import programs, rows
from ..chain import Chain
from ..running import Run, Stage, in_stages


def prepare(chain: Chain) -> Run:
    """Return a function that runs the chain. See Note [An executor]."""
    return in_stages(chain, stages(chain))


def stages(chain: Chain) -> list[Stage]:
    made = rows.program(chain) if chain.is_reduced else None
    return programs.stages(chain) if made is None else [made]
