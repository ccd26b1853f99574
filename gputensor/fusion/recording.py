"""What a thread has recorded and not run yet.

Note [When a recording ends]
Results of one layout on one device go into one recording, as long as it is open. It is closed, and
run when somebody needs it, once a value of it is read in another layout, since its values may not
change any more then. It is run at once when

- its elements are looked at (pending.py),
- an operand that it reads is about to be written, or handed out to NumPy or as an address,
- a recorded operator writes to memory that is there: that is its last instruction,
- it has `LONGEST` instructions, or the block is left.

Storages are held by weak references: what nobody can ask for any more is never stored, and what
only that needed is never computed. Operands whose bytes somebody outside may write to unseen are
not recorded at all.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Any
from weakref import ref

from ..core.arguments import NUMBERS
from ..tensor.make import allocate, from_storage
from ..dispatch.backend_select import TENSOR_KEYS
from ..tensor.storage import Storage, on_exposure
from ..tensor.tensor import Tensor
from .chain import Chain, Instruction, Recorded
from .pending import Pending, fill
from .running import run_chain
from .trace import Trace

LONGEST = 64
# Recordings change under it: other threads may look at what this one recorded.
_lock = threading.RLock()

# Of the innermost block of this thread or task.
current: ContextVar[Recorder | None] = ContextVar("gputensor_fusion", default=None)
_new = object.__new__


class Recording:
    """A chain that grows. Operands are encoded by what they are: 3 n is input n, 3 n + 1 is what
    step n gives, 3 n + 2 is scalar n."""

    __slots__ = (
        "recorder", "place", "walk", "inputs", "found", "scalars", "steps", "memo", "results",
        "is_open", "is_run",
    )  # fmt: skip
    recorder: Recorder
    place: Any

    def __init__(self, recorder: Recorder, what: Recorded) -> None:
        self.recorder, self.place, self.walk = recorder, what.device, what.walk
        # (storage, offset, geometry, ndarray where there is one) of each, and their numbers.
        self.inputs: list[tuple[Any, ...]] = []
        self.found: dict[Any, int] = {}
        self.scalars: list[Any] = []
        self.steps: list[tuple[Recorded, tuple[int, ...], tuple[int, ...]]] = []
        self.memo: dict[Any, int] = {}
        self.results: list[tuple[int, ref[Pending]]] = []
        self.is_open, self.is_run = True, False

    def input(self, x: Any, storage: Storage) -> int:
        """The code of an operand that has its bytes, or has them from another recording."""
        key = (id(storage), x._offset, x._geometry)
        code = self.found.get(key)
        if code is None:
            code = self.found[key] = 3 * len(self.inputs)
            self.inputs.append((storage, x._offset, x._geometry, x._array))
        return code

    def scalar(self, value: Any) -> int:
        """The code of a number: one for all that are equal, where equal means the same bits."""
        key = (type(value), value) if type(value) in (int, float) and value else None
        code = self.found.get(key)
        if code is None:
            self.scalars.append(value)
            code = 3 * len(self.scalars) - 1
            if key is not None:
                self.found[key] = code
        return code

    def add(self, what: Recorded, operands: tuple[int, ...], params: tuple[int, ...]) -> int:
        """The number of the step that does this: a new one, or that which did it before."""
        key = (what, operands)
        if params or (number := self.memo.get(key)) is None:
            number = len(self.steps)
            self.steps.append((what, operands, params))
            if not params:
                self.memo[key] = number
        return number

    def hold(self, storage: Pending, number: int) -> None:
        storage._array = (self, number)
        self.results.append((number, ref(storage)))

    def reads(self, storage: Storage) -> bool:
        return any([x[0] is storage for x in self.inputs])

    def wanted(self) -> list[tuple[int, Pending]]:
        """The storages that somebody holds, each with the step whose result it is by now."""
        alive = [(number, found()) for number, found in self.results]
        return [
            (number, storage) for number, storage in alive
            if type(storage) is Pending and storage._array == (self, number)
        ]  # fmt: skip

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.recorder.open.pop((self.place, self.walk), None)

    def run(self, reason: str, into: tuple[int, Tensor] | None = None) -> None:
        """Compute what is wanted, if that is not done. into: a step, and who takes its result."""
        with _lock:
            if self.is_run:
                return
            self._run_what_it_reads()
            self.close()
            wanted = self.wanted()
            stores = [number for number, _ in wanted]
            if into is not None:
                stores.append(into[0])
            if stores:
                outputs = [
                    allocate(self.steps[number][0].geometry, self.place) for number, _ in wanted
                ]
                if into is not None:
                    outputs.append(into[1])
                chain, inputs, numbers = self._known(stores)
                scalars = [self.scalars[n] for n in numbers]
                run_chain(chain, [self._tensor(n) for n in inputs], outputs, scalars, reason)
                for (_, storage), made in zip(wanted, outputs):
                    fill(storage, made)
                trace = self.recorder.trace
                if trace is not None:
                    taken = [self.inputs[n] for n in inputs]
                    trace.ran(chain, taken, wanted, scalars, reason, self.steps)
            self.is_run = True
            self.recorder.pending.pop(self, None)
            self.inputs, self.found, self.memo, self.results = [], {}, {}, []

    def _run_what_it_reads(self) -> None:
        """Run the recordings whose values these are, theirs first: no recursion, however many."""
        waiting = [self]
        while waiting:
            deeper = [
                storage._array[0] for storage, *_ in waiting[-1].inputs if type(storage) is Pending
            ]
            deeper = [x for x in deeper if not x.is_run]
            if deeper:
                waiting += deeper
            elif (recording := waiting.pop()) is not self:
                recording.run("another chain reads it")

    def _tensor(self, number: int) -> Tensor:
        storage, offset, shape, array = self.inputs[number]
        made = from_storage(storage, offset, shape, TENSOR_KEYS[storage.device.type])
        made._array = array
        return made

    def _known(self, stores: list[int]) -> tuple[Chain, list[int], list[int]]:
        """`_chain`, kept for what is recorded alike."""
        key = (
            tuple(self.steps), tuple([x[2] for x in self.inputs]), tuple(stores),
            tuple([_type(x) for x in self.scalars]),
        )  # fmt: skip
        found = _chains.get(key)
        if found is None:
            if len(_chains) >= _BOUND:
                _chains.clear()
            found = _chains[key] = self._chain(stores)
        return found

    def _chain(self, stores: list[int]) -> tuple[Chain, list[int], list[int]]:
        """What the stores need; the inputs and the scalars that it takes, in its order."""
        needed = [False] * len(self.steps)
        for number in stores:
            needed[number] = True
        for number in range(len(self.steps) - 1, -1, -1):
            if needed[number]:
                for code in self.steps[number][1]:
                    if code % 3 == 1:
                        needed[code // 3] = True
        kept = [step for step, is_needed in zip(self.steps, needed) if is_needed]
        codes = [code for step in kept for code in step[1]]
        inputs = list(dict.fromkeys([code // 3 for code in codes if code % 3 == 0]))
        number_of = {3 * n: place for place, n in enumerate(inputs)}
        following = len(inputs)
        for number, is_needed in enumerate(needed):
            if is_needed:
                number_of[3 * number + 1] = following
                following += 1
        scalars: list[int] = []
        instructions = []
        for what, operands, params in kept:
            for code in (*operands, *params):
                if code % 3 == 2 and code not in number_of:
                    scalars.append(code // 3)
                    number_of[code] = -len(scalars)
            instructions.append(
                Instruction(
                    what, tuple([number_of[x] for x in operands]),
                    tuple([number_of[x] for x in params]),
                )
            )  # fmt: skip
        chain = Chain(
            self.place, tuple([self.inputs[n][2] for n in inputs]),
            tuple([_type(self.scalars[n]) for n in scalars]), tuple(instructions),
            tuple([number_of[3 * number + 1] for number in stores]),
        )  # fmt: skip
        return chain, inputs, scalars


def _type(scalar: Any) -> Any:
    """What a chain knows of a scalar: the type of a number."""
    return type(scalar) if type(scalar) in NUMBERS else scalar


# What was made of recordings that were alike: chains, with the inputs and scalars that they take.
_chains: dict[Any, tuple[Chain, list[int], list[int]]] = {}
_BOUND = 1 << 11


class Recorder:
    """The recordings of a block. open: by device and layout. pending: all that are not run. trace:
    who watches a call that may be replayed."""

    __slots__ = ("open", "pending", "trace")
    trace: Trace | None

    def __init__(self) -> None:
        self.open: dict[Any, Recording] = {}
        self.pending: dict[Recording, None] = {}
        self.trace = None

    def record(
        self, what: Recorded, inputs: tuple[Any, ...], params: tuple[Any, ...]
    ) -> Tensor | None:
        """A tensor whose elements come later; None where the operator has to run now."""
        if not what.can_wait:
            return None
        with _lock:
            placed = self._placed(what, inputs, params)
            if placed is None:
                return None
            recording, number = placed
            storage = _new(Pending)
            shape = what.geometry
            storage._data, storage.device, storage.version = None, what.device, 0
            storage.nbytes = shape.extent * shape.dtype.itemsize
            recording.hold(storage, number)
            made = from_storage(storage, 0, shape, TENSOR_KEYS[what.device.type])
            if len(recording.steps) >= LONGEST:
                recording.run(f"it has {LONGEST} operators")
            return made

    def record_into(
        self, what: Recorded, out: Tensor, inputs: tuple[Any, ...], params: tuple[Any, ...]
    ) -> bool:
        """The same of one that writes to `out`: a new value of what is pending, or the last
        instruction. False where it has to run now; whoever reads `out` has run then."""
        with _lock:
            storage = out._get_storage()
            can_wait = what.can_wait and out._geometry is what.geometry
            if type(storage) is Pending:
                held, number = storage._array
                if (
                    can_wait and held.is_open and held.recorder is self and not out._offset
                    and held.steps[number][0].geometry is out._geometry
                ):  # fmt: skip
                    placed = self._placed(what, inputs, params)
                    if placed is not None and placed[0] is held and held.is_open:
                        held.hold(storage, placed[1])
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
        """The recording whose last step may write to memory that is there, and that step."""
        recording = self.open.get((what.device, what.walk))
        storage = out._storage
        if recording is None or storage.is_exposed or not any([
            type(x) is Tensor and type(x._storage) is Pending and x._storage._array[0] is recording
            for x in inputs
        ]):  # fmt: skip
            return None
        # A block that has written must not be read by the next one.
        others = [(x[0], x[1], x[2]) for x in recording.inputs]
        others += [
            (x._get_storage(), x._offset, x._geometry) for x in inputs if type(x) not in NUMBERS
        ]
        for theirs, offset, shape in others:
            if theirs is storage and (offset != out._offset or shape is not out._geometry):
                return None
        # A step that was there already may be wanted by others, and has its own place.
        count = len(recording.steps)
        placed = self._placed(what, inputs, params)
        if placed is None or placed[0] is not recording or placed[1] != count:
            return None
        return placed

    def _placed(
        self, what: Recorded, inputs: tuple[Any, ...], params: tuple[Any, ...]
    ) -> tuple[Recording, int] | None:
        """The recording that takes a step, and the step's number."""
        recording = self.open.get((what.device, what.walk))
        operands: list[Any] = []
        for x in inputs:
            if type(x) in NUMBERS:
                if type(x) is int and not -_SMALL < x < _SMALL:
                    return None  # its loop may refuse it
                operands.append(None)
                continue
            storage = x._storage
            if storage is None:
                storage = x._get_storage()
            if type(storage) is Pending:
                held: Recording
                held, number = storage._array
                if (
                    held is recording and not x._offset
                    and held.steps[number][0].geometry is x._geometry
                ):  # fmt: skip
                    operands.append(number)
                    continue
                held.close()
                if held is recording:
                    return self._placed(what, inputs, params)
            elif storage.is_exposed:
                return None
            operands.append(storage)
        if recording is None:
            recording = self.open[what.device, what.walk] = Recording(self, what)
            self._forget_the_dead()
            self.pending[recording] = None
        codes = []
        for x, found in zip(inputs, operands):
            if found is None:
                codes.append(recording.scalar(x))
            elif type(found) is int:
                codes.append(3 * found + 1)
            else:
                codes.append(recording.input(x, found))
        return recording, recording.add(
            what, tuple(codes), tuple([recording.scalar(x) for x in params])
        )

    def _forget_the_dead(self) -> None:
        """Let go of the operands of recordings that nobody can ask any more."""
        if len(self.pending) > 8:
            for recording in [x for x in self.pending if not x.is_open and not x.wanted()]:
                del self.pending[recording]

    def before_write(self, storage: Storage, reason: str, writer: Recording | None = None) -> None:
        """Run what reads a storage, but for who is about to write to it. What it is computed by,
        if it is pending, is not run here."""
        with _lock:
            for recording in [*self.pending]:
                if recording is writer:
                    continue
                if storage.is_shared or recording.reads(storage):
                    recording.run(reason)

    def run(self, reason: str) -> None:
        """Run everything."""
        while self.pending:
            next(iter(self.pending)).run(reason)


# Integers within this are what any dtype's loop takes.
_SMALL = 1 << 24


def _exposed(storage: Storage) -> None:
    if type(storage) is Pending:
        storage.data  # noqa: B018 - it is marked as handed out once it has its bytes
    recorder = current.get()
    if recorder is not None:
        recorder.before_write(storage, "an operand of it is handed out")


on_exposure.append(_exposed)
