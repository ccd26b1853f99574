"""Reductions as members of a chain: sums and similar operators.

Note [A chain that is reduced]
A reduction of a recorded value joins its recording. The reduction reads elements while they are
computed, and they are stored only if needed. The reduction's result is pending, too. Readers of the
result form another chain. If rows are short, however, operators that broadcast the result back to
the rows continue in the same chain, so that a softmax reads its operand once. A reduction of a
large computed operand is recorded as well, so that other readers can join it: a sum and a sum of
squares read the operand once. A small computed operand is recorded if that allows the next call to
be replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ...core.device import CPU
from ...core.geometry import Geometry
from ...dispatch.keys import LAZY
from ...dispatch.operator import Operator
from ...kernels import stub
from ...kernels.cpu import quiet
from ...registrations.rows import bound
from ...structured.pointwise import Rule
from ...tensor.tensor import Tensor
from ..chain import Recorded
from ..record.pending import Pending
from ..record.recorder import current, kernels_of

# For operands of at least this number of elements, a second read costs more than recording.
LARGE = 1 << 16
# The maximum number of elements in a short row.
SHORT = 1 << 14
_BOUND = 1 << 11


def is_one(operator: Operator) -> bool:
    """True for the functional form of a reduction that is implemented in
    kernels/<device>/reduce."""
    if operator not in bound or "reduction" not in operator.tags:
        return False
    factory = bound[operator][0]
    return bool(factory.__module__.endswith(".reduce") and factory.__name__ == "functional")


def has_short_rows(shape: Geometry, dims: tuple[int, ...], place: Any) -> bool:
    """True if operators that read the rows' results may join the chain on the CPU. The condition:
    if the operand is cut along its slowest dimension, each part is short and consists of whole rows
    over `dims`."""
    strides, sizes = shape.strides, shape.sizes
    at = max(range(shape.ndim), key=lambda d: strides[d] if sizes[d] > 1 else -1, default=0)
    return place is CPU and at not in dims and shape.numel // sizes[at] <= SHORT


def recording(
    operator: Operator, below: Callable[..., Any], is_own: Callable[[Any], bool]
) -> Callable[..., Any]:
    """Return a reduction's kernel for the key Fuse. is_own: a function of a device; True if calls
    on this device reach gputensor's own kernel."""
    kernel = kernels_of(operator, _Entry)[-1]

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
        try:
            return (kernel if is_own(place) else below)(key_set, self, *args)
        except _Now:
            return below(key_set, self, *args)

    return record


class _Now(Exception):
    """Raised if the reduction must run now."""


class _Entry:
    """Substitute for an entry of native/reduce.py. The substitute records the call, and has the
    attributes that `Recorded` reads."""

    is_fresh = False

    def __init__(self, operator: Operator, real: Any) -> None:
        self.operator, self.name, self.plan = operator, real.loop, real.plan
        self.run, self.axes, self.keepdim = real.run, real.axes, real.keepdim
        self.real, self.rule = real, Rule("reduce", real.loop, None)
        self.what: Recorded | None = None

    def over(self, source: Geometry) -> _Entry:
        return _Entry(self.operator, self.real.over(source))

    @property
    def program(self) -> Callable[..., Any] | None:
        """The compiled loop as the program of a stage, or None if there is none."""
        run, axes, keepdim = self.run, self.axes, self.keepdim
        if self.plan.device is not CPU or not stub.is_compiled(run):
            return None
        return lambda out, x, *rest: run(x, axes, None, out, keepdim)

    def write(self, outs: Any, inputs: Any, params: Any) -> None:
        """Run the operator alone, over values of a stage."""
        if self.plan.device is CPU:
            quiet.run(self.run, inputs[0], self.axes, None, outs[0], self.keepdim)
        else:
            self.real.write(outs[0], inputs[0])

    def _feeds(self, shape: Geometry, axes: tuple[int, ...]) -> bool:
        """True if operators that read the result may join the chain."""
        if self.axes is None or not self.keepdim:
            return False
        # On CUDA, the reduction must be a single launch over short rows, because the chain's kernel
        # may read a row again.
        if self.plan.device.type == "cuda":
            from ...kernels.cuda.rows_chain_launch import stage_of

            count = prod([shape.sizes[d] for d in axes])
            return self.plan.n_reduced == 1 and count <= SHORT and stage_of(self.run) is not None
        return has_short_rows(shape, axes, self.plan.device)

    def fresh(self, source: Tensor) -> Tensor:
        what = self.what
        if what is None:
            shape = source._geometry
            axes = tuple(range(shape.ndim)) if self.axes is None else self.axes
            feeds = self._feeds(shape, axes)
            what = self.what = Recorded(self.operator, (shape.dtype,), self, axes, shape, feeds)
        recorder = current.get()
        if recorder is None or not (made := recorder.record([what], (source,), ())):
            raise _Now
        return made[0]
