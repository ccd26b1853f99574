"""Casts as members of a chain: `x.to(dtype)` on one device, with the layout that it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dtype import dtype
from ..core.geometry import Geometry, geometry
from ..core.memory_format import preserve_format
from ..dispatch.keys import LAZY
from ..dispatch.operator import Operator
from ..iterator.config import COPY
from ..iterator.plan import build
from ..kernels import stub
from ..structured.pointwise import Rule
from .chain import Recorded
from .recorder import current

# The operator that every cast to a new tensor ends in.
NAME = "aten::_to_copy"
_RULE = Rule("copy", "copy", COPY)
_BOUND = 1 << 11


class _Cast:
    """What `Recorded` asks an entry for."""

    __slots__ = ("rule", "name", "plan", "kinds", "bound", "loop")

    def __init__(self, source: Geometry, to: Geometry, place: Any) -> None:
        self.rule, self.name, self.kinds = _RULE, "copy", (source.dtype,)
        self.plan = build("copy_", COPY, ((to, place),), ((source, place),), default_dtype=None)
        copy = stub.cpu("copy").copy
        self.bound = self.loop = lambda x, out: copy(out, x)


def recording(operator: Operator, below: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of `_to_copy` at Fuse."""
    known: dict[Any, Recorded] = {}

    def record(
        key_set: int, self: Any, element: dtype | None = None, layout: Any = None,
        device: Any = None, pin_memory: Any = None, non_blocking: bool = False,
        memory_format: Any = None,
    ) -> Any:  # fmt: skip
        source, place, recorder = self._geometry, self._device, current.get()
        if (
            recorder is None or element is None or element is source.dtype or layout is not None
            or device is not None and device is not place or pin_memory or self._keys & LAZY
            or memory_format is not None and memory_format is not preserve_format
            or source.dtype.is_complex or element.is_complex or place.type == "meta"
            or not source.is_non_overlapping_and_dense
        ):  # fmt: skip
            return below(
                key_set, self, element, layout, device, pin_memory, non_blocking, memory_format
            )
        key = (source, element, place)
        what = known.get(key)
        if what is None:
            if len(known) >= _BOUND:
                known.clear()
            entry = _Cast(source, geometry(source.sizes, source.strides, element), place)
            what = known[key] = Recorded(operator, entry.kinds, entry)
        made = recorder.record(what, (self,), ())
        if made is not None:
            return made
        return below(
            key_set, self, element, layout, device, pin_memory, non_blocking, memory_format
        )

    return record
