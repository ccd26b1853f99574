"""Executor of chains on CUDA. A chain is one kernel that calls the operators' own functors.
Operators over rows are in cuda/reductions.py. Chains that read the results of these operators are
in cuda/rows.py.

These modules choose functors and scalars; kernels/cuda/chain_source.py and rows_source.py write the
source, and `*chain_launch.py` launch it.
"""

from __future__ import annotations

from ...kernels.cuda.chain_source import functor
from .. import running
from ..chain import Chain
from ..epilogue import Tail, parted
from ..running import Run, Stage, in_stages
from .body import Written, launched
from .reductions import Reduced
from .rows import Rows, computes_its_softmax, reads_its_rows


def prepare(chain: Chain) -> Run | None:
    """Return a function that launches a chain. Return None if an operator has no functor or has a
    user's kernel, or if one kernel cannot take all operands. See Note [An executor]."""
    if not chain.is_reduced:
        return launched(chain)
    if chain.drawn:
        return None  # running.py first draws the random numbers
    kernel, tails = _kernel(chain)
    stages = None if kernel is None else kernel.stages()
    if stages is None:
        return None
    stages += [Stage(x.takes, x.stores, running.prepared(x.chain)) for x in tails]
    return in_stages(chain, stages)


def _kernel(chain: Chain) -> tuple[Rows | Reduced | None, list[Tail]]:
    """Return the kernels of the chain's head, and the tails that run after these kernels. The
    kernels are None if the head reads results of its own reductions and no single kernel can
    compute the head."""
    head, tails = parted(chain)
    reads = reads_its_rows(head)
    if reads or computes_its_softmax(head):
        found = Rows(head)
        if found.launch is not None or reads:
            return found if found.launch is not None else None, tails
    reduced = Reduced(head, tails, chain.stores)
    return reduced, [x for x in tails if x not in reduced.tails.values()]


def source(chain: Chain) -> str | None:
    """Return the source of a chain's functors, or None if the operators run one by one."""
    if not chain.is_reduced:
        body = Written(chain).body
        return None if body is None else functor(body)
    if chain.drawn:
        return None
    kernel, tails = _kernel(chain)
    found = [] if kernel is None else kernel.sources()
    found += [functor(body) for x in tails if (body := Written(x.chain).body) is not None]
    return "\n".join(found) or None
