"""Launch plans of nonzero: count the nonzero elements of each block, add up the counts, write the
indices."""

from __future__ import annotations

from struct import Struct
from typing import Any

from ... import runtime
from ...core import errors
from . import launch, module, variants
from .division import divider
from .launch import THREADS, Operands

# A block reads this number of elements; it is PER_BLOCK in nonzero.cu.
PER_BLOCK = 8 * THREADS


def bind(family: str, op: str, layout: Any) -> Any:
    """Bind the Marks `layout`. Return callable(device_index, operands)."""
    if layout.numel >= 1 << 31:
        rule = "have fewer than 2**31 elements"
        raise errors.must(layout.op, "self", rule, errors.Got(str(layout.sizes)))
    return NonZero(op, layout)


class NonZero:
    """The launches over one layout: two launches for counting, or one for writing."""

    __slots__ = ("op", "defines", "blocks", "tail")
    op: str
    blocks: int

    def __init__(self, op: str, layout: Any) -> None:
        dims = launch.dims_for(layout.op, layout.sizes)
        self.op, self.blocks = op, launch.blocks_for(layout.numel, PER_BLOCK)
        self.defines = {
            name: variants.define(op, "u8", name, dims)
            for name in (("PARTS",) if op == "nonzero" else ("ELEMENTS", "SUMS"))
        }
        dividers = [n for size in layout.sizes for n in divider(size)]
        head = (layout.numel, len(layout.sizes), self.blocks, 0)
        self.tail: bytes = Struct(f"<4I{4 * dims}I").pack(
            *head, *dividers, *[0] * (4 * dims - len(dividers))
        )  # fmt: skip

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        if self.op == "nonzero":
            self._launch(device_index, "PARTS", self.blocks, operands)
            return
        counts, marks = operands
        self._launch(device_index, "ELEMENTS", self.blocks, (0, marks, counts))
        self._launch(device_index, "SUMS", 1, (0, marks, counts))

    def _launch(self, device_index: int, layout: str, blocks: int, pointers: Operands) -> None:
        cuda = runtime.cuda()
        entry = f"nonzero_{layout.lower()}"
        function = module.function("nonzero", entry, self.defines[layout], device_index)
        stream = cuda.current_stream(device_index)
        params = Struct("<3Q").pack(*pointers) + self.tail
        cuda.launch(function, (blocks, 1, 1), (THREADS, 1, 1), 0, stream, params)
