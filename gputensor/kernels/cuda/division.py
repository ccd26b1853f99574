"""Division by a constant that is known before a launch: magic numbers for `quotient_of` in
strided.cuh.

Source: Granlund and Montgomery, Division by invariant integers using multiplication (PLDI 1994),
with the round-up multiplier of N + 1 bits. The sum fits 32 bits, because dividends are below 2^31.
"""

from __future__ import annotations

from functools import lru_cache


def magic(divisor: int) -> tuple[int, int]:
    """Return (multiplier, shift) such that n // divisor == (((n * multiplier) >> 32) + n) >> shift
    for every n in [0, 2^31). divisor is in [1, 2^31)."""
    shift = (divisor - 1).bit_length()
    return ((1 << 32) * ((1 << shift) - divisor)) // divisor + 1, shift


@lru_cache(1 << 14)
def divider(divisor: int) -> tuple[int, int, int, int]:
    """Return the fields of the struct `divider` in strided.cuh."""
    return (divisor, *magic(divisor), 0)
