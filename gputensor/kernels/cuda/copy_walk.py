"""Normalise a copy to a few strided dimensions, before a kernel is chosen. The computation is pure
integer arithmetic.

Dimensions of size 1 are removed. Dimensions with negative dst strides are reversed on both sides.
Dimensions are sorted by dst's strides and merged if both sides allow it. Runs that both sides share
become wider elements. Copies of 2^31 elements or more are split. This module does not depend on the
kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

WIDEST = 16


class Walk:
    """A normalised copy. Dimension 0 is dst's fastest. Strides are in bytes, and dst's are not
    negative.

    channel: the strides of a third operand, which contains each element's channel; None without
    channels. dst_bytes, src_bytes: the bytes of an element. is_cast: the copy changes the elements'
    type or scales them. dst_offset, src_offset: the first element's offset from the operand's
    pointer. first_channel: its channel. dst_low, src_low: its addresses modulo 16.
    """

    __slots__ = (
        "sizes", "dst", "src", "channel", "dst_bytes", "src_bytes", "is_cast", "dst_offset",
        "src_offset", "first_channel", "dst_low", "src_low",
    )  # fmt: skip

    sizes: list[int]
    dst: list[int]
    src: list[int]
    channel: list[int] | None
    dst_bytes: int
    src_bytes: int
    is_cast: bool
    dst_offset: int
    src_offset: int
    first_channel: int
    dst_low: int
    src_low: int

    @property
    def numel(self) -> int:
        result = 1
        for n in self.sizes:
            result *= n
        return result

    @property
    def item(self) -> int:
        """The bytes of the wider element."""
        return max(self.dst_bytes, self.src_bytes)

    @property
    def nbytes(self) -> int:
        """The bytes of both sides together."""
        return self.numel * (self.dst_bytes + self.src_bytes)

    def __repr__(self) -> str:
        dst, src = f"{self.dst} of {self.dst_bytes} B", f"{self.src} of {self.src_bytes} B"
        return f"Walk({self.sizes}, dst={dst}, src={src})"


def normalise(layout: Any, dst_low: int = 0, src_low: int = 0, *, widens: bool = True) -> Walk:
    """Return the walk of a layout (see binding.py). dst_low, src_low: the addresses modulo 16.
    stride_bytes[2], if present, is the stride of an f32 table with one entry per channel."""
    dst, src = layout.stride_bytes[:2]
    channel = layout.stride_bytes[2] if len(layout.stride_bytes) > 2 else None
    steps = [0] * len(dst) if channel is None else [s // 4 for s in channel]
    to, of = layout.dtypes[:2]
    walk = Walk()
    walk.dst_bytes, walk.src_bytes = to.itemsize, of.itemsize
    walk.is_cast = to is not of or channel is not None
    walk.dst_offset = walk.src_offset = walk.first_channel = 0
    dims = []
    for n, d, s, c in zip(layout.shape, dst, src, steps):
        if n == 1:
            continue
        if d < 0:
            walk.dst_offset += (n - 1) * d
            walk.src_offset += (n - 1) * s
            walk.first_channel += (n - 1) * c
            d, s, c = -d, -s, -c
        dims.append((d, abs(s), s, c, n))
    dims.sort()
    merged: list[list[int]] = []
    for d, _, s, c, n in dims:
        last = merged[-1] if merged else None
        if last and d == last[0] * last[3] and s == last[1] * last[3] and c == last[2] * last[3]:
            last[3] *= n
        else:
            merged.append([d, s, c, n])
    walk.sizes = [m[3] for m in merged]
    walk.dst, walk.src = [m[0] for m in merged], [m[1] for m in merged]
    walk.channel = None if channel is None else [m[2] for m in merged]
    walk.dst_low = (dst_low + walk.dst_offset) & 15
    walk.src_low = (src_low + walk.src_offset) & 15
    if widens:
        _widen(walk)
    return walk


def _widen(walk: Walk) -> None:
    """Merge pairs of neighbouring elements into wider elements as long as both sides allow it.
    Remove a dimension whose size becomes 1."""
    while not walk.is_cast and walk.sizes and walk.dst_bytes < WIDEST:
        size = walk.dst_bytes
        bits = walk.dst_low | walk.src_low
        for k in range(1, len(walk.sizes)):
            bits |= walk.dst[k] | walk.src[k]
        if walk.dst[0] != size or walk.src[0] != size or walk.sizes[0] % 2 or bits % (2 * size):
            return
        walk.dst_bytes = walk.src_bytes = walk.dst[0] = walk.src[0] = 2 * size
        walk.sizes[0] //= 2
        if walk.sizes[0] == 1:
            del walk.sizes[0], walk.dst[0], walk.src[0]
            if walk.channel is not None:
                del walk.channel[0]


def pieces(walk: Walk, limit: int) -> Iterator[Walk]:
    """Cut the walk along its outermost dimensions into walks of at most `limit` elements."""
    if walk.numel <= limit:
        yield walk
        return
    inner = walk.numel // walk.sizes[-1]
    step = max(1, limit // inner)
    for at in range(0, walk.sizes[-1], step):
        part = Walk()
        for name in Walk.__slots__:
            value = getattr(walk, name)
            setattr(part, name, list(value) if type(value) is list else value)
        d, s = at * walk.dst[-1], at * walk.src[-1]
        part.dst_offset, part.src_offset = walk.dst_offset + d, walk.src_offset + s
        part.dst_low, part.src_low = (walk.dst_low + d) & 15, (walk.src_low + s) & 15
        part.sizes[-1] = min(step, walk.sizes[-1] - at)
        if walk.channel is not None:
            part.first_channel += at * walk.channel[-1]
        if part.sizes[-1] == 1:
            del part.sizes[-1], part.dst[-1], part.src[-1]
            if part.channel is not None:
                del part.channel[-1]
        yield from pieces(part, limit)


def access_bytes(low: int, strides: Sequence[int]) -> int:
    """Return how many bytes one access can have at an address and at all addresses that the strides
    reach from it. The number is at most 16."""
    bits = low | WIDEST
    for stride in strides:
        bits |= stride
    return bits & -bits


# --- memory traffic -------------------------------------------------------------------------------


class Traffic:
    """The bytes that a copy requests, and the bytes of the memory sectors that it touches: sectors
    that it reads, sectors that it writes, and sectors that memory reads because the copy writes
    only a part of them.
    """

    __slots__ = ("read", "written", "read_sectors", "written_sectors", "filled_sectors")
    read_sectors: int
    written_sectors: int

    def __init__(self, walk: Walk, sector: int) -> None:
        unique = [n for n, s in zip(walk.sizes, walk.src) if s]
        count = 1
        for n in unique:
            count *= n
        self.read: int = count * walk.src_bytes
        self.written: int = walk.numel * walk.dst_bytes
        self.read_sectors, _ = _sectors(walk.sizes, walk.src, walk.src_bytes, walk.src_low, sector)
        dst = (walk.sizes, walk.dst, walk.dst_bytes, walk.dst_low)
        self.written_sectors, in_part = _sectors(*dst, sector)
        self.filled_sectors: int = in_part

    @property
    def useful_bytes(self) -> int:
        return self.read + self.written

    @property
    def sector_bytes(self) -> int:
        return self.read_sectors + self.written_sectors + self.filled_sectors


def _sectors(
    sizes: list[int], strides: list[int], itemsize: int, low: int, sector: int
) -> tuple[int, int]:
    """Return the bytes of the sectors that one side touches, and the bytes of sectors that it
    covers only partly."""
    dims = sorted((abs(s), n) for n, s in zip(sizes, strides) if s)
    span, covered, is_dense = itemsize, itemsize, True
    rest = 0
    for rest, (stride, n) in enumerate(dims):  # noqa: B007
        if stride - span >= sector:
            break
        is_dense = is_dense and stride <= span
        span, covered = (n - 1) * stride + span, covered * n
    else:
        rest = len(dims)
    runs = 1
    for _, n in dims[rest:]:
        runs *= n
    grain = access_bytes(low & (WIDEST - 1), [s for s, _ in dims[rest:]])
    if rest == len(dims):
        each = span + (sector - grain if low else 0)
        each = -(-each // sector) * sector
    elif grain >= WIDEST and all(s % sector == 0 for s, _ in dims[rest:]):
        each = -(-span // sector) * sector
    else:
        # This is the average over all offsets in a sector at which a run can begin.
        each = span + sector - grain
    if not is_dense:
        return runs * each, runs * each
    if rest == len(dims):
        return runs * each, 0
    return runs * each, runs * (each - span)
