"""Launches of chains: many operators on one layout as one kernel.

A layout is planned like the layout of one operator (pointwise_plan.py), but with any number of
outputs and inputs. Operands are tensors; numbers are scalars of the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

from ...core.geometry import Sizes
from . import (
    chain_source, launch, module, numbers, pointwise_launch, pointwise_plan, random_launch,
    variants,
)  # fmt: skip
from .chain_source import Body, Step

# The limit of a kernel's parameters on any GPU.
MAX_PARAMS_BYTES = 4096

# (slot, ~index into the scalars of the call, packer); see launch.Launch.
Packer = tuple[int, int, Any]


def packers(step: Step, sources: Sequence[int]) -> list[Packer]:
    """Return packers for a step's slots, as for the operator alone. sources: the call's scalar for
    each slot, in the order of the step's numbers."""
    if step.family in ("copy", "softmax"):
        return []
    slots = [~n for n in step.inputs if n < 0] + list(step.scalars)
    strides: list[Sizes | None] = [(0,), *[None if n < 0 else (0,) for n in step.inputs]]
    scalar = variants.storage(step.common)
    made = pointwise_launch.packers_of(
        step.family, step.op, "ROWS", scalar, step.common, strides
    )  # fmt: skip
    return [(slot, ~source, pack) for slot, source, (_, _, pack) in zip(slots, sources, made)]


def packers_of_stream(slot: int, source: int, op: str) -> list[Packer]:
    """Return packers for random numbers. source: the call's (seed, counter, first, second)."""
    pair = random_launch.packer(op)
    return [
        (slot, ~source, lambda stream: numbers.pair(stream[0], stream[1])),
        (slot + 1, ~source, lambda stream: pair(stream[2], stream[3])),
    ]


def bind(body: Body, layout: Any, packing: list[Packer]) -> Any:
    """Bind a chain to a layout. Returns callable(device_index, pointers, scalars), or None if the
    parameters are too long. layout: as in pointwise_launch, without numbers."""
    shape, strides = layout.shape or (1,), [s or (0,) for s in layout.stride_bytes]
    if launch.product(shape) == 0:
        return launch.EmptyLaunch()
    family = module.keep(chain_source.text(body))
    values = [numbers.EMPTY] * max(1, len(packing))
    n_outputs, sizes_of = len(body.stores), [d.itemsize for d in body.dtypes]
    if (
        len(shape) > variants.FEW_DIMS
        or _params_bytes(len(strides), len(values)) > MAX_PARAMS_BYTES
    ):
        return None
    fixed = {
        "OUTPUTS": str(n_outputs), "NUMBERS": str(len(values)),
    }  # fmt: skip
    if body.drawn:
        drawn = range(len(strides) - len(body.drawn), len(strides))
        fixed["DRAWN"] = str(sum([1 << j for j in drawn]))
    types = tuple([variants.storage(d) for d in body.dtypes])

    def one(sizes: Sizes, before: int) -> Any:
        plain = _strided(family, types, fixed, values, packing, sizes, strides)
        if launch.product(sizes) * 16 < pointwise_plan.SMALL_BYTES:
            return plain

        def make(lows: Sizes) -> launch.Launch:
            walk = pointwise_plan.Walk(sizes, [*strides], sizes_of, list(lows), n_outputs)
            plan = pointwise_plan.choose(walk, not body.drawn)
            if plan is None:
                return plain
            defines = variants.planned(chain_source.NAME, types[0], types, plan) | fixed
            return pointwise_launch.of_plan(
                family, "chain", defines, values, packing, walk, plan
            )  # fmt: skip

        made = pointwise_launch.ByAddress(make, tuple(range(len(strides))), has_numbers=False)
        return plain if made.at() is plain else made

    return launch.split(shape, strides, one)


def _strided(
    family: str, types: tuple[str, ...], fixed: dict[str, str], values: list[bytes],
    packing: list[Packer], shape: Sizes, strides: list[Sizes],
) -> launch.Launch:  # fmt: skip
    count, numel, dims = len(types), launch.product(shape), variants.FEW_DIMS
    defines = variants.define(chain_source.NAME, types[0], "STRIDED", dims) | fixed | {
        "TYPES": ",".join(types), "KINDS": ",".join(["RUNS"] * count),
        "WIDTHS": ",".join(["1"] * count), "UNIT": "1", "UNROLL": str(launch.STRIDED_UNROLL),
    }  # fmt: skip
    tail = Struct("<Ii").pack(numel, len(shape)) + launch.pack_dims(shape, strides, dims)
    threads = launch.threads_for(numel, launch.STRIDED_UNROLL)
    blocks = launch.blocks_for(numel, threads * launch.STRIDED_UNROLL)
    return launch.Launch(
        family, "chain_strided", defines, blocks, threads, count, values, packing, tail
    )


def _params_bytes(operands: int, values: int) -> int:
    dims = variants.FEW_DIMS * (16 + 8 * operands)
    return 8 * operands + 16 * values + 24 * operands + 64 + dims
