"""Launches of chains: many operators over one layout run as one kernel.

A chain's launch is planned like a single operator's (pointwise_plan.py), with any number of outputs
and inputs. Operands are tensors; numbers are scalars of the call. `Lists` launches a chain over
many dense tensors at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from struct import Struct
from typing import Any

from ...core.dtype import dtype
from ...core.geometry import Sizes
from . import (
    chain_source, launch, module, numbers, pointwise_launch, pointwise_plan, random_launch,
    variants,
)  # fmt: skip
from .chain_source import Body, Step

# Every GPU accepts parameters of up to this size.
MAX_PARAMS_BYTES = 4096

# (slot, ~(index of a scalar of the call), packer): see `packers` in launch.Launch.
Packer = tuple[int, int, Any]


class ByAlignment:
    """Two launches of one kernel: for operands whose addresses are multiples of 16, and for others.

    make: a function that takes the number of elements of one access to each operand, and returns
    the launch. widths: these numbers for aligned operands. first: the place of the first of these
    operands among the addresses of a call.
    """

    __slots__ = ("aligned", "unaligned", "running")

    def __init__(
        self, make: Callable[[list[int]], launch.Launch], widths: list[int], first: int = 0
    ) -> None:
        self.unaligned = make([1] * len(widths))
        self.aligned = make(widths) if max(widths, default=1) > 1 else self.unaligned
        # The operands whose alignment is tested.
        self.running: list[int] = [n for n, width in enumerate(widths, first) if width > 1]

    def __call__(
        self, device_index: int, addresses: Sequence[int], scalars: Sequence[Any] = ()
    ) -> None:
        is_aligned = not any([addresses[n] & 15 for n in self.running])
        one = self.aligned if is_aligned else self.unaligned
        one(device_index, tuple(addresses), tuple(scalars))


def kinds_of(steps: Sequence[int], dtypes: Sequence[dtype]) -> list[str]:
    """Return the kind of each operand. steps: the bytes from one element of a row to the next."""
    return ["RUNS" if x == d.itemsize else "STEPS" if x else "STAYS" for x, d in zip(steps, dtypes)]


def packers(step: Step, sources: Sequence[int]) -> list[Packer]:
    """Return a packer for each number of a step. A number is packed as in a call of the step's
    operator alone. sources: for each number, its index among the scalars of the call."""
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
    """Return packers for the parameters of random numbers. source: the index of the tuple (seed,
    counter, first, second) among the scalars of the call."""
    pair = random_launch.packer(op)
    return [
        (slot, ~source, lambda stream: numbers.pair(stream[0], stream[1])),
        (slot + 1, ~source, lambda stream: pair(stream[2], stream[3])),
    ]


def bind(body: Body, layout: Any, packing: list[Packer]) -> Any:
    """Bind a chain to a layout. Return callable(device_index, pointers, scalars), or None if there
    are too many dimensions or too many parameters. layout: as in pointwise_launch, but all operands
    are tensors."""
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


class Lists(launch.Queued):
    """A chain that runs over many tuples of dense tensors, such as a parameter and its gradient.
    All tensors have one dtype, and the tensors of a tuple have equal sizes. One launch takes as
    many tuples as its parameters can hold.

    at: for each operand, outputs first, its index among the tensors of a tuple. most: the maximum
    number of tuples in a launch, a multiple of four. stays: operands with one element for the whole
    tuple.
    """

    __slots__ = ("family", "packing", "n_values", "most", "per_block", "pack")

    def __init__(
        self, body: Body, at: Sequence[int], packing: list[Packer], most: int, stays: Sequence[int]
    ) -> None:
        itemsize, count, n_outputs = body.dtypes[0].itemsize, len(body.dtypes), len(body.stores)
        self.family: str = module.keep(chain_source.text(body))
        self.packing, self.n_values, self.most = packing, max(1, len(packing)), most
        # Plan the launch as for one long tensor.
        walk = pointwise_plan.Walk(
            (launch.MAX_NUMEL,), [(0 if j in stays else itemsize,) for j in range(count)],
            [itemsize] * count, [0] * count, n_outputs,
        )  # fmt: skip
        plan, scalar = pointwise_plan.rows(walk), variants.storage(body.dtypes[0])
        super().__init__(variants.planned(chain_source.NAME, scalar, (scalar,) * count, plan) | {
            "LAYOUT": "LISTS", "OUTPUTS": str(n_outputs), "NUMBERS": str(self.n_values),
            "AT": ",".join(map(str, at)), "ADDRESSES": str(max(at) + 1),
            "TUPLES_AT_MOST": str(most),
        })  # fmt: skip
        self.per_block: int = launch.THREADS * plan.unit * plan.unroll
        self.pack = Struct(f"<{most * (max(at) + 2)}Q{most}II12x").pack

    def __call__(
        self, device_index: int, tuples: Sequence[tuple[int, Sequence[int]]], scalars: Sequence[Any]
    ) -> None:
        """Launch the chain on tuples of tensors. tuples: for each tuple, the number of elements
        that the chain computes, and the addresses of the tensors."""
        values = [numbers.EMPTY] * self.n_values
        for slot, source, packer in self.packing:
            values[slot] = packer(scalars[~source])
        head, listed = b"".join(values), [x for x in tuples if x[0]]
        for start in range(0, len(listed), self.most):
            self._launch_part(device_index, head, listed[start : start + self.most])

    def _launch_part(
        self, device_index: int, head: bytes, tuples: Sequence[tuple[int, Sequence[int]]]
    ) -> None:
        count = len(tuples)
        blocks = [launch.blocks_for(numel, self.per_block) for numel, _ in tuples]
        *first, total = accumulate(blocks, initial=0)
        rest = self.most - count
        addresses = [x for _, found in tuples for x in found]
        numel = [numel for numel, _ in tuples]
        params = head + self.pack(
            *addresses, *(0,) * (rest * (len(addresses) // count)), *numel, *(0,) * rest,
            *first, *(0,) * rest, count,
        )  # fmt: skip
        self.launch(device_index, self.family, "chain_lists", total, params)


def bind_lists(
    body: Body, at: Sequence[int], packing: list[Packer], stays: Sequence[int] = ()
) -> Lists | None:
    """Bind a chain to tuples of tensors: see `Lists`. Return None if the operands differ in dtype,
    or the parameters are too long."""
    given = MAX_PARAMS_BYTES - 16 - len(numbers.EMPTY) * max(1, len(packing))
    most = given // (8 * (max(at) + 1) + 12) // 4 * 4
    if most <= 0 or any([of is not body.dtypes[0] for of in body.dtypes]):
        return None
    return Lists(body, at, packing, most, stays)
