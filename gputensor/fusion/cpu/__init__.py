"""Executor of chains on the CPU.

A chain is one program of the compiled library if the library has all of its loops
(cpu/programs.py; with reductions, cpu/rows.py). Otherwise it runs in stages over whole operands:
programs of as many operators as possible, and operators alone.
"""

from __future__ import annotations

from . import programs
from . import rows
from ..chain import Chain
from ..stages import Run, in_stages


def prepare(chain: Chain) -> Run:
    """See Note [An executor]."""
    made, count = program(chain), len(chain.inputs)
    if made is None:
        return in_stages(chain, programs.stages(chain))
    return in_stages(chain, [made.stage(range(count, count + len(chain.instructions)))])


def program(chain: Chain) -> programs.Program | None:
    """Return the program that runs a whole chain, or None if the chain runs in another way."""
    return rows.program(chain) if chain.is_reduced else programs.whole(chain)
