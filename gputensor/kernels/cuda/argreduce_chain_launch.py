"""Launches of chains that end in argmax, argmin, max or min: one kernel computes the elements and
compares them.

Rows are divided among threads and segments as in argreduce_launch.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

from ... import runtime
from ...core.geometry import Sizes
from . import chain_source, launch, module, numbers, variants
from .argreduce_launch import ArgReduce, walk_of
from .chain_launch import MAX_PARAMS_BYTES, Packer
from .chain_source import Body
from .launch import THREADS

ENTRY = "argreduce_chain"


class ChainArgReduce:
    """The launches of a chain that ends in argmax, argmin, max or min: one launch, or two if rows
    are divided into segments. The second launch combines the segments' results.

    plain: the launches of the search without the chain. walks: stride bytes of the indices, the
    values and the inputs over the rows. along: stride bytes of the inputs along a row.
    """

    __slots__ = ("plain", "first", "last")

    def __init__(
        self, plain: ArgReduce, body: Body, packing: list[Packer], kept: Sizes,
        walks: list[Sizes], along: list[int],
    ) -> None:  # fmt: skip
        self.plain = plain
        family = module.keep(chain_source.text(body, "argreduce_chain.cu", ("argreduce",)))
        types = [variants.storage(d) for d in body.dtypes]
        count, dims = len(types), variants.FEW_DIMS
        values = [numbers.EMPTY] * max(1, len(packing))
        defines = variants.define(plain.op, types[0], "CHAIN", dims) | {
            "CHAIN": chain_source.NAME, "TYPES": ",".join(types), "NUMBERS": str(len(values)),
            "KINDS": ",".join(["RUNS"] * count), "WIDTHS": ",".join(["1"] * count), "UNIT": "1",
            "UNROLL": "1", "OUTPUTS": "1",
        }  # fmt: skip
        tail = Struct(f"<{len(along)}q").pack(*along) + launch.pack_dims(kept, walks, dims)

        def one(of: int, per_segment: int, segments: int) -> launch.Launch:
            walk = walk_of(plain, of, per_segment, segments)
            return launch.Launch(
                family, ENTRY, defines, plain.groups * segments, THREADS, 2 + count, values,
                packing, walk + tail,
            )  # fmt: skip

        self.first = one(plain.count, plain.per_segment, plain.segments)
        self.last = one(plain.segments, plain.segments, 1) if plain.segments > 1 else None

    def __call__(
        self, device_index: int, operands: Sequence[int], scalars: Sequence[Any] = ()
    ) -> None:
        """Launch the kernels. operands: the address of the values (0 if no values are written),
        followed by the addresses of the indices and of the inputs."""
        values, out, *inputs = operands
        scalars = tuple(scalars)
        if self.last is None:
            self.first(device_index, (out, values, 0, *inputs), scalars)
            return
        plain = self.plain
        workspace = runtime.cuda().allocate(plain.rows * plain.segments * 8, device_index)
        self.first(device_index, (workspace.ptr, 0, 0, *inputs), scalars)
        self.last(device_index, (out, values, workspace.ptr, *inputs), scalars)


def bind(
    plain: Any, body: Body, packing: list[Packer], shape: Sizes, n_reduced: int,
    strides: list[Sizes],
) -> ChainArgReduce | None:  # fmt: skip
    """Return a ChainArgReduce, or None if one kernel does not support all operands. strides: the
    strides in bytes of the indices, the values and the inputs over `shape`. The first n_reduced
    dimensions of `shape` are reduced.
    """
    if type(plain) is not ArgReduce or n_reduced > 1:
        return None
    kept, count, dims = shape[n_reduced:], len(strides), variants.FEW_DIMS
    bytes_of_params = 16 * count + 16 * len(packing) + 128 + dims * (16 + 8 * count)
    if len(kept) > dims or bytes_of_params > MAX_PARAMS_BYTES:
        return None
    along = [s[0] if n_reduced else 0 for s in strides[2:]]
    return ChainArgReduce(plain, body, packing, kept, [s[n_reduced:] for s in strides], along)
