"""Poisson and binomial samples by the compiled loops: see kernels/cpu/counts.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from ...core.number_range import signed_word
from .library import function

Arrays = Sequence[np.ndarray]


@cache
def loops(op: str) -> tuple[Callable[..., None], Callable[..., None]] | None:
    small, large = function("counts", f"{op} small"), function("counts", f"{op} large")
    if small is None or large is None:
        return None

    def by_counting(
        out: np.ndarray, places: np.ndarray, params: Arrays, most: int, seed: int, counter: int
    ) -> None:
        small(out, places, *params, most, signed_word(seed), signed_word(counter))

    def by_rejection(
        out: np.ndarray, accepted: np.ndarray, places: np.ndarray, params: Arrays, seed: int,
        first: int, second: int,
    ) -> None:  # fmt: skip
        counters = signed_word(first), signed_word(second)
        large(out, accepted, places, *params, signed_word(seed), *counters)

    return by_counting, by_rejection
