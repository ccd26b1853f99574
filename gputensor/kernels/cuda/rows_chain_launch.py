"""Launches of chains over rows: one kernel runs reductions over rows and the operators that use
their results.

The order of additions and the lanes of each reduction are those of reduce_launch.py for rows.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from ...core.geometry import Sizes
from . import chain_source, launch, module, numbers, rows_source, variants
from .chain_launch import MAX_PARAMS_BYTES, ByAlignment, Packer, kinds_of
from .launch import PACK_BYTES, THREADS, blocks_for, pack_dims, product
from .reduce_chain_launch import _width
from .reduce_launch import Reduce, Stage
from .rows_source import Program
from .softmax_launch import HELD_BYTES, _lanes_of_dense

ENTRY = "rows_chain"
_HEAD = Struct("<6I").pack
# (log2 of the number of threads that share a row, log2 of the number of rows in a block).
Lanes = tuple[int, int]


def stage_of(plain: Any) -> Stage | None:
    """Return the stage of a reduction over rows that takes one launch, and None for all other
    reductions.
    """
    if type(plain) is not Reduce or plain.last is not None or len(plain.stages) > 1:
        return None
    stage = plain.stages[0][2]
    return stage if stage.defines["LAYOUT"] == "ROWS" and stage.segments == 1 else None


def lanes_of_softmax(count: int, itemsize: int) -> Lanes:
    """Return the lanes that softmax_launch.py uses for dense rows."""
    held = HELD_BYTES // max(itemsize, 4)
    lane_bits = _lanes_of_dense(count, PACK_BYTES // itemsize, held)
    return lane_bits, launch.bits_for(THREADS) - lane_bits


def bind(
    program: Program, packing: list[Packer], lanes: Lanes, itemsize: int, shape: Sizes,
    strides: list[Sizes],
) -> ByAlignment | None:  # fmt: skip
    """Bind a program. Return None if a kernel cannot take all operands.

    lanes: the lanes of the reductions. itemsize: the element size of their operands in bytes.
    shape: the elements of a row, then the kept dimensions. strides: stride bytes of outputs, of
    inputs, and of outputs with one element per row.
    """
    stored = 0 if program.stored is None else len(program.stored.stores)
    n_inputs = len(strides) - stored - len(program.once)
    inputs = program.bodies[0].inputs[:n_inputs]
    outputs = () if program.stored is None else program.stored.dtypes[:stored]
    operands = (*outputs, *inputs)
    count, every, dims = len(operands), len(strides), variants.FEW_DIMS
    kept, n_values = shape[1:], max(1, len(packing))
    if 16 * every + 16 * n_values + 64 + 8 * count + dims * (16 + 8 * every) > MAX_PARAMS_BYTES:
        return None
    if len(kept) > dims or not inputs:
        return None
    pack = PACK_BYTES // itemsize
    inner = [s[0] for s in strides[:count]]
    kinds = kinds_of(inner, operands)
    if kinds[:stored] != ["RUNS"] * stored:
        return None
    family = module.keep(rows_source.text(program))
    rows = product(kept)
    tail = _HEAD(rows, shape[0], *lanes, len(kept), 0)
    tail += Struct(f"<{count}q").pack(*inner) + pack_dims(kept, [s[1:] for s in strides], dims)

    has_softmax = {"HAS_SOFTMAX": "1"} if any([x.is_softmax for x in program.reductions]) else {}

    def bound(widths: list[int]) -> launch.Launch:
        first = variants.storage(operands[0])
        defines = variants.define(chain_source.NAME, first, "ROWS", dims) | {
            "CHAIN": chain_source.NAME, "TYPES": ",".join(map(variants.storage, operands)),
            "CHAINS": str(max(4 // pack, 1)), "KINDS": ",".join(kinds),
            "WIDTHS": ",".join(map(str, widths)), "UNIT": str(pack), "UNROLL": "1",
            "OUTPUTS": str(stored), "ROW_OPERANDS": str(len(program.once)),
            "NUMBERS": str(n_values), **has_softmax,
        }  # fmt: skip
        return launch.Launch(
            family, ENTRY, defines, blocks_for(rows, 1 << lanes[1]), THREADS, every,
            [numbers.EMPTY] * n_values, packing, tail,
        )  # fmt: skip

    widths = [
        _width(pack, d.itemsize, (pack * d.itemsize, *s[1:])) if kind == "RUNS" else 1
        for d, kind, s in zip(operands, kinds, strides)
    ]
    return ByAlignment(bound, widths)
