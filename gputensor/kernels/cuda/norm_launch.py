"""Launches of layer, RMS, group and batch norm: blocks for rows, and for segments of channels.

The number of segments depends only on the sizes, so the order of a sum is the same on every device
and in every run.
"""

from __future__ import annotations

import math
from struct import Struct
from typing import Any

from ... import runtime
from ...core.dtype import bfloat16, dtype, float16, float32, float64
from . import launch, variants
from .division import divider
from .launch import THREADS
from .reduce_launch import segments_of, shape_of
from .softmax_launch import HELD_BYTES

DTYPES = (float32, float64, float16, bfloat16)
ENTRIES = (
    "norm_rows", "norm_rows_backward", "norm_statistics", "norm_merge_statistics",
    "norm_gradients", "norm_merge_gradients", "norm_scaled", "norm_scaled_backward",
)  # fmt: skip
# A segment of a channel has at least this number of elements for each thread.
PER_LANE = 64
# If a channel of a sample has fewer elements than this, a block processes several adjacent
# channels.
NARROW = 8
_OPERANDS = (
    "x", "grad", "out", "mean", "rstd", "weight", "bias", "running_mean", "running_var",
    "sums_of_grad", "sums_of_product", "parts",
)  # fmt: skip
_ADDRESSES, _NUMBERS = Struct(f"<{len(_OPERANDS)}Q"), Struct("<3d8I14I")


class Norm(launch.Queued):
    """The launches for x (samples, channels, size), which is dense.

    groups: the number of rows of a sample, for statistics of rows; 0 for statistics of channels.
    The methods return launches. They take the flags narrow_stats and narrow_numbers of
    `norm_params` in norm.cu.
    part_bytes: the item size of the operand `parts`.
    has_bits_of_parts: True if the kernel for rows has the bits of the operators that compose it.
    """

    __slots__ = (
        "rows", "row_count", "count", "channels", "numel", "row_blocks", "channel_blocks",
        "element_blocks", "segments", "dividers", "tail", "has_bits_of_parts", "part_bytes",
    )  # fmt: skip
    rows: int
    row_count: int
    count: int
    channels: int
    numel: int
    row_blocks: int
    channel_blocks: int
    element_blocks: int

    def __init__(self, of: dtype, samples: int, channels: int, size: int, groups: int = 0) -> None:
        super().__init__(define(of))
        self.rows, self.channels, self.count = samples * groups, channels, samples * size
        self.numel = numel = samples * channels * size
        self.row_count = numel // self.rows if groups else 0
        pack = launch.PACK_BYTES // of.itemsize
        units = max(launch.blocks_for(self.row_count, pack), 1)
        lane_bits, _ = shape_of(self.rows, units, True)
        # For 16-bit types, a thread keeps fewer packs of a row in registers, so more threads share
        # a row.
        if of.itemsize == 2:
            kept = HELD_BYTES // 4 // pack
            lane_bits = min(launch.bits_for(-(-units // kept)), launch.bits_for(THREADS))
        self.row_blocks = launch.blocks_for(self.rows, THREADS >> lane_bits)
        most = launch.blocks_for(launch.MOST_BLOCKS, max(self.row_blocks, 1))
        is_whole = segments_of(units, 1 << lane_bits, most)[0] == 1
        self.has_bits_of_parts: bool = of.itemsize > 2 and is_whole
        adjacent = min(launch.bits_for(channels), launch.bits_for(launch.ADJACENT))
        slot_bits = adjacent if size < NARROW else 0
        blocks, lanes = launch.blocks_for(channels, 1 << slot_bits), THREADS >> slot_bits
        segments = max(1, min(launch.MOST_BLOCKS // blocks, int(self.count / (PER_LANE * lanes))))
        width = pack if slot_bits == 0 and size % pack == 0 else 1
        per_segment = launch.blocks_for(self.count, segments * width) * width
        self.segments: int = launch.blocks_for(self.count, per_segment)
        self.part_bytes: int = max(of.itemsize, 4)
        self.channel_blocks = blocks * self.segments
        self.element_blocks = launch.blocks_for(numel, THREADS * pack)
        per_row = channels // (groups or channels)
        self.dividers: tuple[int, ...] = (*divider(size), *divider(groups or channels))
        self.tail: tuple[int, ...] = (
            channels, per_row, groups, lane_bits, slot_bits, self.segments, per_segment,
            width > 1, numel,
        )  # fmt: skip

    def normalize_rows(self, eps: float, **narrow: bool) -> Steps:
        """Write the normalised rows to `out`, and their statistics to `mean` and `rstd`."""
        numbers = self._numbers(self.row_count, eps, **narrow)
        return self._steps(("norm_rows", self.row_blocks, numbers))

    def rows_gradient(self, **narrow: bool) -> Steps:
        """Write the gradient of x to `out`, for statistics of rows."""
        numbers = self._numbers(self.row_count, **narrow)
        return self._steps(("norm_rows_backward", self.row_blocks, numbers))

    def statistics(self, eps: float, momentum: float, **narrow: bool) -> Steps:
        """Write `mean` and `rstd` of channels, and update running_mean and running_var."""
        return self._over_channels("statistics", self._numbers(self.count, eps, momentum, **narrow))

    def gradients(self, eps: float = 0.0, has_variance: bool = False, **narrow: bool) -> Steps:
        """Write the gradient of bias to sums_of_grad, and the gradient of weight to
        sums_of_product."""
        numbers = self._numbers(self.count, eps, has_variance=has_variance, **narrow)
        return self._over_channels("gradients", numbers)

    def scale(self, eps: float, has_variance: bool, **narrow: bool) -> Steps:
        """Write x, normalised with the statistics of its channels, to `out`."""
        numbers = self._numbers(self.count, eps, has_variance=has_variance, **narrow)
        return self._steps(("norm_scaled", self.element_blocks, numbers))

    def scale_gradient(self, eps: float, has_variance: bool, **narrow: bool) -> Steps:
        """Write the gradient of x to `out`, for statistics of channels. If the statistics were
        computed from x, the operands sums_of_grad and sums_of_product are needed."""
        numbers = self._numbers(self.count, eps, has_variance=has_variance, **narrow)
        return self._steps(("norm_scaled_backward", self.element_blocks, numbers))

    def parts(self) -> int:
        """Return the number of elements of the operand `parts`; 0 if it is not needed."""
        return 0 if self.segments == 1 else 2 * self.segments * self.channels

    def _numbers(
        self, count: int, eps: float = 0.0, momentum: float = 0.0, has_variance: bool = False,
        narrow_stats: bool = False, narrow_numbers: bool = False,
    ) -> bytes:  # fmt: skip
        unbiased = self.count / (self.count - 1) if self.count > 1 else math.nan
        return _NUMBERS.pack(
            eps, momentum, unbiased, *self.dividers, self.rows, count, *self.tail, has_variance,
            narrow_stats, narrow_numbers,
        )  # fmt: skip

    def _over_channels(self, name: str, numbers: bytes) -> Steps:
        steps = [(f"norm_{name}", self.channel_blocks, numbers)]
        if self.segments > 1:
            blocks = launch.blocks_for(self.channels, THREADS)
            steps.append((f"norm_merge_{name}", blocks, numbers))
        return self._steps(*steps)

    def _steps(self, *steps: tuple[str, int, bytes]) -> Steps:
        return Steps(self, steps)


class Steps:
    """Launches, one after the other, with all their parameters except the addresses of operands. A
    call takes the addresses by the names of `norm_params` in norm.cu.

    steps: (entry, number of blocks, parameters after the addresses). names: the operands, in the
    order in which a short cut passes them.
    """

    __slots__ = ("norm", "steps", "names")

    def __init__(self, norm: Norm, steps: tuple[tuple[str, int, bytes], ...]) -> None:
        self.norm, self.steps = norm, steps
        self.names: tuple[str, ...] = ()

    def __call__(self, device_index: int, **operands: int) -> None:
        addresses = _ADDRESSES.pack(*[operands.get(name, 0) for name in _OPERANDS])
        for entry, blocks, numbers in self.steps:
            self.norm.launch(device_index, "norm", entry, blocks, addresses + numbers)

    def of(self, *names: str, then: Steps | None = None) -> Steps:
        """Return these launches, and those of `then`, for operands in this order."""
        made = Steps(self.norm, self.steps + (() if then is None else then.steps))
        made.names = names
        return made

    def numbered(self, device_index: int, operands: Any, scalars: Any) -> launch.Straight:
        """Return the parts of the launches: see launch.numbered. They allocate the operand `parts`
        themselves."""
        loaded = [
            (self.norm.load(device_index, "norm", entry, blocks), numbers)
            for entry, blocks, numbers in self.steps
        ]
        names, size = self.names, 0
        if any(["_merge_" in entry for entry, _, _ in self.steps]):
            names, size = (*names, "parts"), self.norm.parts() * self.norm.part_bytes
        order = [names.index(name) for name in _OPERANDS if name in names]
        pack = Struct("<" + "".join(["Q" if name in names else "8x" for name in _OPERANDS])).pack
        take = runtime.cuda().taker(size, device_index)

        def run(addresses: tuple[int, ...]) -> None:
            parts = take() if size else None
            given = addresses if parts is None else (*addresses, parts.ptr)
            head = pack(*[given[n] for n in order])
            for one, numbers in loaded:
                one(head + numbers)

        return run, _addresses, ()


def _addresses(*given: Any) -> Any:
    return given[:-1]


def define(of: dtype) -> variants.Defines:
    return {"SCALAR": variants.storage(of)}


def listed() -> list[tuple[str, variants.Defines]]:
    """Return (entry, defines) for each variant of each kernel."""
    return [(entry, define(of)) for entry in ENTRIES for of in DTYPES]
