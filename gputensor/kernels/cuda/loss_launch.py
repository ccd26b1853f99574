"""Launch plans of nll_loss and its derivative. A loss per row takes one launch, a sum takes one or
two."""

from __future__ import annotations

from struct import Struct
from typing import Any

from ... import runtime
from ...core import errors
from . import launch, module, variants
from .division import divider
from .launch import THREADS, Operands

# The number of rows whose losses a block adds up; PER_BLOCK in loss.cu.
PER_BLOCK = 8 * THREADS
_PARAMS = Struct("<6Qq5q6I4I").pack


def bind(family: str, op: str, layout: Any) -> Any:
    """Bind the Targets `layout`. Return callable(device_index, operands, (ignore_index,))."""
    if layout.rows * max(layout.classes, 1) >= 1 << 31:
        sizes = errors.Got(f"{layout.rows} x {layout.classes}")
        raise errors.must(op, "self", "have fewer than 2**31 elements", sizes)
    return NllLoss(op, layout)


class NllLoss:
    """The launches over one layout. A sum over more than PER_BLOCK rows needs two launches."""

    __slots__ = ("op", "layout", "scalar", "entry", "grid", "blocks", "runs")
    op: str
    layout: Any
    scalar: Any
    entry: str
    grid: int
    family = "loss"

    def __init__(self, op: str, layout: Any) -> None:
        self.op, self.layout, self.scalar = op, layout, layout.dtypes[0].short
        self.runs: dict[tuple[int, str], Any] = {}
        self.blocks: int = max(launch.blocks_for(layout.rows, PER_BLOCK), 1)
        if op == "nll_loss_backward":
            self.entry = "ELEMENTS"
            self.grid = launch.blocks_for(layout.rows * layout.classes, THREADS)
        elif layout.reduction == 0:
            self.entry, self.grid = "ELEMENTS", max(launch.blocks_for(layout.rows, THREADS), 1)
        else:
            self.entry, self.grid = "SUMS", self.blocks

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        if self.entry == "ELEMENTS" or self.blocks == 1:
            self._launch(device_index, self.entry, self.grid, self.pack(operands, scalars, 0))
            return
        # Each block has two sums of at most 8 bytes. The workspace may be freed when this function
        # returns, because its memory is reused only by later work on the same stream.
        workspace = runtime.cuda().allocate(self.blocks * 16, device_index)
        params = self.pack(operands, scalars, workspace.ptr)
        self._launch(device_index, "SUMS", self.grid, params)
        self._launch(device_index, "PARTS", 1, params)

    def pack(self, operands: Operands, scalars: Operands, parts: int) -> bytes:
        """Pack the parameter struct of a call."""
        it = self.layout
        (row, along), (target,), weight = it.stride_bytes
        return _PARAMS(
            *operands, parts, scalars[0], row, along, target, 0 if weight is None else weight[0],
            it.grad_stride_bytes, it.rows, it.classes, self.blocks, it.reduction == 1,
            it.dtypes[1].itemsize == 1, 0, *divider(max(it.classes, 1)),
        )  # fmt: skip

    def _launch(self, device_index: int, layout: str, blocks: int, params: bytes) -> None:
        run = self.runs.get((device_index, layout)) or self._load(device_index, layout, blocks)
        run(params)

    def _load(self, device_index: int, layout: str, blocks: int) -> Any:
        op = self.op if layout == "ELEMENTS" else "nll_loss"
        defines = variants.define(op, self.scalar, layout)
        function = module.function(self.family, f"loss_{layout.lower()}", defines, device_index)
        run = runtime.cuda().launcher(function, (blocks, 1, 1), (THREADS, 1, 1))
        self.runs[device_index, layout] = run
        return run
