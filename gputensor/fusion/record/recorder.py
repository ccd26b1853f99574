"""The recorder of a block. It chooses the recording for each operator, or lets the operator run
now.

See Note [When a recording ends].
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from ...core.arguments import NUMBERS
from ...core.device import CPU
from ...dispatch.backend_select import TENSOR_KEYS
from ...dispatch.operator import Operator
from ...registrations.rows import bound
from ...runtime import settling
from ...structured.pointwise.wide import WideEntry
from ...tensor.make import from_storage
from ...tensor.storage import Storage, on_exposure
from ...tensor.tensor import Tensor
from .. import epilogue, running
from ..chain import Recorded
from .pending import Pending
from .recording import Recording, lock
from ..replay.trace import Trace

LONGEST = 64
_BOUND = 1 << 11
# In a block on the CPU, operators on fewer elements than this run immediately, because recording
# costs more than it saves. They are recorded if they continue an open recording, or if the call may
# be replayed.
SMALL_NUMEL = 1 << 15

# The recorder of the innermost block of this thread or task.
current: ContextVar[Recorder | None] = ContextVar("gputensor_fusion", default=None)
_new = object.__new__


class Recorder:
    """The recordings of a block. open: maps a device and layout to the open recording. pending: all
    recordings that have not run. trace: the trace of a call that may be replayed. told: collects
    recorded steps for quick.py. latest: the open recording that quick.py used last. is_alone: see
    Note [Memory that others share].
    running: the number of recordings being run. runs_small: see `SMALL_NUMEL`."""

    __slots__ = ("open", "pending", "trace", "told", "latest", "is_alone", "running", "runs_small")

    def __init__(self) -> None:
        self.open: dict[Any, Recording] = {}
        self.pending: dict[Recording, None] = {}
        self.trace: Trace | None = None
        self.told: list[Any] | None = None
        self.latest: Recording | None = None
        self.is_alone: bool = False
        self.running: int = 0
        self.runs_small: bool = SMALL_NUMEL > 0 and not running.watchers

    def watch(self, trace: Trace) -> None:
        """Trace the operators of a call that may be replayed."""
        self.trace, self.is_alone, self.runs_small = trace, True, False

    def runs_at_once(self, what: Recorded, inputs: tuple[Any, ...]) -> bool:
        """True if an operator is not recorded because it is small; see `SMALL_NUMEL`."""
        return self.runs_small and is_small(what) and not self.continues(what.at, *inputs)

    def continues(self, at: Any, *inputs: Any) -> bool:
        """True if an operand is a result of the open recording of this place."""
        held = self.open.get(at)
        for x in inputs:
            if type(x) is Tensor and type(x._storage) is Pending and x._storage._array is held:
                return True
        return False

    def record(
        self, whats: list[Recorded], inputs: tuple[Any, ...], params: tuple[Any, ...]
    ) -> list[Tensor]:
        """Record an operator. Return its pending results, or an empty list if the operator must
        run now."""
        if not whats[0].can_wait or self.runs_at_once(whats[0], inputs):
            return []
        with lock:
            placed = self._placed(whats[0], inputs, params)
            if placed is None:
                return []
            recording, number = placed
            made = [self.made(whats[0], placed)]
            for what in whats[1:]:
                of = recording, recording.add(what, (3 * number + 1,), ())
                made.append(self.made(what, of))
            if len(recording.steps) >= LONGEST:
                recording.run(f"it has {LONGEST} operators")
            return made

    def made(self, what: Recorded, placed: tuple[Recording, int]) -> Tensor:
        """Return the result tensor of a step. If its layout is not the recording's, the recording
        also takes further results of this layout."""
        recording, at = placed[0], what.also
        if at is not None:
            if what.reduces is None:
                recording.has_copies = True
            else:
                recording.has_rows = True
            other = self.open.get(at)
            if other is not recording and recording.is_open:
                if other is not None:
                    other.close()
                self.open[at] = recording
                recording.others += (at,)
        storage = _new(Pending)
        storage._array, storage._step = placed
        storage.version = 0
        recording.results.append(storage)
        return from_storage(storage, 0, what.geometry, TENSOR_KEYS[what.device.type])

    def record_into(
        self, what: Recorded, out: Tensor, inputs: tuple[Any, ...], params: tuple[Any, ...]
    ) -> bool:
        """Record an operator that writes to `out`. If `out` is pending, its storage may get the new
        step as its value. Otherwise the operator becomes the last step of a recording, and this
        recording runs now. Return False if the operator must run alone; in this case, the
        recordings that read `out` have run."""
        with lock:
            storage = out._get_storage()
            can_wait = what.can_wait and out._geometry is what.geometry
            if type(storage) is Pending:
                held, number = storage._array, storage._step
                if (
                    can_wait and held.is_open and held.recorder is self and not out._offset
                    and held.steps[number][0].geometry is out._geometry
                ):  # fmt: skip
                    placed = self._placed(what, inputs, params)
                    if placed is not None and placed[0] is held and held.is_open:
                        storage._step = placed[1]
                        return True
            storage.data  # noqa: B018 - runs what is pending
            last = self._last(what, out, inputs, params) if can_wait else None
            self.before_write(storage, "an operand of it is written to", last and last[0])
            if last is None:
                return False
            last[0].run(f"{what.operator.short_name} writes to memory", (last[1], out))
            return True

    def _last(
        self, what: Recorded, out: Tensor, inputs: tuple[Any, ...], params: tuple[Any, ...]
    ) -> tuple[Recording, int] | None:
        """Return the recording whose last step may write to existing memory, and the number of that
        step."""
        recording, storage = self.open.get(what.at), out._storage
        if recording is None or storage.is_exposed or not self.continues(what.at, *inputs):
            return None
        # A chain with an operator over rows may read its operand again after it has stored results.
        if any([step[0].takes_rows for step in recording.steps]):
            return None
        # No operand may contain other elements of the written storage, because a block would read
        # elements that an earlier block wrote.
        others = [x[:3] for x in recording.inputs]
        tensors = [x for x in inputs if type(x) not in NUMBERS]
        others += [(x._get_storage(), x._offset, x._geometry) for x in tensors]
        for theirs, offset, shape in others:
            if theirs is storage and (offset != out._offset or shape is not out._geometry):
                return None
        # The result of an earlier equal step cannot be reused, because it may be stored elsewhere
        # than in the written tensor.
        placed = self._placed(what, inputs, params)
        is_ours = placed is not None and placed[0] is recording and recording.is_new(placed[1])
        return placed if is_ours else None

    def _placed(
        self, what: Recorded, inputs: tuple[Any, ...], params: tuple[Any, ...]
    ) -> tuple[Recording, int] | None:
        """Return the recording that takes a step, and the number of the step in it."""
        recording = self.open.get(what.at) or self.opened(what)
        if what.takes_rows and (recording.has_copies or what.at is not recording.at):
            recording.close()  # a sum depends on the layout of its operand
            recording = self.opened(what)
        recording.settled()  # Encode earlier steps first, so that codes are in the steps' order.
        codes = []
        for x in inputs:
            kind = type(x)
            if kind in NUMBERS:
                if kind is int and not -SMALL < x < SMALL:
                    return None  # the loop may reject a number of this magnitude
                codes.append(recording.scalar(x))
                continue
            storage = x._get_storage()
            if type(storage) is Pending:
                held: Recording = storage._array
                number, is_whole = storage._step, not x._offset
                if is_whole and held is recording and held.steps[number][0].feeds is x._geometry:
                    codes.append(3 * number + 1)
                    continue
                held.close()
                if held is recording:
                    return self._placed(what, inputs, params)
            elif storage.is_exposed and not self.is_alone:
                for told in running.unrecorded:
                    told(x)
                return None
            codes.append(recording.input(storage, x._offset, x._geometry, x._array))
        beside = tuple([recording.scalar(x) for x in params]) if params else ()
        return recording, recording.add(what, tuple(codes), beside)

    def taking(self, what: Recorded) -> Recording:
        """Return the open recording for results of this place, and set `latest`, which quick.py
        reads."""
        recording = self.latest = self.open.get(what.at) or self.opened(what)
        return recording

    def opened(self, what: Recorded) -> Recording:
        """Start and return a new recording for results of this place."""
        recording = self.open[what.at] = Recording(self, what)
        if len(self.pending) > 8:
            with lock:  # recordings are dropped when nothing refers to their results
                for dead in [x for x in self.pending if not x.is_open and not x.wanted()]:
                    del self.pending[dead]
                    dead.results = []
        self.pending[recording] = None
        return recording

    def before_write(self, storage: Storage, reason: str, writer: Recording | None = None) -> None:
        """Run the recordings that read a storage, except the recording that is about to write to
        it. If the storage is pending, the recording that computes its bytes is not run here."""
        with lock:
            for recording in [*self.pending]:
                if recording is writer:
                    continue
                is_read = storage.may_alias or recording.reads(storage)
                if is_read or storage.is_exposed and recording.reads_exposed():
                    recording.run(reason, is_last=True)

    def leave(self, reason: str) -> None:
        """Run the recordings that read shared memory, before other code can write to it."""
        if self.is_alone:
            with lock:
                for recording in [*self.pending]:
                    if recording.reads_exposed():
                        recording.run(reason, is_last=True)

    def run(self, reason: str) -> None:
        """Run all recordings when the block is left."""
        for recording in [*self.pending]:
            if recording.place.type == "cuda":
                with lock:
                    epilogue.join(recording)
        self.run_all(reason, True)

    def run_all(self, reason: str, is_last: bool) -> None:
        """Run all recordings. If some fail, all others still run, and then the first error is
        raised. A later read of a failed recording's result raises that recording's error again."""
        failed = None
        for recording in [*self.pending]:
            try:
                recording.run(reason, None, is_last)
            except Exception as error:
                self.pending.pop(recording, None)
                recording.error = error
                failed = failed or error
        if failed is not None:
            raise failed


def is_small(what: Recorded, bound: int = SMALL_NUMEL) -> bool:
    """True if an operator is too small to be recorded; see `SMALL_NUMEL`."""
    return what.device is CPU and max(what.walk.numel, what.geometry.numel) < bound


def runs_at_once(*operands: Any) -> bool:
    """True if short cuts may run operators on these operands immediately within a block."""
    recorder = current.get()
    if recorder is None or not recorder.runs_small:
        return False
    for x in operands:
        if type(x) is Tensor and (type(x._storage) is Pending or x._geometry.numel >= SMALL_NUMEL):
            return False
    return True


class StandIn:
    """An operator whose plan entries record calls instead of running them. The object is also the
    operator's table, which stores plans but no short cuts.

    entry: the class of these entries; entry(operator, real) replaces `real`, the plan's own entry.
    """

    learners: dict[str, Any] = {}
    short: dict[Any, Any] = {}

    def __init__(self, operator: Operator, entry: type) -> None:
        self.operator, self.entry = operator, entry
        self.plans: dict[Any, Any] = {}

    @property
    def table(self) -> StandIn:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.operator, name)

    def remember(self, key: Any, real: Any) -> Any:
        if len(self.plans) >= _BOUND:
            self.plans.clear()
        # A WideEntry is not replaced: it calls other operators, and these are recorded.
        is_kept = isinstance(real, (self.entry, WideEntry))
        made = real if is_kept else self.entry(self.operator, real)
        self.plans[key] = made
        return made


def kernels_of(operator: Operator, entry: type) -> tuple[Any, ...]:
    """Return the operator's kernels, made for a StandIn instead of the operator: one kernel for all
    devices, or one for the CPU and one for all other devices."""
    factory, loop = bound[operator]
    made = factory(StandIn(operator, entry), loop)
    return made if type(made) is tuple else (made,)


# Integers in this range fit the loops of all dtypes.
SMALL = 1 << 24


def _exposed(storage: Storage) -> None:
    if type(storage) is Pending:
        storage.data  # noqa: B018 - it is marked as handed out once it has its bytes
    recorder = current.get()
    if recorder is not None:
        recorder.before_write(storage, "an operand of it is handed out")


def _settle(reason: str) -> None:
    """Run all recordings before streams synchronise: see runtime/settling.py. Do nothing while a
    chain runs, because a chain may record events."""
    recorder = current.get()
    if recorder is not None and not recorder.running:
        recorder.run_all(reason, False)


on_exposure.append(_exposed)
settling.before.append(_settle)
