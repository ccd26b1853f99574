"""Choose the kernel for a pointwise operator over a large layout. The computation is pure
arithmetic.

Note [Operand kinds] in include/pointwise/operands.cuh defines the kinds. Three sorts of layouts use
the strided entries, because no kernel here suits them: an `out` without a dense dimension, rows of
a few bytes, and small layouts, whose time is the launch. The thresholds are estimates that were not
measured on a GPU; all of them are at the top of this file.
"""

from __future__ import annotations

from dataclasses import dataclass

from .launch import THREADS, blocks_for, product

# If the largest operand has fewer bytes, the strided entry runs, because it is already compiled.
SMALL_BYTES = 64 << 10
# FLIGHT_BYTES: the bytes that a thread loads at the same time. MAX_UNROLL: the maximum number of
# units per thread. 1024 threads thus load 64 KiB per multiprocessor, several times the bytes in
# flight that any GPU's memory needs (copy_score.bytes_in_flight).
FLIGHT_BYTES, MAX_UNROLL = 64, 8
# The minimum length of a row of `out` in bytes: one sector.
ROW_BYTES = 32
# Tiles are used if both dimensions have at least TURNED_SIDE_BYTES, if the largest operand has at
# least TURNED_BYTES, and if at least the share TURNED_USED of the tiles' area contains elements.
TURNED_SIDE_BYTES, TURNED_BYTES, TURNED_USED = 64, 256 << 10, 0.5
# A row is divided into pieces, one per block, if at least this share of the blocks' threads has
# work.
PIECE_USED = 0.85
MAX_OUTER_DIMS = 6
ACCESS_BYTES = 16
# The side of a tile in squares, and the shared memory that a kernel may declare on every GPU.
SQUARES, MAX_SHARED_BYTES = 16, 48 << 10

RUNS, STAYS, STEPS, TURNS, GIVEN = "RUNS", "STAYS", "STEPS", "TURNS", "GIVEN"

Strides = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Walk:
    """The input of a plan. shape: index 0 is the fastest. For each operand, outputs first: its
    stride bytes (None for a number), the bytes of an element, and its address modulo 16."""

    shape: Strides
    strides: list[Strides | None]
    itemsizes: list[int]
    lows: list[int]
    outputs: int = 1

    @property
    def widest(self) -> int:
        """The bytes of the largest element, among operands that change along a row."""
        moving = zip(self.strides, self.itemsizes)
        return max(size for strides, size in moving if strides is not None and strides[0])

    @property
    def bytes(self) -> int:
        """The bytes of the largest operand."""
        return product(self.shape) * self.widest


class Rows:
    """A launch of rows.cuh. across: the dimension along which a thread goes from one row to the
    next, or None."""

    __slots__ = ("kinds", "widths", "held", "unit", "unroll", "across", "threads", "blocks")
    layout, outer_dims = "ROWS", MAX_OUTER_DIMS

    @property
    def along(self) -> int:
        return int(self.across is None)

    def __init__(self, walk: Walk, unit: int, across: int | None) -> None:
        self.kinds: list[str] = [_kind(s, size) for s, size in zip(walk.strides, walk.itemsizes)]
        self.unit, self.across = unit, across
        kinds = enumerate(self.kinds)
        self.widths: list[int] = [_width(walk, j, unit) if kind == RUNS else 1 for j, kind in kinds]
        self.held: int = _held(walk, across)
        self.unroll = unroll_for(walk, unit, self.held)
        per_row = blocks_for(walk.shape[0], unit)
        if across is None:
            pieces = blocks_for(per_row, THREADS * self.unroll)
            self.blocks = pieces * product(walk.shape[1:])
            self.threads = self.blocks * THREADS
        else:
            self.unroll = _used_most(walk.shape[across], self.unroll)
            rows = blocks_for(walk.shape[across], self.unroll)
            outer = product(walk.shape[1:]) // walk.shape[across]
            self.threads = per_row * rows * outer
            self.blocks = blocks_for(self.threads, THREADS)


class Turned:
    """A launch of turned.cuh. y: the dimension in which the staged operands are dense."""

    __slots__ = ("kinds", "widths", "unit", "y", "blocks")
    layout, outer_dims, held, unroll, along = "TURNED", MAX_OUTER_DIMS, 0, 1, 0

    def __init__(self, walk: Walk, y: int, unit: int) -> None:
        self.y, self.unit = y, unit
        self.kinds, self.widths = [], []
        for j, (strides, size) in enumerate(zip(walk.strides, walk.itemsizes)):
            kind = _kind(strides, size)
            if kind == STEPS and strides is not None and strides[y] == size:
                kind = TURNS
            self.kinds.append(kind)
            along = y if kind == TURNS else 0
            self.widths.append(_width(walk, j, unit, along) if kind in (RUNS, TURNS) else 1)
        side = SQUARES * unit
        outer = product(walk.shape[1:]) // walk.shape[y]
        self.blocks: int = blocks_for(walk.shape[0], side) * blocks_for(walk.shape[y], side) * outer

    @property
    def staged(self) -> int:
        return self.kinds.count(TURNS)


Plan = Rows | Turned


def choose(walk: Walk, may_turn: bool = True) -> Plan | None:
    """Return the kernel for a walk; None means the strided entry."""
    for out, size in zip(walk.strides[: walk.outputs], walk.itemsizes):
        assert out is not None, "out is a tensor"
        if out[0] != size or walk.shape[0] * size < ROW_BYTES:
            return None
    if walk.bytes < SMALL_BYTES or len(walk.shape) > MAX_OUTER_DIMS + 1:
        return None
    return (turned(walk) if may_turn else None) or rows(walk)


def rows(walk: Walk) -> Rows:
    """Return a launch with rows along dimension 0. The function does not check that this launch is
    faster than the strided entry."""
    unit = ACCESS_BYTES // walk.widest
    while unit > 1 and walk.shape[0] < 4 * unit:
        unit //= 2
    if len(walk.shape) == 1:
        return Rows(walk, unit, None)
    kinds = [_kind(s, size) for s, size in zip(walk.strides, walk.itemsizes)]
    # For each outer dimension: the bytes of the loads that repeat along it. If loads repeat, a
    # thread goes from row to row along the dimension in which most bytes repeat. Otherwise the
    # thread may stay in one row.
    held = [
        sum(size for s, size, kind in list(zip(walk.strides, walk.itemsizes, kinds))[walk.outputs :]
            if kind in (RUNS, STEPS) and s is not None and s[d] == 0)
        for d in range(1, len(walk.shape))
    ]  # fmt: skip
    if not any(held):
        per_row = blocks_for(walk.shape[0], unit)
        piece = THREADS * unroll_for(walk, unit, 0)
        if per_row >= PIECE_USED * blocks_for(per_row, piece) * piece:
            return Rows(walk, unit, None)
    best = max(range(len(held)), key=lambda d: (held[d], min(walk.shape[d + 1], MAX_UNROLL), -d))
    return Rows(walk, unit, best + 1)


def turned(walk: Walk) -> Turned | None:
    """Return a launch with tiles over dimension 0 and a second dimension, or None if tiles are
    unsuitable. The second dimension is the dense dimension of most inputs that are strided along
    dimension 0."""
    if walk.bytes < TURNED_BYTES:
        return None
    gain = [0] * len(walk.shape)
    for strides, size in list(zip(walk.strides, walk.itemsizes))[walk.outputs :]:
        if strides is not None and _kind(strides, size) == STEPS:
            for d in range(1, len(walk.shape)):
                if strides[d] == size and walk.shape[d] > 1:
                    gain[d] += size
                    break
    y = max(range(len(gain)), key=gain.__getitem__)
    if not gain[y]:
        return None
    largest = walk.widest
    unit = min(ACCESS_BYTES // largest, 8)
    found = Turned(walk, y, unit)
    while found.staged * shared_bytes(found.unit) > MAX_SHARED_BYTES:
        if found.unit == 1:
            return None
        found = Turned(walk, y, found.unit // 2)
    used = 1.0
    for extent in (walk.shape[0], walk.shape[y]):
        if extent * largest < TURNED_SIDE_BYTES:
            return None
        side = SQUARES * found.unit
        used *= extent / (blocks_for(extent, side) * side)
    return found if used >= TURNED_USED else None


def shared_bytes(unit: int) -> int:
    """Return the bytes of shared memory for one staged operand."""
    return SQUARES * unit * SQUARES * ACCESS_BYTES


def unroll_for(walk: Walk, unit: int, held: int) -> int:
    """Return the number of units per thread: the power of two for which a thread loads about
    FLIGHT_BYTES."""
    loaded = 0
    for j, (strides, size) in enumerate(zip(walk.strides, walk.itemsizes)):
        if j >= walk.outputs and not held >> j & 1 and _kind(strides, size) in (RUNS, STEPS):
            loaded += unit * size
    loaded = loaded or unit * walk.itemsizes[0]
    unroll = 1
    while unroll < MAX_UNROLL and unroll * loaded < FLIGHT_BYTES:
        unroll *= 2
    return unroll


def _used_most(rows: int, most: int) -> int:
    """Return the number of rows per thread: the largest power of two, at most `most`, for which at
    least three quarters of the rows that the threads cover exist."""
    candidates = [1 << b for b in range(most.bit_length()) if 1 << b <= max(rows, 1)]
    return max(candidates, key=lambda u: (rows / (blocks_for(rows, u) * u) >= 0.75, u))


def _kind(strides: Strides | None, itemsize: int) -> str:
    if strides is None:
        return GIVEN
    return STAYS if strides[0] == 0 else RUNS if strides[0] == itemsize else STEPS


def _held(walk: Walk, across: int | None) -> int:
    """Return a bit mask of the inputs whose value is the same for all units of a thread."""
    held = 0
    for j, (strides, size) in enumerate(zip(walk.strides, walk.itemsizes)):
        if j >= walk.outputs and strides is not None:
            is_held = _kind(strides, size) == STAYS if across is None else strides[across] == 0
            held |= is_held << j
    return held


def _width(walk: Walk, j: int, unit: int, along: int = 0) -> int:
    """Return the number of elements of one access to operand j along a dimension: the largest that
    the alignment allows."""
    size, strides = walk.itemsizes[j], walk.strides[j]
    assert strides is not None
    bits = walk.lows[j]
    for d, stride in enumerate(strides):
        if d != along:
            bits |= stride
    width = unit
    while width > 1 and bits % (width * size):
        width //= 2
    return width
