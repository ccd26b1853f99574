"""Random sizes and strides that views can have, without tensors, for any test."""

from __future__ import annotations

import random

Sizes = tuple[int, ...]


def random_sizes(rng: random.Random, max_ndim: int = 5) -> Sizes:
    """Return sizes of 0 to `max_ndim` dimensions, with many of size 1 and a few of size 0."""
    return tuple(
        rng.choice((1, 1, 2, 2, 3, 4, 5)) if rng.random() > 0.04 else 0
        for _ in range(rng.randint(0, max_ndim))
    )


def random_strides(rng: random.Random, sizes: Sizes) -> Sizes:
    """Return strides of a permuted, stepped, padded, expanded or channels-last view, or of
    as_strided."""
    kind = rng.random()
    if kind < 0.08:
        return tuple(rng.randint(0, 7) for _ in sizes)
    order = list(range(len(sizes)))[::-1]
    if kind < 0.5:
        rng.shuffle(order)
    elif kind < 0.65 and len(sizes) >= 3:
        order = [1, *range(len(sizes) - 1, 1, -1), 0]
    strides = [0] * len(sizes)
    running = 1
    for dim in order:
        odd = rng.random()
        step = rng.choice((2, 3)) if odd < 0.08 else 1
        padding = rng.choice((1, 2)) if 0.08 < odd < 0.16 else 0
        strides[dim] = running * step
        running *= max(sizes[dim], 1) * step + padding
        if 0.16 < odd < 0.24:
            strides[dim] = 0
        if sizes[dim] == 1 and odd > 0.9:
            strides[dim] = rng.randint(0, 40)
    return tuple(strides)


def random_layout(rng: random.Random, max_ndim: int = 5) -> tuple[Sizes, Sizes]:
    sizes = random_sizes(rng, max_ndim)
    return sizes, random_strides(rng, sizes)


def random_broadcastable(rng: random.Random, shape: Sizes) -> tuple[Sizes, Sizes]:
    """Return a layout that broadcasts to `shape`: with fewer dimensions, and some of size 1."""
    drop = rng.choice((0, 0, 0, 1, 2)) if shape else 0
    sizes = tuple(1 if rng.random() < 0.15 else s for s in shape[drop:])
    return sizes, random_strides(rng, sizes)


def extent(sizes: Sizes, strides: Sizes) -> int:
    """Return the number of elements that a layout's storage needs."""
    return 1 + sum((max(n, 1) - 1) * s for n, s in zip(sizes, strides))
