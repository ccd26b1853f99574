"""Kernels of the operators at the dispatch key Fuse. A kernel records the call, or first computes
pending operands and then runs the operator.

Operators with a kernel factory in `registrations/_generated/` and the tag pointwise are recorded.
The factory makes the operator's CPU kernel again, for an operator whose plans record. So the same
code as in eager mode checks arguments, promotes dtypes and lays out results, and raises the same
errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ...core.device import device
from ...core.geometry import Geometry
from ...dispatch import backend_select, dispatcher, keys, shortcuts, tls
from ...dispatch.operator import Operator, Table, passing
from ...registrations.rows import bound
from ...native import criterion, random
from ...structured import pointwise
from ...tensor.tensor import Tensor
from ..members import copies, drawing, reductions, rows
from . import quick
from ..chain import Recorded
from .pending import Pending
from .recorder import current, kernels_of, runs_at_once

_KEY = keys.key("Fuse")
FUSE = keys.FUSE
BELOW = keys.below("Fuse")
_state = tls.state


def install() -> None:
    """Register the fallback of the key Fuse, once."""
    if _KEY not in dispatcher.fallbacks():
        places = ((shortcuts.CPU, "cpu"), (shortcuts.CUDA, "cuda")) if shortcuts.is_on else ()
        for key_set, place in places:
            for plain in (key_set, key_set & keys.BELOW_ADINPLACEORVIEW):
                passing[plain | FUSE] = partial(quick.before, plain, place)
        random.later = drawing.later
        shortcuts.in_block[0] = runs_at_once
        dispatcher.register_fallback(_KEY, _make, "maker")


def _make(table: Table, key_set: int) -> Callable[..., Any]:
    operator = table.operator
    below, is_own = _below(table), cache(partial(_is_own, table))
    if operator.qualified_name in copies.NAMES:
        return copies.recording(operator, below, _is_own)
    if operator.qualified_name in drawing.NAMES:
        return drawing.recording(operator, below, is_own)
    if operator.qualified_name in rows.MAKERS:
        return rows.recording(operator, below, is_own)
    if reductions.is_one(operator):
        return reductions.recording(operator, below, is_own)
    factory, _ = bound.get(operator, (None, ""))
    # Losses are recorded, too: they are elementwise operators, perhaps with a reduction.
    if factory is None or factory is not criterion.functional and "pointwise" not in operator.tags:
        return below
    places = [n for n, a in enumerate(operator.schema.arguments) if a.type.has_tensor]
    kernels: dict[device, Callable[..., Any]] = {}

    def record(key_set: int, *args: Any) -> Any:
        place = None
        for n in places:
            x = args[n]
            if hasattr(x, "_device"):
                if place is None:
                    place = x._device
                elif x._device is not place:
                    return below(key_set, *args)
        if place is None or place.type == "meta":
            return below(key_set, *args)
        kernel = kernels.get(place)
        if kernel is None:
            kernel = kernels_of(operator, _Entry)[0] if is_own(place) else below
            kernels[place] = kernel
        return kernel(key_set & BELOW, *args)

    return record


def _is_own(table: Table, place: device) -> bool:
    """True if the call would reach our kernel and not a user's kernel."""
    backend = keys.highest(backend_select.DENSE_KEYS[place.type])
    kernel, _ = table.slot(backend)
    return kernel is not None and kernel.convention == "native"


# The calling conventions of our kernels. Users' kernels have other conventions.
_OURS = frozenset(("native", "maker", "fallthrough"))
# Operators that return uninitialised memory. No result can depend on its elements before they are
# written.
_EMPTY = frozenset(
    ("aten::empty_like", "aten::new_empty", "aten::empty.memory_format", "aten::empty_strided")
)
# Operators that run as a composition of recorded operators, even if the call may be replayed.
_IN_PARTS = frozenset(
    ("aten::logsumexp", "aten::max", "aten::min", "aten::aminmax", "aten::_safe_softmax")
)

# Positions of arguments that an operator writes although its schema, which is PyTorch's, does not
# declare this: the running statistics.
_WRITTEN = {"aten::native_batch_norm": (3, 4)}


def _below(table: Table) -> Callable[..., Any]:
    operator, schema = table.operator, table.signature.schema
    written = [n for n, a in enumerate(schema.arguments) if a.is_write]
    written += _WRITTEN.get(operator.qualified_name, ())
    is_view = not written and any(r.aliases for r in (x.type for x in schema.returns))
    is_composite = (
        keys.CompositeImplicitAutograd in operator.kernels or operator.qualified_name in _IN_PARTS
    )  # fmt: skip
    is_explicit = not written and keys.CompositeExplicitAutograd in operator.kernels

    is_ours = _OURS.issuperset([x.convention for found in operator.kernels.values() for x in found])
    is_random = "nondeterministic_seeded" in operator.tags
    # True if the operator obtains its random numbers from the fill operators, which are recorded.
    is_drawn = is_ours and not operator.qualified_name.startswith("aten::randperm")
    is_empty = operator.qualified_name in _EMPTY
    is_seen = not is_composite and not (is_empty and is_ours)

    # Only Fuse is removed from the key set. Keys above Fuse stay, even if their kernels have run
    # already, because clone passes the key set on to copy_, which may have kernels at these keys.
    def pass_on(key_set: int, *args: Any) -> Any:
        key_set &= ~FUSE
        recorder = current.get()
        if not is_ours and recorder is not None:
            recorder.leave(f"{operator.short_name} is about to run")
        trace = recorder.trace if is_seen and recorder is not None else None
        if trace is None:
            return operator.redispatch_table[key_set](key_set, *args)
        trace.begin(operator)
        made = operator.redispatch_table[key_set](key_set, *args)
        trace.end(operator, args, made)
        return made

    def run_first(key_set: int, *args: Any) -> Any:
        recorder = current.get()
        trace = None if recorder is None else recorder.trace
        if trace is not None:
            trace.begin(operator)
        for x in args:
            for part in x if isinstance(x, (list, tuple)) else (x,):
                storage = getattr(part, "_storage", None)
                if type(storage) is Pending:
                    storage._array.run(f"{operator.short_name} reads it")
        if recorder is not None:
            if not is_ours:
                recorder.leave(f"{operator.short_name} is about to run")
            for n in written:
                for x in args[n] if isinstance(args[n], (list, tuple)) else (args[n],):
                    if x is not None:
                        recorder.before_write(
                            x._get_storage(), f"{operator.short_name} writes to an operand of it"
                        )
        key_set &= ~FUSE
        include, keep = before = _state.get()
        try:
            _state.set(tls.same((include & ~FUSE, keep)))
            made = operator.redispatch_table[key_set](key_set, *args)
        finally:
            _state.set(before)
        if trace is not None:
            trace.end(operator, args, made)
        return made

    # This kernel is for operators that are composed of other operators. If the call may be
    # replayed, the composite operator is called as a whole.
    def pass_on_parts(key_set: int, *args: Any) -> Any:
        recorder = current.get()
        if not is_ours and recorder is not None:
            recorder.leave(f"{operator.short_name} is about to run")
        trace = None if recorder is None else recorder.trace
        if trace is not None and is_random and not is_drawn:
            trace.refuse(f"runs {operator.short_name}")
        if recorder is None or trace is not None and trace.why is None and not is_random:
            return run_first(key_set, *args)
        return operator.redispatch_table[key_set & ~FUSE](key_set & ~FUSE, *args)

    if is_view or is_composite or is_empty:
        return pass_on
    return pass_on_parts if is_explicit else run_first


def _refuse(recorder: Any, operator: Operator) -> None:
    """Report to the trace of the call that an operator was not recorded."""
    if recorder is not None and recorder.trace is not None:
        recorder.trace.refuse(f"runs {operator.short_name} at once")


class _Entry:
    """Substitute for an entry of structured/pointwise/. It records the call instead of running
    it."""

    __slots__ = (
        "operator", "real", "what", "plan", "kinds", "geometry", "has_numbers", "last_beside",
    )  # fmt: skip
    # With these values, kernels store no short cut and call only this entry's methods `fresh` and
    # `write`.
    is_fresh, numpy_allocates, block = False, False, 1

    def __init__(self, operator: Operator, real: Any) -> None:
        self.operator, self.real, self.plan = operator, real, real.plan
        self.geometry, self.has_numbers = real.geometry, real.has_numbers
        self.last_beside: Any = ((), ())
        self.what: Recorded | None = None

    @property
    def seen(self) -> Any:
        return self.last_beside

    def over_sizes(self, shape: Geometry) -> _Entry:
        return _Entry(self.operator, self.real.over_sizes(shape))

    def over_rows(self, shape: Geometry, inner: int) -> _Entry:
        return _Entry(self.operator, self.real.over_rows(shape, inner))

    def _recorded(self, inputs: tuple[Any, ...]) -> Recorded:
        real = self.real
        kinds = getattr(real, "kinds", None) or pointwise.kinds_of(real.rule, real.plan, inputs)
        what = self.what = Recorded(self.operator, kinds, real)
        return what

    def fresh(self, inputs: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Tensor:
        recorder = current.get()
        if recorder is not None:
            what = self.what or self._recorded(inputs)
            made = recorder.record([what], inputs, params)
            if not made and what.can_wait and recorder.runs_at_once(what, inputs):
                made = [self._now(inputs).fresh(inputs, params)]
            if made:
                if recorder.told is not None:
                    recorder.told.append((what, inputs, params, made[0]))
                return made[0]
            _refuse(recorder, self.operator)
        now: Tensor = self._now(inputs).fresh(inputs, params)
        return now

    def write(self, out: Tensor, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> None:
        recorder = current.get()
        what = self.what or self._recorded(inputs)
        if recorder is None or not recorder.record_into(what, out, inputs, params):
            _refuse(recorder, self.operator)
            self._now(inputs, out).write(out, inputs, params)

    def _now(self, inputs: tuple[Any, ...], out: Tensor | None = None) -> Any:
        """Return the entry that runs the operator now, as in an eager call. On devices other than
        the CPU, the addresses of the operands select the entry."""
        real = self.real
        if real.plan.device.type == "cpu":
            return real
        return pointwise.find_entry(self.operator.table, real.rule, real.name, out, inputs)
