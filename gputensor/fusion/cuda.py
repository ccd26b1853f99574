"""Chains on CUDA: one kernel, made of the functors of the operators' own kernels; what takes rows
is cuda_reductions.py's, and what reads their results cuda_rows.py's.

These name the operators' functors and the scalars that they take; kernels/cuda/chain_source.py and
rows_source.py write the text, and the `*chain_launch.py` beside them launch it.
"""

from __future__ import annotations

from ..kernels.cuda.chain_source import functor
from . import cuda_rows
from .chain import Chain
from .cuda_body import Run, Written, launched, plan_of, written
from .cuda_reductions import Reduced

__all__ = ["draws", "plan_of", "prepare", "source", "written"]


def prepare(chain: Chain) -> Run | None:
    """What launches a chain; None where an operator has no functor of its own, or a kernel of
    somebody else's, and where one kernel cannot take so many operands. See Note [An executor]."""
    if not chain.is_reduced:
        return launched(chain)
    reads = cuda_rows.reads_its_rows(chain)
    if reads or cuda_rows.computes_its_softmax(chain):
        rows = cuda_rows.Rows(chain)
        if rows.launch is not None:
            return rows.run
    return None if reads else Reduced(chain).prepared()


def draws(chain: Chain) -> bool:
    """Whether random numbers are drawn in the chain's kernel."""
    return prepare(chain) is not None


def source(chain: Chain) -> str | None:
    """The functors of a chain as they are compiled; None where `prepare` leaves it to the
    operators."""
    if cuda_rows.reads_its_rows(chain) or cuda_rows.computes_its_softmax(chain):
        found = cuda_rows.Rows(chain).source()
        if found is not None:
            return found
    if chain.is_reduced:
        return "\n".join(Reduced(chain).sources()) or None
    body = Written(chain).body
    return None if body is None else functor(body)
