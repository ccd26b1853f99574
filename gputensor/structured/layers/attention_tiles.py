"""Tiles of attention scores for attention that is composed of operators, and the random numbers of
dropout.

Tensors have four dimensions: samples, heads, rows and elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from ..._generated import calls
from ...core.dtype import bool_, dtype
from ...tensor.tensor import Tensor
from .precision import cast


class Dropout(NamedTuple):
    """The random numbers of a call with dropout. Number i determines whether weight i is kept.
    Weights are counted row-major over samples, heads, queries and keys, so the numbers do not
    depend on how a kernel divides the work. seed, block: the position of the first number in the
    random stream. p: the probability of dropping a weight."""

    seed: int
    block: int
    p: float

    @property
    def limit(self) -> int:
        """The bound for random numbers. Weight i is kept if the upper 53 bits of random number i
        are less than the bound."""
        return math.ceil(math.ldexp(1 - self.p, 53))

    @property
    def grown(self) -> float:
        """The factor by which kept weights are multiplied."""
        return 0.0 if self.p == 1 else 1 / (1 - self.p)


# The number of bytes of the scores in a tile. On the CPU, it is the size of the L2 caches of two
# cores. On a GPU, it is half of the L2 cache. With L2 caches of 1 MiB, tiles twice as large took
# 1.4 times as long for 4 samples of 8 heads of 256 x 64.
TILE_BYTES = {"cpu": 1 << 21, "cuda": 1 << 25}
# A product of fewer rows than this takes more time per row.
_LEAST_ROWS = 64


class Tile(NamedTuple):
    """A part of the attention scores. One tile is computed at a time. heads, queries, keys: (first,
    last + 1); the heads of all samples are numbered consecutively. mask: numbers to add to the
    scores, or bools that are True for the keys to attend to."""

    heads: tuple[int, int]
    queries: tuple[int, int]
    keys: tuple[int, int]
    mask: Tensor | None

    def of_queries(self, x: Tensor) -> Tensor:
        return _cut(x, self.heads, self.queries)

    def of_keys(self, x: Tensor) -> Tensor:
        return _cut(x, self.heads, self.keys)


def _cut(x: Tensor, heads: tuple[int, int], rows: tuple[int, int]) -> Tensor:
    return calls.slice_Tensor(calls.slice_Tensor(x, 0, *heads, 1), 1, *rows, 1)


def tiles(
    query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool, of: dtype
) -> Iterator[Tile]:
    """Yield the tiles of a query and a key (samples, heads, length, width), with scores of dtype
    `of`."""
    (samples, heads, length, _), seen = query._geometry.sizes, key._geometry.sizes[2]
    if not samples * heads * length * seen:
        return
    groups: list[tuple[int, int, Tensor | None]] = [(0, samples * heads, None)]
    if mask is not None:
        mask = calls.expand(cast_mask(mask, of), (samples, heads, length, seen), False)
        by_sample, by_head = mask._geometry.strides[:2]
        if samples == 1 or by_sample == heads * by_head:
            groups = [(0, samples * heads, calls.flatten_using_ints(mask, 0, 1))]
        # A tile over several samples would need a copy of the mask, so each tile has heads of one
        # sample only.
        else:
            groups = [(n * heads, heads, calls.select_int(mask, 0, n)) for n in range(samples)]
    fit = TILE_BYTES.get(query._device.type, TILE_BYTES["cuda"]) // (of.itemsize * seen)
    rows = max(1, min(length, fit))
    # Causal attention skips the keys after the last row of a tile. The fewer rows a tile has, the
    # more keys are skipped.
    if is_causal:
        rows = min(rows, max(_LEAST_ROWS, -(-length // 4)))
    for first, count, of_group in groups:
        # All tiles have about the same size.
        step = -(-count // -(-count // max(1, fit // rows)))
        for head, row in product(range(0, count, step), range(0, length, rows)):
            h, r = (head, min(count, head + step)), (row, min(length, row + rows))
            k = (0, min(seen, r[1]) if is_causal else seen)
            part = None if of_group is None else _cut(of_group, h, r)
            part = None if part is None else calls.slice_Tensor(part, 2, *k, 1)
            yield Tile((first + h[0], first + h[1]), r, k, part)


def cast_mask(mask: Tensor, of: dtype) -> Tensor:
    return mask if mask._geometry.dtype is bool_ else cast(mask, of)
