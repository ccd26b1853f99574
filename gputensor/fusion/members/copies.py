"""Copies as members of a chain: casts, and copies to another layout or to existing memory, on one
device.

Note [A chain of several layouts]
The result of a layout copy has the walk's sizes and its own strides. Its elements equal its
operand's, so later steps read the operand, and only a store uses the new layout. From then on,
results of both layouts are recorded in the same recording. A copy of a recorded tensor with its
dimensions in another order (`x.permute(2, 0, 1).contiguous()`) is a layout copy seen in the walk's
order, `turned`; its readers are in another chain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

from ..._generated import calls, operators
from ...core.device import CPU
from ...core.dtype import dtype
from ...core.geometry import Geometry, geometry
from ...core.memory_format import contiguous_format, preserve_format, strides_for
from ...dispatch.keys import LAZY
from ...dispatch.operator import Operator, Table
from ...iterator.config import COPY
from ...iterator.order import dense_strides_like
from ...iterator.plan import build
from ...kernels import stub
from ...kernels.cpu import quiet
from ...tensor.make import from_storage
from ...tensor.tensor import Tensor
from ..chain import Entry, Recorded
from ..record.pending import Pending
from ..record.recorder import Recorder, current

# The operators that make copies. The first two make new tensors, the third writes to existing
# memory.
NAMES = ("aten::_to_copy", "aten::clone", "aten::copy_")
_BOUND = 1 << 11
_Kernel = Callable[..., Any]


@lru_cache(_BOUND)
def _known(
    operator: Operator, source: Geometry, to: Geometry, walk: Geometry, turned: Any, place: Any
) -> Recorded:  # fmt: skip
    plan = build("copy_", COPY, ((to, place),), ((source, place),), default_dtype=None)

    def write(outs: Any, inputs: Any, params: Any) -> None:
        if place is CPU:
            quiet.run(stub.cpu("copy").copy, outs[0], inputs[0])
        else:
            calls.copy_(outs[0], inputs[0], False)

    entry, seen = Entry("copy", "copy", plan, (source.dtype,), write), to
    if turned is not None:
        seen = geometry(walk.sizes, tuple([to.strides[d] for d in turned]), to.dtype)
    return Recorded(operator, entry.kinds, entry, walk=walk, seen=seen)


def recording(operator: Operator, below: _Kernel, is_own: Callable[[Table, Any], bool]) -> _Kernel:
    """Return the kernel at key Fuse of an operator in `NAMES`. is_own: a function of a table and a
    device; True if calls on this device reach gputensor's own kernel."""
    copies = _Copies(operator, is_own)
    if operator.qualified_name == NAMES[1]:

        def clone(key_set: int, self: Any, memory_format: Any = None) -> Any:
            made = copies.made(self, self._geometry.dtype, memory_format)
            return below(key_set, self, memory_format) if made is None else made

        return clone
    if operator.qualified_name == NAMES[2]:

        def copy_(key_set: int, self: Any, src: Any, non_blocking: bool = False) -> Any:
            if copies.written(self, src):
                return self
            return below(key_set, self, src, non_blocking)

        return copy_

    def to_copy(
        key_set: int, self: Any, element: dtype | None = None, layout: Any = None,
        device: Any = None, pin_memory: Any = None, non_blocking: bool = False,
        memory_format: Any = None,
    ) -> Any:  # fmt: skip
        made = None
        if layout is None and not pin_memory and (device is None or device is self._device):
            made = copies.made(self, element or self._geometry.dtype, memory_format)
        if made is not None:
            return made
        return below(
            key_set, self, element, layout, device, pin_memory, non_blocking, memory_format
        )

    return to_copy


class _Copies:
    """The recorder of the copies that one operator makes."""

    def __init__(self, operator: Operator, is_own: Callable[[Table, Any], bool]) -> None:
        self.operator, self.is_own = operator, is_own
        self._ours: tuple[Any, Callable[[Any], bool]] = None, bool

    def _is_ours(self, place: Any) -> bool:
        table = operators.copy_.table
        if table is not self._ours[0]:
            self._ours = table, cache(partial(self.is_own, table))
        return self._ours[1](place)

    def made(self, x: Any, element: Any, form: Any) -> Tensor | None:
        """Record a copy to a new tensor. Return None if the copy must run now."""
        recorder, shape, place = current.get(), x._geometry, x._device
        if (
            recorder is None or type(x) is not Tensor or x._keys & LAZY or shape.numel == 0
            or place.type == "meta" or type(element) is not dtype or not self._is_ours(place)
            or element is not shape.dtype and (shape.dtype.is_complex or element.is_complex)
        ):  # fmt: skip
            return None
        strides = _strides(shape, form)
        if strides is None:
            return None
        if element is not shape.dtype and shape.is_non_overlapping_and_dense:
            # The copy is recorded as two steps: a cast that keeps its operand's layout, then the
            # change of layout.
            cast = self._recorded(recorder, x, geometry(shape.sizes, shape.strides, element))
            if cast is None or strides == shape.strides:
                return cast
            x, shape = cast, cast._geometry
        return self._recorded(recorder, x, geometry(shape.sizes, strides, element))

    def written(self, out: Any, x: Any) -> bool:
        """Record a copy to `out`. Return False if the copy must run now."""
        recorder, place = current.get(), out._device
        if (
            recorder is None or out is x or type(out) is not Tensor or type(x) is not Tensor
            or (out._keys | x._keys) & LAZY or place is not x._device or place.type == "meta"
            or out._geometry.numel == 0 or not self._is_ours(place)
        ):  # fmt: skip
            return False
        shape, to, storage = x._geometry, out._geometry, x._get_storage()
        if shape.dtype is not to.dtype and (shape.dtype.is_complex or to.dtype.is_complex):
            return False
        is_pending = type(storage) is Pending
        if storage is out._get_storage() or is_pending and shape.sizes != to.sizes:
            return False
        walk, turned = self._step(recorder, out), None
        if walk is None:  # existing memory
            walk = self._step(recorder, x)
            if walk is None:
                return False
            turned = None if shape is walk else _order(shape, walk)
            # A chain that runs in blocks must not read memory that an earlier block has written.
            if shape is not walk and (turned is None or storage._array.reads(out._storage)):
                return False
        elif walk is not to:
            return False
        what = _known(self.operator, shape, to, walk, turned, place)
        if turned is not None:
            x = from_storage(x._storage, 0, walk, x._keys)
        return recorder.record_into(what, out, (x,), ())

    def _step(self, recorder: Recorder, x: Tensor) -> Geometry | None:
        """Return the geometry of x with the walk's dimensions. Return None if x is not a result of
        this recorder's open recording."""
        storage = x._storage
        if type(storage) is not Pending or x._offset:
            return None
        held, number = storage._array, storage._step
        step = held.steps[number][0]
        is_one = step.reduces is None and held.is_open and held.recorder is recorder
        return step.seen if is_one else None

    def _recorded(self, recorder: Recorder, x: Tensor, to: Geometry) -> Tensor | None:
        shape, walk, turned = x._geometry, to, None
        seen = self._step(recorder, x)
        if seen is not None:
            turned = None if shape is seen else _order(shape, seen)
            if turned is not None or shape is seen:
                walk = seen
        what = _known(self.operator, shape, to, walk, turned, x._device)
        if turned is not None:
            x = from_storage(x._storage, 0, walk, x._keys)
        return next(iter(recorder.record([what], (x,), ())), None)


def _strides(shape: Geometry, form: Any) -> tuple[int, ...] | None:
    """Return the strides of the copy, or None if the operator rejects the memory format."""
    if form is None or form is preserve_format:
        return dense_strides_like(shape)
    if form is contiguous_format or getattr(form, "rank", -1) == shape.ndim:
        return strides_for("clone", shape.sizes, form)
    return None


def _order(shape: Geometry, base: Geometry) -> tuple[int, ...] | None:
    """Return, for each dimension of `base`, its index in `shape`. Return None if the dimensions of
    `shape` are not a permutation of base's dimensions."""
    if shape.ndim != base.ndim or shape.dtype is not base.dtype:
        return None
    left = list(zip(shape.sizes, shape.strides))
    order = []
    for dim in zip(base.sizes, base.strides):
        if dim not in left:
            return None
        order.append(left.index(dim))
        left[order[-1]] = (-1, -1)
    return tuple(order)
