"""Generation of random numbers by the compiled loops: see kernels/cpu/random.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dtype import of_ours
from ...core.number_range import signed_word
from ..cpu import random as numpys
from .library import function


def uniform(dst: np.ndarray, seed: int, offset: int, low: float = 0.0, high: float = 1.0) -> None:
    _fill("uniform", dst, seed, offset, float(low), float(high))


def standard(op: str, of: np.dtype) -> Callable[[np.ndarray, int, int], None]:
    found, otherwise = function("random", f"{op} {of_ours(of).short}"), numpys.standard(op, of)
    if found is None:
        return otherwise

    def fill(dst: np.ndarray, seed: int, offset: int) -> None:
        if offset > _LAST:
            otherwise(dst, seed, offset)
        else:
            found(dst, signed_word(seed), offset, 0.0, 1.0)

    return fill


def normal(dst: np.ndarray, seed: int, offset: int, mean: float, std: float) -> None:
    _fill("normal", dst, seed, offset, float(mean), float(std))


def log_normal(dst: np.ndarray, seed: int, offset: int, mean: float, std: float) -> None:
    _fill("log_normal", dst, seed, offset, float(mean), float(std))


def exponential(dst: np.ndarray, seed: int, offset: int, rate: float, _: float) -> None:
    _fill("exponential", dst, seed, offset, float(rate), 0.0)


def cauchy(dst: np.ndarray, seed: int, offset: int, median: float, sigma: float) -> None:
    _fill("cauchy", dst, seed, offset, float(median), float(sigma))


def geometric(dst: np.ndarray, seed: int, offset: int, p: float, _: float) -> None:
    _fill("geometric", dst, seed, offset, float(p), 0.0)


def bernoulli(dst: np.ndarray, seed: int, offset: int, limit: int, _: int) -> None:
    _fill("bernoulli", dst, seed, offset, limit, 0)


def integers(dst: np.ndarray, seed: int, offset: int, first: int, count: int) -> None:
    _fill("integers", dst, seed, offset, first, count)


def permutation(out: np.ndarray, seed: int, offset: int) -> None:
    found = function("random", "permutation")
    n = out.size
    if found is None or n >= 1 << 32 or offset > _LAST:
        numpys.permutation(out, seed, offset)
        return
    counts = np.empty(_COUNTS if n > _IN_BUCKET else 0, np.uint32)
    found(out, np.empty(2 * n + 8, np.uint64), counts, signed_word(seed), offset)


# _COUNTS is PARTS * MOST_BUCKETS of loops/permutation.h.
_COUNTS, _IN_BUCKET = 16 << 12, 1 << 11
_LAST = (1 << 63) - 1


def _fill(op: str, dst: np.ndarray, seed: int, offset: int, *numbers: Any) -> None:
    of = dst.real.dtype if dst.dtype.kind == "c" else dst.dtype
    found = function("random", f"{op} {of_ours(of).short}")
    if found is None or offset > _LAST or not dst.flags.writeable:
        getattr(numpys, op)(dst, seed, offset, *numbers)
    elif dst.flags.c_contiguous:
        given = [n if type(n) is float else signed_word(n) for n in numbers]
        real = dst if of is dst.dtype else dst.reshape(-1).view(of)
        found(real, signed_word(seed), offset, *given)
    else:
        dense = np.empty(dst.shape, dst.dtype)
        _fill(op, dense, seed, offset, *numbers)
        np.copyto(dst, dense)
