"""Division of an iteration into pieces with 32-bit offsets, and of a linear range into 2-d steps.

The functions take coalesced shapes, innermost dimension first, and stride bytes per operand (None
for an operand without memory).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MAX_32BIT = (1 << 31) - 1

Shape = tuple[int, ...]
Strides = Sequence[Shape | None]


def can_use_32bit(shape: Shape, stride_bytes: Strides) -> bool:
    """Return True if the number of elements and every byte offset fit a signed 32-bit integer.
    Strides may be negative, and their offsets count like positive ones."""
    numel = 1
    for size in shape:
        numel *= size
    if numel > MAX_32BIT:
        return False
    for strides in stride_bytes:
        if strides is not None:
            reach = 1
            for size, stride in zip(shape, strides):
                reach += (size - 1) * abs(stride)
            if reach > MAX_32BIT:
                return False
    return True


class Piece:
    """A part of an iteration whose offsets fit 32 bits.

    offset_bytes: the byte offset of each operand's first element (None without memory). accumulate:
    an earlier piece wrote to the same outputs. is_final: no later piece writes to them.
    """

    __slots__ = ("shape", "offset_bytes", "accumulate", "is_final")
    shape: Shape
    offset_bytes: tuple[int | None, ...]
    accumulate: bool
    is_final: bool

    def __init__(
        self, shape: Shape, offset_bytes: tuple[int | None, ...], accumulate: bool, is_final: bool
    ) -> None:
        self.shape, self.offset_bytes = shape, offset_bytes
        self.accumulate, self.is_final = accumulate, is_final

    def __repr__(self) -> str:
        flags = f"accumulate={self.accumulate}, is_final={self.is_final}"
        return f"Piece({self.shape}, {self.offset_bytes}, {flags})"

    def halves(self, dim: int, stride_bytes: Strides, is_reduced: bool) -> tuple[Piece, Piece]:
        """Split dimension `dim` into its first floor(n/2) elements and the rest.

        If the dimension is reduced, both halves write to the same outputs.
        """
        size = self.shape[dim]
        first = size // 2
        before, after = self.shape[:dim], self.shape[dim + 1 :]
        moved = tuple([
            None if o is None or s is None else o + first * s[dim]
            for o, s in zip(self.offset_bytes, stride_bytes)
        ])  # fmt: skip
        is_final, accumulate = self.is_final and not is_reduced, self.accumulate or is_reduced
        head = Piece((*before, first, *after), self.offset_bytes, self.accumulate, is_final)
        return head, Piece((*before, size - first, *after), moved, accumulate, self.is_final)


def dim_to_split(shape: Shape, stride_bytes: Strides) -> int:
    """Return the dimension with the largest extent in bytes over all operands. Of several equal
    dimensions, return the outermost.

    Source: ATen/TensorIterator.cpp, get_dim_to_split.
    """
    farthest, found = -1, -1
    for dim in range(len(shape) - 1, -1, -1):
        if shape[dim] > 1:
            for strides in stride_bytes:
                reach = 0 if strides is None else (shape[dim] - 1) * abs(strides[dim])
                if reach > farthest:
                    farthest, found = reach, dim
    assert found >= 0, (shape, stride_bytes)
    return found


def split_32bit(shape: Shape, stride_bytes: Strides, n_reduced: int = 0) -> Iterator[Piece]:
    """Return pieces with 32-bit offsets that together cover the iteration once. The pieces follow
    the memory order of the split dimensions.

    n_reduced: the number of leading reduced dimensions.
    """
    start = tuple([None if s is None else 0 for s in stride_bytes])
    waiting = [Piece(shape, start, False, True)]
    while waiting:
        piece = waiting.pop()
        if can_use_32bit(piece.shape, stride_bytes):
            yield piece
        else:
            dim = dim_to_split(piece.shape, stride_bytes)
            first, second = piece.halves(dim, stride_bytes, dim < n_reduced)
            waiting += second, first


class DimCounter:
    """A counter that covers the linear range [begin, end) of a shape in the largest possible 2-d
    steps.

    values: the index of the element at `offset`. Source: ATen/TensorIterator.cpp, DimCounter.
    """

    __slots__ = ("shape", "end", "offset", "values")
    shape: Shape
    end: int
    offset: int

    def __init__(self, shape: Shape, begin: int, end: int) -> None:
        self.shape, self.end, self.offset = shape, end, begin
        self.values: list[int] = [0] * len(shape)
        for dim, size in enumerate(shape):
            if not begin or not size:
                break
            begin, self.values[dim] = divmod(begin, size)

    @property
    def is_done(self) -> bool:
        return self.offset >= self.end

    def max_2d_step(self) -> tuple[int, int]:
        """Return the size of the largest step from the current element: (columns, rows) of the two
        innermost dimensions, or (n, 1) within a row.
        """
        shape, values, left = self.shape, self.values, self.end - self.offset
        if not shape:
            return 1, 1
        step = min(shape[0] - values[0], left)
        if step == shape[0] and len(shape) > 1:
            return step, min(shape[1] - values[1], left // step)
        return step, 1

    def increment(self, step: tuple[int, int]) -> None:
        self.offset += step[0] * step[1]
        # A step over several rows leaves the innermost index at 0, so the carry begins at dimension
        # 1.
        dim, carry = (0, step[0]) if step[1] == 1 else (1, step[1])
        while carry and dim < len(self.shape):
            value = self.values[dim] + carry
            carry = 1 if value >= self.shape[dim] else 0
            self.values[dim] = value - self.shape[dim] if carry else value
            dim += 1
