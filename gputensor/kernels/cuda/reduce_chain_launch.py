"""Launches of chains with a reduction. One kernel computes the operand, reduces it, and runs the
operators after the reduction.

The order of additions is that of reduce_launch.py for a separate reduction, whose plan is an
argument. So fusion does not change the result's bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, NamedTuple

from ... import runtime
from ...core.dtype import STORED, dtype
from ...core.geometry import Sizes
from . import chain_source, launch, module, numbers, variants
from .chain_launch import MAX_PARAMS_BYTES, ByAlignment, Packer, kinds_of
from .chain_source import Body
from .division import divider
from .launch import PACK_BYTES, THREADS, blocks_for, pack_dims, product
from .reduce_launch import Reduce, Stage

_FIELDS = Struct("<Q7I5iIIq4I").pack
ENTRY = "reduce_chain"
_OF_PARTIALS = {variants.storage(d): d for d in STORED}


class Epilogue(NamedTuple):
    """The operators after the reduction. body: their computation, whose first input is the
    reduction's result. strides: the stride bytes over the kept dimensions, first of the other
    inputs, then of the outputs."""

    body: Body
    strides: list[Sizes]


class Walks(NamedTuple):
    """The sizes of the kept and of the reduced dimensions. of_kept, of_reduced: for `out` and for
    each input, the stride bytes over the kept and over the reduced dimensions."""

    kept: Sizes
    reduced: Sizes
    of_kept: list[Sizes]
    of_reduced: list[Sizes]


def _launches(
    stage: Stage, body: Body, packing: list[Packer], out: dtype, walks: Walks, common: int,
    divide_by: int, after: Epilogue | None,
) -> ByAlignment:  # fmt: skip
    """Make the launches of one stage of a chain with a reduction. stage: the corresponding stage of
    the unfused reduction, which determines the order of additions."""
    family = module.keep(_text(body, after))
    given, inputs = body.dtypes[0], body.dtypes[1:]
    layout = stage.defines["LAYOUT"]
    pack = PACK_BYTES // given.itemsize if layout == "ROWS" else 1
    chains = {"ROWS": max(4 // pack, 1), "COLUMNS": 1, "STRIDED": 4}[layout]
    kept, reduced, of_kept, of_reduced = walks
    more = [] if after is None else after.strides
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
        divide_by, outputs, product(reduced), stage.per_segment,
        stage.lane_bits, stage.slot_bits, stage.is_adjacent,
        stage.segments > 1, out.code, given.code, common, len(kept), len(reduced), run,
        outputs, 0, *divider(stage.segments),
    ) + Struct(f"<{count}q").pack(*inner)  # fmt: skip
    tail += pack_dims(kept, [*of_kept, *more], dims) + pack_dims(reduced, of_reduced, dims)
    types = [variants.storage(d) for d in (given, *inputs)]
    kinds = kinds_of(inner[1:], inputs)

    def bound(widths: list[int]) -> launch.Launch:
        defines = variants.define(
            stage.defines["OP"], stage.defines["SCALAR"], "CHAIN", dims
        ) | {
            "CHAIN": chain_source.NAME, "TYPES": ",".join(types), "CHAINS": str(chains),
            "KINDS": ",".join(["RUNS", *kinds]), "WIDTHS": ",".join(map(str, [1, *widths])),
            "UNIT": str(pack), "UNROLL": str(launch.STRIDED_UNROLL), "OUTPUTS": "1",
            "NUMBERS": str(len(values)),
        } | ({"ROW_OPERANDS": str(len(more))} if more else {})  # fmt: skip
        return launch.Launch(
            family, ENTRY, defines, groups * stage.segments, THREADS, count + len(more),
            values, packing, tail,
        )  # fmt: skip

    widths = [
        _width(pack, d.itemsize, (*a, *b)) if kind == "RUNS" else 1
        for d, kind, a, b in zip(inputs, kinds, of_kept[1:], of_reduced[1:])
    ]
    return ByAlignment(bound, widths, 1)


class ChainReduce:
    """The launches of a chain with a reduction: one, and a second one if there are segments to
    combine. The last launch runs the epilogue."""

    __slots__ = ("plain", "first", "last", "n_inputs", "has_epilogue")
    first: ByAlignment | None
    last: ByAlignment | None

    def __init__(
        self, plain: Reduce, body: Body, packing: list[Packer], out: dtype, shape: Sizes,
        n_reduced: int, strides: list[Sizes], common: int, after: Epilogue | None,
    ) -> None:  # fmt: skip
        kept, reduced = shape[n_reduced:], shape[:n_reduced]
        walks = Walks(
            kept, reduced, [s[n_reduced:] for s in strides], [s[:n_reduced] for s in strides]
        )
        self.plain, self.n_inputs, count = plain, len(strides) - 1, product(reduced)
        self.has_epilogue, self.last, self.first = after is not None, None, None
        stage, last = plain.stages[0][2], plain.last
        here = after if last is None else None
        if body.steps or last is None:
            self.first = _launches(stage, body, packing, out, walks, common, count, here)
        if last is not None and after is not None:
            of = _OF_PARTIALS[last.defines["SCALAR"]]
            self.last = _launches(
                last, Body((of,), (), (0,)), packing, out, _of_workspace(plain, walks), common,
                count, after,
            )  # fmt: skip

    def __call__(
        self, device_index: int, operands: Sequence[int], scalars: Sequence[Any] = ()
    ) -> None:
        """Launch the kernels. operands: the addresses of out, of the inputs, and of the epilogue's
        operands. With an epilogue, out is not used."""
        plain, (out, *inputs) = self.plain, operands[: self.n_inputs + 1]
        after = operands[self.n_inputs + 1 :]
        if plain.last is None:
            assert self.first is not None
            self.first(device_index, operands, scalars)
            return
        workspace = runtime.cuda().allocate(plain.workspace_bytes, device_index)
        if self.first is not None:
            self.first(device_index, (workspace.ptr, *inputs), scalars)
        else:
            plain.stages[0][2].launch(plain.runs, device_index, workspace.ptr, inputs[0])
        if self.last is not None:
            self.last(device_index, (0, workspace.ptr, *after), scalars)
        else:
            plain.last.launch(plain.runs, device_index, out, workspace.ptr)


def _of_workspace(plain: Reduce, walks: Walks) -> Walks:
    """Return the Walks for the reduction of the workspace. The workspace contains one partial
    result for each segment and output."""
    rows, outputs = plain.stages[0][2].segments, product(walks.kept)
    row_bytes = plain.workspace_bytes // rows
    strides, step = [], row_bytes // outputs
    for size in walks.kept:
        strides.append(step)
        step *= size
    stays = (0,) * len(walks.kept)
    return Walks(walks.kept, (rows,), [stays, tuple(strides)], [(0,), (row_bytes,)])


def _text(body: Body, after: Epilogue | None) -> str:
    if after is None:
        return chain_source.text(body, "reduce_chain.cu", ("reduce",))
    of = {step.family for step in (*body.steps, *after.body.steps)} - {"copy"}
    parts = chain_source.functor(body) + chain_source.epilogue(after.body)
    return module.composed([*sorted(of), "reduce"], parts, "reduce_chain.cu")


def _width(pack: int, itemsize: int, strides: Sizes) -> int:
    """Return the number of elements of one access to an operand: the largest for which the accesses
    to all units are aligned."""
    width = min(pack, PACK_BYTES // itemsize)
    while width > 1 and any([s % (width * itemsize) for s in strides]):
        width //= 2
    return width


def bind(
    plain: Any, body: Body, packing: list[Packer], out: dtype, shape: Sizes, n_reduced: int,
    strides: list[Sizes], common: int, after: Epilogue | None = None,
) -> ChainReduce | None:  # fmt: skip
    """Bind a chain with a reduction. Return None if the kernel cannot keep the order of additions
    or cannot take all operands.

    plain: the plan of the reduction without the chain. strides: stride bytes of out and of the
    inputs over `shape`, whose first n_reduced dimensions are reduced. out: the result's dtype.
    common: the code of the computation's dtype.
    """
    if type(plain) is not Reduce or len(plain.stages) > 1:
        return None
    layout = plain.stages[0][2].defines["LAYOUT"]
    count, dims = len(strides), variants.FEW_DIMS
    if layout == "CAST" or max(n_reduced, len(shape) - n_reduced) > dims:
        return None
    more = 0 if after is None else len(after.strides)
    bytes_of_params = 16 * (count + more) + 16 * len(packing) + 128
    bytes_of_params += 2 * dims * (16 + 8 * (count + more))
    if bytes_of_params > MAX_PARAMS_BYTES or not product(shape):
        return None
    # If the chain has no operators before the reduction, reduce.cu is used, because it reads packs
    # of columns.
    if after is not None and not body.steps and layout == "COLUMNS" and plain.last is None:
        return None
    return ChainReduce(plain, body, packing, out, shape, n_reduced, strides, common, after)
