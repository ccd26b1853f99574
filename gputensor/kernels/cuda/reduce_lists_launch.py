"""Reductions of many dense tensors of one dtype, each to one number, in one launch or two.

Each tensor has the lanes and segments of a reduction in reduce_launch.py, so the results have the
same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from struct import Struct
from types import SimpleNamespace
from typing import NamedTuple

from ...core.dtype import STORED, dtype
from ...runtime import cuda as chosen
from . import chain_source, launch, module, numbers, reduce_launch, variants
from .chain_launch import MAX_PARAMS_BYTES
from .chain_source import Body

ENTRY = "reduce_lists"
# The maximum number of tensors per launch. The parameters of a tensor take 16 bytes for addresses
# and 16 bytes for numbers.
MOST = (MAX_PARAMS_BYTES - 16 - 16) // 32
_PACK = Struct(f"<{2 * MOST}Q{4 * MOST + 1}IIi4x").pack
_OF_NAME = {variants.storage(d): d for d in STORED}


class Part(NamedTuple):
    """The reduction of one tensor: addresses, number of elements, and its share of a launch."""

    out: int
    x: int
    run: int
    per_segment: int
    lane_bits: int
    segments: int


class _Stage(launch.Queued):
    """One launch for many tensors. stage: the launch for one tensor alone."""

    __slots__ = ("family",)

    def __init__(self, body: Body, stage: reduce_launch.Stage) -> None:
        result, given = body.dtypes
        pack = launch.PACK_BYTES // result.itemsize
        types = f"{variants.storage(result)},{variants.storage(given)}"
        self.family: str = module.keep(chain_source.text(body, "reduce_lists.cu", ("reduce",)))
        super().__init__({
            **variants.define(stage.defines["OP"], stage.defines["SCALAR"], "CHAIN"),
            "CHAIN": chain_source.NAME, "TYPES": types, "KINDS": "RUNS,RUNS", "OUTPUTS": "1",
            "WIDTHS": f"1,{pack}", "UNIT": str(pack), "UNROLL": str(launch.STRIDED_UNROLL),
            "CHAINS": str(max(4 // pack, 1)), "NUMBERS": "1", "TUPLES_AT_MOST": str(MOST),
        })  # fmt: skip

    def __call__(self, device_index: int, parts: Sequence[Part], out: dtype) -> None:
        for start in range(0, len(parts), MOST):
            self._launch_part(device_index, parts[start : start + MOST], out)

    def _launch_part(self, device_index: int, parts: Sequence[Part], out: dtype) -> None:
        rest = (0,) * (MOST - len(parts))
        first = [*accumulate([x.segments for x in parts], initial=0)]
        params = numbers.EMPTY + _PACK(
            *[x.out for x in parts], *rest, *[x.x for x in parts], *rest,
            *[x.run for x in parts], *rest, *[x.per_segment for x in parts], *rest,
            *[x.lane_bits for x in parts], *rest, *first, *rest, len(parts), out.code,
        )  # fmt: skip
        self.launch(device_index, self.family, ENTRY, first[-1], params)


class Lists:
    """The reduction `op` of a chain, applied to each tensor of a list. body: the chain, with one
    input and one result. The numbers that the reduction returns have the dtype of the chain's
    result."""

    __slots__ = ("op", "of", "first", "last", "partial_bytes", "_alone")

    def __init__(self, op: str, body: Body) -> None:
        self.op, self.of = op, body.dtypes[0]
        self._alone = lru_cache(maxsize=1 << 10)(self._made_alone)
        two = self._alone(1 << 25)
        assert two is not None and two.last is not None
        name = two.last.defines["SCALAR"]
        partial = _OF_NAME[name]
        self.partial_bytes: int = partial.itemsize
        self.first = _Stage(body, two.stages[0][2])
        self.last = _Stage(Body((partial,), (), (0,)), two.last)

    def _made_alone(self, numel: int) -> reduce_launch.Reduce | None:
        """Return the reduction of one tensor, or None if it needs several launches to read the
        input."""
        layout = SimpleNamespace(
            shape=(numel,), stride_bytes=[(0,), (self.of.itemsize,)], dtypes=(self.of, self.of),
            common_dtype=self.of, n_reduced=1,
        )  # fmt: skip
        made = reduce_launch.bind("reduce", self.op, layout)
        return made if len(made.stages) == 1 else None

    def __call__(self, device_index: int, tensors: Sequence[tuple[int, int]], out: int) -> bool:
        """Launch the reductions. tensors: for each tensor, its address and its number of elements.
        out: the address of the results, which are stored one after the other. Return False, without
        a launch, if a tensor is too large."""
        plans = [of for _, numel in tensors if (of := self._alone(numel)) is not None]
        if len(plans) < len(tensors):
            return False
        first, last, rows = [], [], 0
        for number, ((x, numel), plan) in enumerate(zip(tensors, plans)):
            stage, to = plan.stages[0][2], out + number * self.of.itemsize
            share = numel, stage.per_segment, stage.lane_bits, stage.segments
            if plan.last is not None:
                end = plan.last
                last.append(Part(to, rows, stage.segments, end.per_segment, end.lane_bits, 1))
                to = ~rows
                rows += stage.segments
            first.append(Part(to, x, *share))
        if not rows:
            self.first(device_index, first, self.of)
            return True
        # The workspace may be freed while the launches are queued: see reduce_launch.py.
        workspace = chosen().allocate(rows * self.partial_bytes, device_index)
        base, size = workspace.ptr, self.partial_bytes
        first = [x if x.out >= 0 else x._replace(out=base + ~x.out * size) for x in first]
        self.first(device_index, first, self.of)
        self.last(device_index, [x._replace(x=base + x.x * size) for x in last], self.of)
        return True
