"""Batch rules of matrix products. Each is a `matmul` of stacks of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._generated import functions
from ..levels import batched, held
from ..operators import Entry
from .composed import plus


def product(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of `mm`, `bmm`, `mv`, `dot` and `vdot`, and of `addmm`, `baddbmm` and `addmv`,
    which also add a tensor.

    argument: the numbers of dimensions of both factors, such as "2 1" for a matrix and a vector; by
    default "2 2".
    """
    ranks = [int(n) for n in (argument or "2 2").split()]
    added = "beta" in entry.names
    left, right = (args[n] for n in entry.places[-2:])
    a, b = (held(level, x) for x in (left, right))
    if "vdot" in entry.operator.name:
        a = a.conj()
    a = a.unsqueeze(-2) if ranks[0] == 1 else a
    b = b.unsqueeze(-1) if ranks[1] == 1 else b
    made = functions.matmul(a, b)
    made = made.squeeze(-1) if ranks[1] == 1 else made
    made = made.squeeze(-1) if ranks[0] == 1 else made
    result = batched(level, made) if level.owns(left) or level.owns(right) else made
    if not added:
        return result
    return plus(args[0], result, *[args[entry.names[name]] for name in ("beta", "alpha")])
