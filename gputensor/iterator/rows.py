"""Iteration along one dimension: rows of `n` elements with any strides, for softmax and similar
operators.

`stub.bind` receives a `Rows` object as the plan.
"""

from __future__ import annotations

from typing import Any

from ..core.geometry import Geometry
from .coalesce import coalesce
from .order import dimension_order


class Rows:
    """The plan for a stub: operands of equal sizes, iterated along one dimension.

    shape: (elements of a row, *other dimensions). The other dimensions are coalesced, fastest
    first. stride_bytes, dtypes: one entry for each operand, outputs first.
    """

    __slots__ = (
        "op", "shape", "stride_bytes", "dtypes", "common_dtype", "numel", "n_outputs", "n_reduced",
    )  # fmt: skip
    op: str
    common_dtype: Any
    numel: int
    n_outputs: int
    n_reduced: int

    def __init__(self, op: str, operands: tuple[Geometry, ...], dim: int, compute: Any) -> None:
        self.op, self.common_dtype = op, compute
        sizes = operands[0].sizes or (1,)
        walks = [g.stride_bytes or (g.dtype.itemsize,) for g in operands]
        others = [d for d in range(len(sizes)) if d != dim]
        outer = tuple([sizes[d] for d in others])
        strides = [tuple([walk[d] for d in others]) for walk in walks]
        shape, strides = coalesce(outer, strides, dimension_order(outer, strides))
        self.shape = (sizes[dim], *shape)
        self.stride_bytes = tuple([(walk[dim], *s) for walk, s in zip(walks, strides)])
        self.dtypes = tuple([g.dtype for g in operands])
        self.numel, self.n_outputs, self.n_reduced = operands[0].numel, 1, 1
