"""Samples of the Poisson and binomial distributions.                                 family: counts

Types    f64.
Order    as in native/counts.py. Element i of `places` uses the uniform number that `rand` would
         give to element i.
"""

from __future__ import annotations

from collections.abc import Callable


def loops(op: str) -> tuple[Callable[..., None], Callable[..., None]] | None:
    """Return None: the caller must use operators. The compiled function of this name returns the
    functions for means below 10 and for other means:

    by_counting(out, places, params, most, seed, counter) writes a sample to out[place] for each
    place; all samples are less than `most`. by_rejection(out, accepted, places, params, seed,
    first, second) proposes a sample for each place, and writes True to `accepted` and the sample to
    `out` if it accepts the proposal. first, second: the counters of its two uniform numbers.
    """
    return None
