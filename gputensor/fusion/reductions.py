"""Reductions as members of a chain.

Note [A chain that is reduced]
A reduction of what is recorded goes into the same recording. It takes the elements as they are
computed, and they are stored only if somebody asks for them. Its result is pending, too. What reads
it is another chain; but where rows are short, what broadcasts their results back goes on in the
same blocks, so that a softmax reads once. A large operand that is there already is recorded as
well, so that whatever else reads it may come along: a sum and a sum of squares read it once. A
small one is, where that lets the next call be replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dtype import float16
from ..dispatch.keys import LAZY
from ..dispatch.operator import Operator
from ..makers.rows import bound
from ..structured.pointwise import Rule
from ..tensor.tensor import Tensor
from . import standing
from .chain import Recorded
from .pending import Pending
from .recorder import current

# Elements from which on reading an operand once more costs more than recording.
LARGE = 1 << 16
# Elements of a row that is short.
_SHORT = 1 << 14


def is_one(operator: Operator) -> bool:
    """Whether it is the functional form of a reduction of kernels/<device>/reduce."""
    if operator not in bound or "reduction" not in operator.tags:
        return False
    factory = bound[operator][0]
    return bool(factory.__module__.endswith("native.reduce")) and factory.__name__ == "functional"


def recording(
    operator: Operator, below: Callable[..., Any], is_own: Callable[[Any], bool]
) -> Callable[..., Any]:
    """The kernel of a reduction at Fuse. is_own: whether calls for a device come to our kernel."""
    factory, loop = bound[operator]
    made = factory(standing.Standing(operator, _Entry), loop)
    kernel: Callable[..., Any] = made[1] if type(made) is tuple else made
    ours: dict[Any, bool] = {}

    def record(key_set: int, self: Any, *args: Any) -> Any:
        place, recorder = self._device, current.get()
        shape = self._geometry
        if (
            recorder is None or self._keys & LAZY or place.type == "meta"
            or shape.numel < LARGE and type(self._storage) is not Pending
            and recorder.trace is None
            or not shape.is_non_overlapping_and_dense or shape.numel == 0
        ):  # fmt: skip
            return below(key_set, self, *args)
        if place not in ours:
            ours[place] = is_own(place)
        if not ours[place]:
            return below(key_set, self, *args)
        try:
            return kernel(key_set, self, *args)
        except _Now:
            return below(key_set, self, *args)

    return record


class _Now(Exception):
    """It has to run at once."""


class _Entry:
    """Stands for an entry of native/reduce.py, and is what `Recorded` asks for the rest."""

    __slots__ = ("operator", "rule", "name", "plan", "run", "axes", "keepdim", "write", "what")
    is_fresh = False

    def __init__(self, operator: Operator, real: Any) -> None:
        self.operator, self.name, self.plan = operator, real.loop, real.plan
        self.run, self.axes, self.keepdim, self.write = (
            real.run,
            real.axes,
            real.keepdim,
            real.write,
        )
        self.rule = Rule("reduce", real.loop, None)
        self.what: Recorded | None = None

    def _is_of_short_rows(self, shape: Any, axes: tuple[int, ...]) -> bool:
        """Whether a part of the operand that stays in the cache has whole rows, each of which is
        reduced as it is beside any others. See `cpu_reductions._Reduction.is_by_rows`."""
        given, compute, numel = shape.dtype, self.plan.common_dtype, shape.numel
        if self.plan.device.type != "cpu" or self.axes is None:
            return False
        slowest = max(
            range(shape.ndim), key=lambda d: shape.strides[d] if shape.sizes[d] > 1 else -1
        )
        is_alone = given is compute and (given.itemsize > 2 or given is float16)
        return is_alone and slowest not in axes and numel // shape.sizes[slowest] <= _SHORT

    def fresh(self, source: Tensor) -> Tensor:
        what = self.what
        if what is None:
            shape = source._geometry
            axes = tuple(range(shape.ndim)) if self.axes is None else self.axes
            feeds = self.keepdim and self._is_of_short_rows(shape, axes)
            what = self.what = Recorded(self.operator, (shape.dtype,), self, axes, shape, feeds)
        recorder = current.get()
        made = None if recorder is None else recorder.record(what, (source,), ())
        if made is None:
            raise _Now
        return made
