"""Launches of chains that end in a reduction: one kernel that computes what it reduces.

The order is that of reduce_launch.py over the chain's result, whose plan this is given, so bits do
not depend on whether a chain was fused.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

from ... import runtime
from ...core.dtype import dtype
from ...core.geometry import Sizes
from . import chain_source, launch, module, numbers, variants
from .chain_launch import MAX_PARAMS_BYTES, Packer
from .chain_source import Body
from .division import divider
from .launch import PACK_BYTES, THREADS, blocks_for, pack_dims, product
from .reduce_launch import Reduce

_FIELDS = Struct("<Q7I5iIIq4I").pack
ENTRY = "reduce_chain"


class ChainReduce:
    """The launch, and the one that combines its segments, where there are several.

    plain: the reduction of what the chain gives. strides: in bytes, of out and the inputs over
    `shape`, of which the first n_reduced dimensions go.
    """

    __slots__ = ("plain", "aligned", "unaligned", "running")

    def __init__(
        self, plain: Reduce, body: Body, packing: list[Packer], out: dtype, shape: Sizes,
        n_reduced: int, strides: list[Sizes], common: int,
    ) -> None:  # fmt: skip
        self.plain = plain
        family = module.keep(chain_source.text(body, "reduce_chain.cu", ("reduce",)))
        given, inputs = body.dtypes[0], body.dtypes[1:]
        stage = plain.stages[0][2]
        layout = stage.defines["LAYOUT"]
        pack = PACK_BYTES // given.itemsize if layout == "ROWS" else 1
        chains = {"ROWS": max(4 // pack, 1), "COLUMNS": 1, "STRIDED": 4}[layout]
        kept, reduced = shape[n_reduced:], shape[:n_reduced]
        of_kept = [s[n_reduced:] for s in strides]
        of_reduced = [s[:n_reduced] for s in strides]
        inner, run = [s[0] if s else 0 for s in of_reduced], 0
        if layout == "ROWS":
            run = reduced[0]
            reduced = (blocks_for(run, pack), *reduced[1:])
            of_reduced = [(s[0] * pack, *s[1:]) for s in of_reduced]
        outputs = product(kept)
        groups = blocks_for(outputs, 1 << stage.slot_bits)
        values = [numbers.EMPTY] * max(1, len(packing))
        count, dims = 1 + len(inputs), variants.FEW_DIMS
        tail = _FIELDS(
            product(shape[:n_reduced]), outputs, product(reduced), stage.per_segment,
            stage.lane_bits, stage.slot_bits, stage.is_adjacent,
            stage.segments > 1, out.code, given.code, common, len(kept), len(reduced), run,
            outputs, 0, *divider(stage.segments),
        ) + Struct(f"<{count}q").pack(*inner)  # fmt: skip
        tail += pack_dims(kept, of_kept, dims) + pack_dims(reduced, of_reduced, dims)
        types = [variants.storage(d) for d in (given, *inputs)]
        kinds = [
            "RUNS" if x == d.itemsize else "STEPS" if x else "STAYS"
            for x, d in zip(inner[1:], inputs)
        ]

        def bound(widths: list[int]) -> launch.Launch:
            defines = variants.define(plain.op, stage.defines["SCALAR"], "CHAIN", dims) | {
                "CHAIN": chain_source.NAME, "TYPES": ",".join(types), "CHAINS": str(chains),
                "KINDS": ",".join(["RUNS", *kinds]), "WIDTHS": ",".join(map(str, [1, *widths])),
                "UNIT": str(pack), "UNROLL": str(launch.STRIDED_UNROLL), "OUTPUTS": "1",
                "NUMBERS": str(len(values)),
            }  # fmt: skip
            return launch.Launch(
                family, ENTRY, defines, groups * stage.segments, THREADS, count, values, packing,
                tail,
            )  # fmt: skip

        self.unaligned = bound([1] * len(inputs))
        widths = [
            _width(pack, d.itemsize, (*a, *b)) if kind == "RUNS" else 1
            for d, kind, a, b in zip(inputs, kinds, of_kept[1:], of_reduced[1:])
        ]
        self.aligned = bound(widths) if max(widths, default=1) > 1 else self.unaligned
        self.running = [n for n, width in enumerate(widths, 1) if width > 1]

    def __call__(
        self, device_index: int, operands: Sequence[int], scalars: Sequence[Any] = ()
    ) -> None:
        """operands: addresses of out and the inputs."""
        out, *inputs = operands
        is_aligned = not any([operands[n] & 15 for n in self.running])
        first = self.aligned if is_aligned else self.unaligned
        plain = self.plain
        if plain.last is None:
            first(device_index, (out, *inputs), tuple(scalars))
            return
        workspace = runtime.cuda().allocate(plain.workspace_bytes, device_index)
        first(device_index, (workspace.ptr, *inputs), tuple(scalars))
        plain.last.launch(plain.runs, device_index, out, workspace.ptr)


def _width(pack: int, itemsize: int, strides: Sizes) -> int:
    """Elements of an access that every unit of an aligned operand allows."""
    width = min(pack, PACK_BYTES // itemsize)
    while width > 1 and any([s % (width * itemsize) for s in strides]):
        width //= 2
    return width


def bind(
    plain: Any, body: Body, packing: list[Packer], out: dtype, shape: Sizes, n_reduced: int,
    strides: list[Sizes], common: int,
) -> ChainReduce | None:  # fmt: skip
    """See ChainReduce; None where this kernel cannot keep the order, or take so many operands."""
    if type(plain) is not Reduce or len(plain.stages) > 1:
        return None
    stage = plain.stages[0][2]
    count, dims = len(strides), variants.FEW_DIMS
    if stage.defines["LAYOUT"] == "CAST" or max(n_reduced, len(shape) - n_reduced) > dims:
        return None
    bytes_of_params = 16 * count + 16 * len(packing) + 128 + 2 * dims * (16 + 8 * count)
    if bytes_of_params > MAX_PARAMS_BYTES or not product(shape):
        return None
    return ChainReduce(plain, body, packing, out, shape, n_reduced, strides, common)
