"""Executor of chains on CUDA: one kernel of the operators' own functors. Operators over rows are in
cuda/reductions.py, readers of their results in cuda/rows.py.

These modules choose functors and scalars; kernels/cuda/chain_source.py and rows_source.py write the
source, and `*chain_launch.py` launch it.
"""

from __future__ import annotations

from ...kernels.cuda.chain_source import functor
from . import rows
from .. import running
from ..chain import Chain
from ..epilogue import parted
from ..stages import Run, Stage, in_stages
from .body import Written, launched, plan_of
from .reductions import Reduced

__all__ = ["plan_of", "prepare", "source"]


def prepare(chain: Chain) -> Run | None:
    """Return a function that launches a chain. Return None if an operator has no functor or has a
    user's kernel, or if one kernel cannot take all operands. See Note [An executor]."""
    if not chain.is_reduced:
        return launched(chain)
    if chain.drawn:
        return None  # `drawn.first` draws its random numbers before the launch
    head, tails = parted(chain)
    reads, found = rows.reads_its_rows(head), _rows(head)
    if found is not None and found.launch is not None:
        stages: list[Stage] | None = found.stages()
    elif reads:
        return None
    else:
        reduced = Reduced(head, tails, chain.stores)
        stages = reduced.stages()
        tails = [x for x in tails if x not in reduced.tails.values()]
    if stages is None:
        return None
    stages += [Stage(x.takes, x.stores, running.prepared(x.chain)) for x in tails]
    return in_stages(chain, stages)


def _rows(head: Chain) -> rows.Rows | None:
    """The program of a chain that reads its rows again; None for other chains."""
    is_one = rows.reads_its_rows(head) or rows.computes_its_softmax(head)
    return rows.Rows(head) if is_one else None


def source(chain: Chain) -> str | None:
    """The source of a chain's functors; None if the operators run one by one."""
    if not chain.is_reduced:
        body = Written(chain).body
        return None if body is None else functor(body)
    if chain.drawn:
        return None
    head, tails = parted(chain)
    of_rows = _rows(head)
    text = None if of_rows is None else of_rows.source()
    found = [] if text is None else [text]
    if text is None:
        reduced = Reduced(head, tails, chain.stores)
        found = reduced.sources()
        tails = [x for x in tails if x not in reduced.tails.values()]
    found += [functor(body) for x in tails if (body := Written(x.chain).body) is not None]
    return "\n".join(found) or None
