"""A recording: operators that a thread has recorded and not run yet.

Note [When a recording ends]
Results of one layout on one device go into one recording while it is open. When a value is read in
another layout, the recording is closed, since its values may not change after that, and runs when
needed. It is run at once when

- its elements are read (pending.py),
- an operand that it reads is about to be written, exported to NumPy or exposed as an address,
- a recorded operator writes to existing memory, as its last instruction,
- another stream becomes current, or an event is recorded or waited for (runtime/settling.py),
- it has `LONGEST` instructions, or the block is left.

A value whose storage only the recording references is never stored, and steps needed only for it
are never run. (A weak reference to each value would add a tenth to the cost of recording.)

Note [Memory that others share]
Other code may write to the bytes of an operand that came from NumPy or DLPack or whose address was
read. Such an operand is recorded only in a call of a function whose code uses only tensors
(purity.py): then this thread runs no other Python, and the block ends with the call. An operator
that writes to shared memory, through any storage, first runs all recordings that read shared
memory; so does an operator with a user's kernel. As in any block, other threads, signal handlers
and finalisers must not write to the operands meanwhile.
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

# Held while recordings change: other threads may read this thread's results.
lock = threading.RLock()
_Step = tuple[Recorded, tuple[int, ...], tuple[int, ...]]


_NOTHING = (None,) * 11


class State:
    """The recorded steps, as a node in a tree of everything recorded so far, so that repeated work
    is recorded with one lookup for each operator.

    then: (operator, operands, params) -> the next node, the step's number, and the step. expected:
    the last successor, for quick.py. chains: chains made here, by stores and types of scalars.
    """

    __slots__ = ("then", "expected", "chains")

    def __init__(self) -> None:
        self.then: dict[Any, tuple[State, int, _Step]] = {}
        self.expected: Any = _NOTHING
        self.chains: dict[Any, tuple[Chain, list[int], list[int]]] = {}


# The root of the tree, and its size; a tree that is too large is replaced by an empty one.
_root, _count = State(), 0
_BOUND = 1 << 14


class Recording:
    """A growing chain. Operands are encoded: 3 n is input n, 3 n + 1 is the result of step n, 3 n +
    2 is scalar n. of: code -> the key of an operand in quick.py: its storage, or the number; other
    operands are absent."""

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
        # (storage, offset, geometry, ndarray or None) of each input; and the codes of inputs and
        # numbers.
        self.inputs: list[tuple[Any, ...]] = []
        self.found: dict[Any, int] = {}
        self.of: dict[int, Any] = {}
        self.scalars: list[Any] = []
        self.steps: list[_Step] = []
        self.state = _root
        self.results: list[Pending] = []
        self.is_open, self.is_run = True, False
        # The error raised when its block was left: its operands may have changed since.
        self.error: Exception | None = None
        # Further places at which it is open, for copies to other layouts and for rows' results.
        self.others: list[Any] = []
        # Weak references to keepers of values needed only by backward; see recompute.py.
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
        """Record a step, unless an equal one exists. Returns the step's number."""
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
        """A new node for a step that was never recorded after these steps."""
        global _root, _count
        number = self.steps.index(step) if step in self.steps else len(self.steps)
        known = (State(), number, step)
        _count += 1
        if _count > _BOUND:
            _root, _count = State(), 0
        self.state.then[key] = known
        return known

    def input(self, key: Any, storage: Storage, x: Any) -> int:
        """The code of an operand that is in memory or comes from another recording."""
        code = self.found[key] = 3 * len(self.inputs)
        if not x._offset:
            self.of[code] = storage
        self.inputs.append((storage, x._offset, x._geometry, x._array))
        return code

    def reads(self, storage: Storage) -> bool:
        return any([x[0] is storage for x in self.inputs])

    def reads_exposed(self) -> bool:
        """True if it reads shared memory."""
        return any([x[0].is_exposed for x in self.inputs])

    def wanted(self) -> list[tuple[int, Pending]]:
        """The referenced storages, each with the number of its current step."""
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
        """Compute the wanted values, if not done. into: a step and the tensor for its result.
        is_last: its operands may change, so nothing is left to recompute."""
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
        """Run the recordings that compute its operands, dependencies first, without recursion."""
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
        """`_chain`, cached for equal recordings."""
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
        """The chain that computes these stores; and the numbers of its inputs and of its
        scalars."""
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
    """The module recompute, imported on demand."""
    return import_module(f"{__package__}.recompute")


# `getrefcount` there for an object without other references.
_ALONE = [getrefcount(x) for x in [object()]][0]


def _type(scalar: Any) -> Any:
    """The type of a scalar, as part of the chain."""
    return type(scalar) if type(scalar) in NUMBERS or type(scalar) is Stream else scalar


# The maximum number of chains at one node, one for each choice of stores.
_STORES = 1 << 6
