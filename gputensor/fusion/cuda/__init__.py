"""Executor of chains on CUDA: one kernel of the operators' own functors. Operators over rows are in
cuda/reductions.py, readers of their results in cuda/rows.py and cuda/epilogue.py.

These modules choose functors and scalars; kernels/cuda/chain_source.py and rows_source.py write the
source, and `*chain_launch.py` launch it.
"""

from __future__ import annotations

from ...kernels.cuda.chain_source import functor
from . import epilogue as cuda_epilogue
from . import rows as cuda_rows
from ..chain import Chain
from .body import Run, Written, launched, plan_of, written
from .reductions import Reduced
from ..epilogue import parted

__all__ = ["plan_of", "prepare", "source", "written"]


def prepare(chain: Chain) -> Run | None:
    """Return a function that launches a chain. Return None if an operator has no functor or has a
    user's kernel, or if one kernel cannot take all operands. See Note [An executor]."""
    if not chain.is_reduced:
        return launched(chain)
    if chain.drawn:
        return None  # `drawn.first` draws its random numbers before the launch
    head, tails = parted(chain)
    reads = cuda_rows.reads_its_rows(head)
    rows: Run | None = None
    if reads or cuda_rows.computes_its_softmax(head):
        found = cuda_rows.Rows(head)
        rows = None if found.launch is None else found.run
    if reads and rows is None:
        return None
    if tails:
        return cuda_epilogue.prepared(chain, head, tails, rows)
    return rows or Reduced(head).prepared()


def source(chain: Chain) -> str | None:
    """The source of a chain's functors; None if the operators run one by one."""
    if not chain.is_reduced:
        body = Written(chain).body
        return None if body is None else functor(body)
    if chain.drawn:
        return None
    head, tails = parted(chain)
    apart = [x.chain for x in tails]
    found: list[str] = []
    if cuda_rows.reads_its_rows(head) or cuda_rows.computes_its_softmax(head):
        found = [x for x in [cuda_rows.Rows(head).source()] if x is not None]
    if not found:
        reduced = Reduced(head, tails, chain.stores)
        found = reduced.sources()
        apart = [x.chain for x in tails if x not in reduced.tails.values()]
    found += [functor(body) for x in apart if (body := Written(x).body) is not None]
    return "\n".join(found) or None
