"""What a thread has recorded and not run yet.

Note [When a recording ends]
Results of one layout on one device go into one recording, as long as it is open. It is closed, and
run when somebody needs it, once a value of it is read in another layout, since its values may not
change any more then. It is run at once when

- its elements are looked at (pending.py),
- an operand that it reads is about to be written, or handed out to NumPy or as an address,
- a recorded operator writes to memory that is there: that is its last instruction,
- another stream becomes current, or an event is recorded or waited for (runtime/settling.py),
- it has `LONGEST` instructions, or the block is left.

What nobody can ask for any more, as only the recording holds its storage, is never stored, and what
only that needed is never computed. (A weak reference to each would cost a tenth of recording it.)

Note [Memory that others share]
Somebody outside may write unseen to the bytes of an operand from NumPy or DLPack, or whose address
was asked for. It is recorded only in a call of a function whose code shows that nothing but
tensors is touched (purity.py): then no Python of this thread runs but that function's, and the
block ends with the call. What an operator writes to such memory, by whichever storage, first runs
all that reads such memory; so does an operator whose kernel is somebody else's. Other threads,
signals' handlers and finalisers must not write to the operands meanwhile, as for any block.
"""

from __future__ import annotations

import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any
from sys import getrefcount

from ...core.arguments import NUMBERS
from ...dispatch.backend_select import TENSOR_KEYS
from ...tensor.make import allocate, from_storage
from ...tensor.storage import Storage
from ...tensor.tensor import Tensor
from .. import epilogue
from ..chain import Chain, Instruction, Recorded, Stream
from .pending import Pending, fill
from ..running import run_chain

if TYPE_CHECKING:
    from .recorder import Recorder

# Recordings change under it: other threads may look at what this one recorded.
lock = threading.RLock()
_Step = tuple[Recorded, tuple[int, ...], tuple[int, ...]]


_NOTHING = (None,) * 11


class State:
    """All that was recorded, by its codes: a node in the tree of what was ever recorded, so that
    what was recorded before is recorded again by one look for each operator.

    then: (operator, operands, params), in one tuple -> what it leads to, the number of the step
    whose result it is, and that step. expected: what came last, as quick.py knows it. chains: what
    was made here, by what is stored and the types of scalars.
    """

    __slots__ = ("then", "expected", "chains")

    def __init__(self) -> None:
        self.then: dict[Any, tuple[State, int, _Step]] = {}
        self.expected: Any = _NOTHING
        self.chains: dict[Any, tuple[Chain, list[int], list[int]]] = {}


# The root of the tree, and how much is in it; a tree that has grown too large is left behind.
_root, _count = State(), 0
_BOUND = 1 << 14


class Recording:
    """A chain that grows. Operands are encoded by what they are: 3 n is input n, 3 n + 1 is what
    step n gives, 3 n + 2 is scalar n. of: what quick.py knows an operand by, under its code: the
    storage that it begins, or the number; others are not there."""

    __slots__ = (
        "recorder", "at", "place", "inputs", "found", "of", "scalars", "steps", "state", "results",
        "is_open", "is_run", "others", "walk", "has_copies", "has_rows", "saved", "error",
    )  # fmt: skip
    recorder: Recorder
    at: Any
    place: Any
    state: State
    is_open: bool
    is_run: bool
    walk: Any
    has_copies: bool
    has_rows: bool

    def __init__(self, recorder: Recorder, what: Recorded) -> None:
        self.recorder, self.at, self.place = recorder, what.at, what.device
        self.walk, self.has_copies, self.has_rows = what.walk, False, False
        # (storage, offset, geometry, ndarray where there is one) of each, and their codes and those
        # of numbers.
        self.inputs: list[tuple[Any, ...]] = []
        self.found: dict[Any, int] = {}
        self.of: dict[int, Any] = {}
        self.scalars: list[Any] = []
        self.steps: list[_Step] = []
        self.state = _root
        self.results: list[Pending] = []
        self.is_open, self.is_run = True, False
        # What it raised as its block was left: what it reads may have changed since.
        self.error: Exception | None = None
        # Places where it is open as well: of copies to other layouts, and of what a row has.
        self.others: list[Any] = []
        # Weak references to what keeps its values for backward alone; see recompute.py.
        self.saved: list[Any] = []

    def scalar(self, value: Any) -> int:
        """The code of a number: one for all that are equal, where equal means the same bits."""
        key = (type(value), value) if type(value) in (int, float) and value else None
        code = self.found.get(key)
        if code is None:
            self.scalars.append(value)
            code = 3 * len(self.scalars) - 1
            if key is not None:
                self.found[key], self.of[code] = code, value
        return code

    def add(self, what: Recorded, operands: tuple[int, ...], params: tuple[int, ...]) -> int:
        """The number of the step that does this: a new one, or that which did it before."""
        key = (what, *operands, None, *params) if params else (what, *operands)
        known = self.state.then.get(key)
        if known is None:
            known = self.new_state(key, (what, operands, params))
        state, number, step = known
        if number == len(self.steps):
            self.steps.append(step)
        self.state = state
        return number

    def new_state(self, key: Any, step: _Step) -> tuple[State, int, _Step]:
        """What a step leads to that was never recorded behind these."""
        global _root, _count
        number = self.steps.index(step) if step in self.steps else len(self.steps)
        known = (State(), number, step)
        _count += 1
        if _count > _BOUND:
            _root, _count = State(), 0
        self.state.then[key] = known
        return known

    def input(self, key: Any, storage: Storage, x: Any) -> int:
        """The code of an operand that has its bytes, or has them from another recording."""
        code = self.found[key] = 3 * len(self.inputs)
        if not x._offset:
            self.of[code] = storage
        self.inputs.append((storage, x._offset, x._geometry, x._array))
        return code

    def reads(self, storage: Storage) -> bool:
        return any([x[0] is storage for x in self.inputs])

    def reads_exposed(self) -> bool:
        """Whether it reads memory that others share."""
        return any([x[0].is_exposed for x in self.inputs])

    def wanted(self) -> list[tuple[int, Pending]]:
        """The storages that somebody holds, each with the step whose result it is by now."""
        return [
            (storage._array[1], storage) for storage in self.results
            if getrefcount(storage) > _ALONE
            and type(storage) is Pending and storage._array[0] is self
        ]  # fmt: skip

    def close(self) -> None:
        if self.is_open:
            self.is_open, self.of = False, {}
            if self.recorder.latest is self:
                self.recorder.latest = None
            for at in (self.at, *self.others):
                if self.recorder.open.get(at) is self:
                    del self.recorder.open[at]

    def run(
        self, reason: str, into: tuple[int, Tensor] | None = None, is_last: bool = False
    ) -> None:
        """Compute what is wanted, if that is not done. into: a step, and who takes its result.
        is_last: what it reads may change, so that nothing is left to be computed again."""
        with lock:
            if self.is_run:
                return
            if self.error is not None:
                raise self.error
            self.close()
            if into is None and self.place.type == "cuda":
                first = epilogue.join(self)
                if first is not None:
                    first.run(reason, is_last=is_last)
                    return
            wanted, left = self.wanted(), []
            if self.saved and into is None and not is_last:
                wanted, left = recompute().split(self, wanted)
            stores = [number for number, _ in wanted]
            if into is not None:
                stores.append(into[0])
            self.recorder.running += 1
            try:
                if stores:
                    self._compute(stores, wanted, into, reason)
            finally:
                self.recorder.running -= 1
            if left:
                recompute().move_on(self, wanted, left)
            self.is_run = True
            self.recorder.pending.pop(self, None)
            self.inputs, self.found, self.results = [], {}, []

    def _compute(
        self, stores: list[int], wanted: list[tuple[int, Pending]],
        into: tuple[int, Tensor] | None, reason: str,
    ) -> None:  # fmt: skip
        self._run_what_it_reads()
        outputs = [allocate(self.steps[number][0].geometry, self.place) for number, _ in wanted]
        if into is not None:
            outputs.append(into[1])
        chain, inputs, numbers = self._known(tuple(stores))
        scalars = [self.scalars[n] for n in numbers]
        run_chain(chain, [self.tensor(n) for n in inputs], outputs, scalars, reason)
        for (_, storage), made in zip(wanted, outputs):
            fill(storage, made)
        trace = self.recorder.trace
        if trace is not None:
            taken = [self.inputs[n] for n in inputs]
            trace.ran(chain, taken, wanted, scalars, reason, self.steps)

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

    def tensor(self, number: int) -> Tensor:
        """An input, as a tensor without a history."""
        storage, offset, shape, array = self.inputs[number]
        made = from_storage(storage, offset, shape, TENSOR_KEYS[storage.device.type])
        made._array = array
        return made

    def _known(self, stores: tuple[int, ...]) -> tuple[Chain, list[int], list[int]]:
        """`_chain`, kept for what is recorded alike."""
        known = self.state.chains
        key = (stores, tuple([_type(x) for x in self.scalars]))
        found = known.get(key)
        if found is None:
            if len(known) >= _STORES:
                known.clear()
            found = known[key] = self._chain(stores)
        return found

    def _reads(self, number: int) -> tuple[int, ...]:
        """The operands of a step. See Note [A chain of several layouts]."""
        codes = []
        for code in self.steps[number][1]:
            while code % 3 == 1:
                what, operands, _ = self.steps[code // 3]
                if what.family != "copy" or what.kinds[0] is not what.result:
                    break
                if operands[0] % 3 != 1:
                    break
                code = operands[0]
            codes.append(code)
        return tuple(codes)

    def _chain(self, stores: tuple[int, ...]) -> tuple[Chain, list[int], list[int]]:
        """What the stores need; the inputs and the scalars that it takes, in its order."""
        needed = [False] * len(self.steps)
        for number in stores:
            needed[number] = True
        for number in range(len(self.steps) - 1, -1, -1):
            if needed[number]:
                for code in self._reads(number):
                    if code % 3 == 1:
                        needed[code // 3] = True
        kept = [
            (what, self._reads(n), params) for n, (what, _, params) in enumerate(self.steps)
            if needed[n]
        ]  # fmt: skip
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
            self.walk if self.has_rows else None,
        )  # fmt: skip
        return chain, inputs, scalars


def recompute() -> Any:
    """The module, of blocks that ask for it."""
    return import_module(f"{__package__}.recompute")


# What `getrefcount` says there of what nobody else holds.
_ALONE = [getrefcount(x) for x in [object()]][0]


def _type(scalar: Any) -> Any:
    """What a chain knows of a scalar: the type of a number."""
    return type(scalar) if type(scalar) in NUMBERS or type(scalar) is Stream else scalar


# Chains at one state, for as many choices of what is stored.
_STORES = 1 << 6
