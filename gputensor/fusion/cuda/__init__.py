"""Chains on CUDA: one kernel, made of the functors of the operators' own kernels; what takes rows
is cuda/reductions.py's, what reads their results cuda/rows.py's, and what follows on them
cuda/epilogue.py's.

These name the operators' functors and the scalars that they take; kernels/cuda/chain_source.py and
rows_source.py write the text, and the `*chain_launch.py` beside them launch it.
"""

from __future__ import annotations

from ...kernels.cuda.chain_source import functor
from . import epilogue as cuda_epilogue
from . import rows as cuda_rows
from ..chain import Chain
from .body import Run, Written, launched, plan_of, written
from .reductions import Reduced
from ..epilogue import parted

__all__ = ["draws", "plan_of", "prepare", "source", "written"]


def prepare(chain: Chain) -> Run | None:
    """What launches a chain; None where an operator has no functor of its own, or a kernel of
    somebody else's, and where one kernel cannot take so many operands. See Note [An executor]."""
    if not chain.is_reduced:
        return launched(chain)
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


def draws(chain: Chain) -> bool:
    """Whether random numbers are drawn in the chain's kernel."""
    return prepare(chain) is not None


def source(chain: Chain) -> str | None:
    """The functors of a chain as they are compiled; None where `prepare` leaves it to the
    operators."""
    if not chain.is_reduced:
        body = Written(chain).body
        return None if body is None else functor(body)
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
