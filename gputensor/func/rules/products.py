"""Batch rules of matrix products. Each is a `matmul` of stacks of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._generated import functions
from ..levels import batched, held
from ..operators import Entry


def product(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of matrix products (`mm`, `bmm`), of matrix products with an added tensor
    (`addmm`, `baddbmm`) and of vector products (`dot`, `vdot`). For vector products, the argument
    is "vectors"."""
    left, right = (args[n] for n in entry.places[-2:])
    a, b = (held(level, x) for x in (left, right))
    if argument:
        a, b = a.unsqueeze(-2), b.unsqueeze(-1)
        a = a.conj() if "vdot" in entry.operator.name else a
    made = functions.matmul(a, b)
    made = made.squeeze((-2, -1)) if argument else made
    result = batched(level, made) if level.owns(left) or level.owns(right) else made
    if "beta" not in entry.names:
        return result
    beta, alpha = (args[entry.names[name]] for name in ("beta", "alpha"))
    result = result if alpha == 1 else result * alpha
    if beta == 0:  # self is ignored, even if it contains NaN
        return result
    return result + (args[0] if beta == 1 else args[0] * beta)
