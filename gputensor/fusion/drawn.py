"""Chains whose random numbers are drawn before the chain runs, for executors that cannot draw
within it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from .chain import Chain


def without(chain: Chain) -> Chain | None:
    """Return the chain with its random numbers as further inputs, or None if it consists only of
    random numbers."""
    count, drawn = len(chain.inputs), chain.drawn
    others = [n for n in range(count, count + len(chain.instructions)) if n not in drawn]
    stores = [n for n in chain.stores if n not in drawn]
    return chain.cut([*range(count), *drawn], others, stores, chain.walk) if stores else None


def first(
    chain: Chain, rest: Callable[..., object] | None, inputs: list[Tensor], outputs: list[Tensor],
    scalars: list[Any],
) -> None:  # fmt: skip
    """Draw the numbers, then call `rest`, which runs the chain that `without` returned."""
    count, given = len(chain.inputs), list(inputs)
    for n in chain.drawn:
        step = chain.instructions[n - count]
        places = [place for place, x in enumerate(chain.stores) if x == n]
        out = outputs[places[0]] if places else allocate(step.what.seen, chain.device)
        step.what.entry.write(out, scalars[~step.params[0]])
        for place in places[1:]:
            outputs[place].copy_(out)
        given.append(out)
    if rest is not None:
        rest(given, [x for x, n in zip(outputs, chain.stores) if n not in chain.drawn], scalars)
