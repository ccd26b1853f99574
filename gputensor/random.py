"""`gt.random`: the state of the default generators. Random operators that are called without
`generator=` use a default generator.

The operators themselves are `gt.rand`, `gt.randn`, `gt.randint`, `gt.normal` and others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core import lazy
from .structured.generator import (
    Generator as Generator, fork_rng as fork_rng, get_rng_state as get_rng_state,
    initial_seed as initial_seed, manual_seed as manual_seed, seed as seed,
    set_rng_state as set_rng_state,
)  # fmt: skip

__all__ = [
    "Generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed",
    "set_rng_state",
]  # fmt: skip


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
