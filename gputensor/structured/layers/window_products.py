"""Products of a convolution's windows with its weights or with a gradient, in blocks of windows.

The windows are a strided view of the padded input, and a product reads a copy of them. For each
element of the input, this copy has about as many elements as the kernel. So only the windows of
some samples, groups and output positions are copied and multiplied at a time: as many as fit into a
cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from ... import runtime
from ..._generated import calls, operators
from ...core.device import CPU
from ...tensor.tensor import Tensor
from ..missing import ask_inplace

Sizes = tuple[int, ...]
# The maximum number of bytes of a block: in general, and on the CPU. On the CPU, the memory of
# blocks of up to _CPU_BYTES is reused, which costs half as much as new memory.
MOST_BYTES, _CPU_BYTES = 64 << 20, 8 << 20


def block_bytes(l2_bytes: int) -> int:
    """Return the bytes of a block on a GPU: at most half of its L2 cache, because the other
    operands use the cache too."""
    return min(l2_bytes // 2, MOST_BYTES)


def _limit(x: Tensor) -> int:
    if x._device is CPU:
        return _CPU_BYTES
    if x._device.type != "cuda":
        return MOST_BYTES
    return block_bytes(runtime.cuda().limits(x._device.index).l2_bytes)


def block(sizes: Sequence[int], nbytes: int, most_bytes: int) -> Sizes:
    """Return the sizes of a block of windows.

    Args:
        sizes: all windows, (samples, groups, *output).
        nbytes: bytes of one window of one group, and of its results.
        most_bytes: the bytes of a block, which a single window may exceed.
    Returns: the block's size for each of `sizes`. One dimension is divided into blocks of about
        equal sizes. Dimensions after it are whole; dimensions before it have size 1.
    """
    left, found = max(1, most_bytes // max(1, nbytes)), []
    for size in reversed(sizes):
        count = -(-size // min(size, left)) if size else 1
        found.append(-(-size // count))
        left = left // size if 0 < size <= left else 1
    return tuple(reversed(found))


class Spread(NamedTuple):
    """The zeros that are added to an input x: `low` zeros before it, `high` zeros after it, and
    steps - 1 zeros between two neighbouring elements. A negative `low` or `high` removes
    elements."""

    low: Sizes
    high: Sizes
    steps: Sizes

    @property
    def is_empty(self) -> bool:
        return not any(self.low) and not any(self.high) and all(s == 1 for s in self.steps)

    def sizes(self, given: Sequence[int]) -> list[int]:
        each = zip(given, self.low, self.high, self.steps)
        return [max((n - 1) * s + 1 + a + b if n else a + b, 0) for n, a, b, s in each]

    def of(self, x: Tensor) -> Tensor:
        """Return a copy of x with the zeros, or x itself if no zeros are to be added."""
        if self.is_empty:
            return x
        sizes = x._geometry.sizes
        whole = self.sizes(sizes[2:])
        made = to = calls.new_zeros(x, (*sizes[:2], *whole))
        for d, (a, s, n, size) in enumerate(zip(self.low, self.steps, sizes[2:], whole), 2):
            # `first` is the first element of x that a negative `low` does not remove.
            first = max(0, -(a // s)) if a < 0 else 0
            last = min(n, (size - 1 - a) // s + 1) if size else 0
            if first >= last:
                return made
            x = calls.slice_Tensor(x, d, first, last, 1)
            to = calls.slice_Tensor(to, d, a + first * s, a + (last - 1) * s + 1, s)
        ask_inplace(operators.copy_, to, x, False)
        return made


class Windows(NamedTuple):
    """The windows of an input that is padded with zeros. For each dimension: kernel, steps
    (strides), gaps (dilations), and out, the number of windows."""

    kernel: Sizes
    steps: Sizes
    gaps: Sizes
    out: Sizes
    groups: int
    spread: Spread

    def copied(self, x: Tensor, begin: Sizes, counts: Sizes) -> Tensor:
        """Return the windows of a block as (groups, taps, samples * positions). x includes the
        added zeros."""
        first, along, *strides = x._geometry.strides
        group, *at = begin
        (of_groups, samples, *out), inner = counts, x._geometry.sizes[1] // self.groups
        # Use 0 for unused steps and gaps, because their values may be too large for a stride. A
        # dimension with one window does not use its step. A dimension with one tap does not use its
        # gap.
        walks = [s * (n if m > 1 else 0) for s, n, m in zip(strides, self.steps, self.out)]
        taps = [s * (d if k > 1 else 0) for s, d, k in zip(strides, self.gaps, self.kernel)]
        view = calls.as_strided(
            x, (of_groups, inner, *self.kernel, samples, *out),
            (along * inner, along, *taps, first, *walks),
            x.storage_offset() + group * along * inner + sum(a * w for a, w in zip(at, walks)),
        )  # fmt: skip
        return calls.reshape(view, (of_groups, inner * prod(self.kernel), samples * prod(out)))


# A function of a block and of the windows that `Windows.copied` returns for the block.
Work = Callable[["Block", Tensor], None]


class Block(NamedTuple):
    """A block of windows. Each tuple has one number for samples, groups and each output dimension.
    begin: the first index. counts: the number of indices in the block. whole: the number of indices
    in all blocks together."""

    begin: Sizes
    counts: Sizes
    whole: Sizes

    @property
    def groups(self) -> tuple[int, int]:
        return self.begin[1], self.begin[1] + self.counts[1]

    def of(self, x: Tensor) -> Tensor:
        """Return the block's part of x (samples, channels, *output) as a view (groups, channels of
        a group, samples, *output)."""
        (first, along, *strides), (samples, groups, *out) = x._geometry.strides, self.counts
        each = x._geometry.sizes[1] // self.whole[1]
        by = (first, along * each, *strides)
        offset = x.storage_offset() + sum(a * b for a, b in zip(self.begin, by))
        return calls.as_strided(
            x, (groups, each, samples, *out), (along * each, along, first, *strides), offset
        )

    @property
    def is_plain(self) -> bool:
        """Return True if the positions of the block are consecutive elements of a dense tensor."""
        return self.counts[0] == 1 and self.counts[3:] == self.whole[3:]


def _each(x: Tensor, at: Windows, results: int, work: Work) -> None:
    """Call `work` for each block of windows. results: the number of result elements per window."""
    samples, channels = x._geometry.sizes[:2]
    whole = (samples, at.groups, *at.out)
    taps = channels // at.groups * prod(at.kernel)
    step = block(whole, (taps + results) * x._geometry.dtype.itemsize, _limit(x))
    for first in range(0, samples, step[0]):
        part = at.spread.of(calls.slice_Tensor(x, 0, first, first + step[0], 1))
        for inner in product(*[range(0, n, s) for n, s in zip(whole[1:], step[1:])]):
            begin = (first, *inner)
            counts = tuple([min(s, n - b) for s, n, b in zip(step, whole, begin)])
            group, of_groups = begin[1], counts[1]
            own = at.copied(part, (group, *begin[2:]), (of_groups, counts[0], *counts[2:]))
            work(Block(begin, counts, whole), own)
            del own  # Free the memory of this block before the next block is copied.


def correlate(x: Tensor, weight: Tensor, at: Windows) -> Tensor:
    """Return the convolution of x with weight (channels, inputs of a group, *kernel), as a dense
    tensor (samples, channels, *out)."""
    (outer, inner), samples = weight._geometry.sizes[:2], x._geometry.sizes[0]
    sizes, each = (samples, outer, *at.out), outer // at.groups
    rows = calls.reshape(weight, (at.groups, each, inner * prod(at.kernel)))
    if not x._geometry.numel or not outer or not rows._geometry.numel:
        return calls.new_zeros(x, sizes)
    if at.spread.is_empty and prod(at.kernel) == 1 and prod(at.steps) == 1:
        return _of_points(x, rows, sizes)
    made = calls.new_empty(x, sizes)

    def multiply(of: Block, windows: Tensor) -> None:
        to, own = of.of(made), calls.slice_Tensor(rows, 0, *of.groups, 1)
        if of.is_plain:
            plain = calls.reshape(to, (*to._geometry.sizes[:2], -1))
            ask_inplace(operators.baddbmm_, plain, own, windows, 0, 1)
        else:
            found = calls.reshape(calls.bmm(own, windows), to._geometry.sizes)
            ask_inplace(operators.copy_, to, found, False)

    if x._device.type != "meta":
        _each(x, at, each, multiply)
        made._get_storage().version = 0  # Do not count writes to a new tensor.
    return made


def _of_points(x: Tensor, rows: Tensor, sizes: Sizes) -> Tensor:
    """Return the convolution for a kernel of one element, where the windows are the input
    itself."""
    groups, _, taps = rows._geometry.sizes
    columns = calls.reshape(x, (sizes[0], groups, taps, prod(sizes[2:])))
    rows = calls.unsqueeze(rows, 0)
    if groups == 1:
        columns, rows = calls.select_int(columns, 1, 0), calls.select_int(rows, 1, 0)
    return calls.reshape(calls.matmul(rows, columns), sizes)


def weight_gradient(x: Tensor, grad: Tensor, at: Windows) -> Tensor:
    """Return the gradient of the weight, (channels of grad, inputs of a group, *kernel). For each
    window, the product of the window and its gradient is added to the result. Blocks are added in
    the order of samples, groups and positions."""
    inner, outer = x._geometry.sizes[1] // at.groups, grad._geometry.sizes[1]
    each, sizes = outer // at.groups, (outer, inner, *at.kernel)
    if not x._geometry.numel or not grad._geometry.numel:
        return calls.new_zeros(x, sizes)
    made = calls.new_empty(x, (at.groups, each, inner * prod(at.kernel)))

    def add(of: Block, windows: Tensor) -> None:
        given = of.of(grad)
        given = calls.reshape(given, (*given._geometry.sizes[:2], -1))
        to = calls.slice_Tensor(made, 0, *of.groups, 1)
        kept = int(of.begin[0] > 0 or any(of.begin[2:]))
        ask_inplace(operators.baddbmm_, to, given, calls.transpose_int(windows, 1, 2), kept, 1)

    if x._device.type != "meta":
        _each(x, at, each, add)
        made._get_storage().version = 0
    return calls.reshape(made, sizes)
