"""A recording: operators that a thread has recorded and not run yet.

Note [When a recording ends] Results of one layout on one device go into one recording while it is
open. When a value is read in another layout, the recording is closed, because its values may not
change after that; it runs when it is needed. A recording runs at once when

- its elements are read (pending.py),
- an operand that it reads is about to be written, exported to NumPy or exposed as an address,
- a recorded operator writes to existing memory, as its last instruction,
- another stream becomes current, or an event is recorded or waited for (runtime/settling.py),
- it has `LONGEST` instructions, or the block is left.

A value whose storage only the recording references is never stored, and steps that only this value
needs are never run. (A weak reference to each value would add a tenth to the cost of recording.)

Note [Memory that others share]
docs/usage/fusion.md has the rule. Here memory is shared (`is_exposed`) if it came from NumPy or
DLPack, or if its address was read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
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


# Objects that replace an operand's ndarray in steps of quick.py. NUMBER: the operand is a number.
# PARAMS: the step has one operand, and the place of a second operand has the step's parameters.
NUMBER, PARAMS = object(), object()
# A dict whose keys are the recorded steps, the values to store and the types of scalars, and whose
# values are chains. A repeated computation finds its chain by one lookup.
_chains: dict[Any, tuple[Chain, list[int]]] = {}
_BOUND = 1 << 11


class Recording:
    """The recorded operators from which a chain is made.

    steps: each begins with its operator. quick.py appends (operator, geometry, operand, its
    ndarray, geometry, operand, its ndarray), where an operand is a step's number, a storage, or a
    number; `settled` encodes operands: 3 n is input n, 3 n + 1 is the result of step n, 3 n + 2 is
    scalar n. So an operator whose result is dropped costs little more than this tuple.
    """

    __slots__ = (
        "recorder", "at", "place", "steps", "results", "is_open", "is_run", "others", "walk",
        "has_copies", "has_rows", "saved", "error", "scalars", "found", "_inputs", "_settled",
    )  # fmt: skip

    def __init__(self, recorder: Recorder, what: Recorded) -> None:
        self.recorder, self.at, self.place = recorder, what.at, what.device
        self.walk, self.has_copies, self.has_rows = what.walk, False, False
        self.steps: list[Any] = []
        self.results: list[Pending] = []
        self.is_open, self.is_run = True, False
        # The error that occurred when the block was left. The recording cannot run again, because
        # its operands may have changed since.
        self.error: Exception | None = None
        # Further places whose results this open recording takes: other layouts of copies, and the
        # layout of results with one element per row.
        self.others: tuple[Any, ...] = ()
        # Weak references to the objects that save pending tensors for backward; see recompute.py.
        self.saved: tuple[Any, ...] = ()
        # _inputs: (storage, offset, geometry, ndarray or None) of each input. found: the codes of
        # inputs and of numbers.
        self._inputs: list[tuple[Any, ...]] = []
        self.found: dict[Any, int] = {}
        self.scalars: list[Any] = []
        self._settled: list[_Step] = []

    @property
    def inputs(self) -> list[tuple[Any, ...]]:
        """(storage, offset, geometry, ndarray or None) of each operand in memory."""
        self.settled()
        return self._inputs

    def settled(self) -> list[_Step]:
        """Return all steps, with encoded operands. The caller holds the lock."""
        done = self._settled
        for step in self.steps[len(done) :]:
            if len(step) == 3:
                done.append(step)
                continue
            what, one, left, x, other, right, y = step
            first = self._code(left, x, one)
            if y is PARAMS:
                done.append((what, (first,), tuple([self.scalar(n) for n in right])))
            else:
                done.append((what, (first, self._code(right, y, other)), ()))
        return done

    def _code(self, operand: Any, array: Any, shape: Any) -> int:
        """Return the code of a number, of a step's result, or of a storage."""
        if array is NUMBER:
            return self.scalar(operand)
        if type(operand) is int:
            return 3 * operand + 1
        return self.input(operand, 0, shape, array)

    def scalar(self, value: Any) -> int:
        """Return the code of a number. Numbers with equal bits have one code."""
        key = (type(value), value) if type(value) in (int, float) and value else None
        code = self.found.get(key)
        if code is None:
            self.scalars.append(value)
            code = 3 * len(self.scalars) - 1
            if key is not None:
                self.found[key] = code
        return code

    def add(self, what: Recorded, operands: tuple[int, ...], params: tuple[int, ...]) -> int:
        """Append a step and return its number."""
        self.steps.append((what, operands, params))
        return len(self.steps) - 1

    def input(self, storage: Storage, offset: int, shape: Any, array: Any) -> int:
        """Return the code of an operand that is in memory or comes from another recording."""
        key = (id(storage), offset, shape)
        code = self.found.get(key)
        if code is None:
            code = self.found[key] = 3 * len(self._inputs)
            self._inputs.append((storage, offset, shape, array))
        return code

    def append(
        self, other: Recording, numbers: Iterable[int], known: dict[int, int]
    ) -> dict[int, int]:
        """Append steps of the recording `other`. known: maps codes in `other` to codes in this
        recording. Return a copy of `known` with the codes of the steps' operands and results
        added."""
        codes, steps = {**known}, other.settled()

        def code_of(code: int) -> int:
            if code not in codes:
                place = code // 3
                codes[code] = (
                    self.scalar(other.scalars[place])
                    if code % 3 == 2
                    else self.input(*other.inputs[place])
                )
            return codes[code]

        for n in numbers:
            what, operands, params = steps[n]
            of = tuple(map(code_of, operands)), tuple(map(code_of, params))
            codes[3 * n + 1] = 3 * self.add(what, *of) + 1
        return codes

    def reads(self, storage: Storage) -> bool:
        return any([x[0] is storage for x in self.inputs])

    def reads_exposed(self) -> bool:
        """True if the recording reads shared memory."""
        return any([x[0].is_exposed for x in self.inputs])

    def wanted(self) -> list[tuple[int, Pending]]:
        """Return (step number, storage) for each result storage to which other objects refer."""
        return [
            (storage._step, storage)
            for storage, count in zip(self.results, [*map(getrefcount, self.results)])
            if count > _ALONE and type(storage) is Pending and storage._array is self
        ]  # fmt: skip

    def close(self) -> None:
        if self.is_open:
            self.is_open, recorder = False, self.recorder
            if recorder.latest is self:
                recorder.latest = None
            for at in (self.at, *self.others):
                if recorder.open.get(at) is self:
                    del recorder.open[at]

    def run(
        self, reason: str, into: tuple[int, Tensor] | None = None, is_last: bool = False
    ) -> None:
        """Compute the wanted values, unless they are computed already. into: a step, and the tensor
        for its result. is_last: True if operands may change after this run. Then every wanted value
        is stored, because a later recomputation could read changed operands."""
        with lock:
            if self.is_run:
                return
            if self.error is not None:
                raise self.error
            self.close()
            results = self.results
            if into is not None or results and max(map(getrefcount, results)) > _ALONE:
                if into is None and self.place.type == "cuda":
                    first = epilogue.join(self)
                    if first is not None:
                        first.run(reason, is_last=is_last)
                        return
                self._run_wanted(into, reason, is_last)
            self.let_go()

    def _run_wanted(self, into: tuple[int, Tensor] | None, reason: str, is_last: bool) -> None:
        wanted, left = self.wanted(), list[tuple[int, Pending]]()
        if self.saved and into is None and not is_last:
            wanted, left = _recompute().split(self, wanted)
        if wanted or into is not None:
            self._compute(wanted, into, reason)
        if left:
            _recompute().move_on(self, wanted, left)

    def let_go(self) -> None:
        """Mark the recording as run. Drop all data that was needed only to run it."""
        self.is_run = True
        self.recorder.pending.pop(self, None)
        self.steps, self._inputs, self.found, self.results = self._settled, [], {}, []

    def _compute(
        self, wanted: list[tuple[int, Pending]], into: tuple[int, Tensor] | None, reason: str
    ) -> None:
        self.recorder.running += 1
        try:
            self._run_what_it_reads()
            stores = [number for number, _ in wanted]
            outputs = [allocate(self.steps[number][0].geometry, self.place) for number in stores]
            if into is not None:
                stores.append(into[0])
                outputs.append(into[1])
            (chain, inputs), scalars = self._known(tuple(stores)), self.scalars
            run_chain(chain, [self.tensor(n) for n in inputs], outputs, scalars, reason)
            for (_, storage), made in zip(wanted, outputs):
                fill(storage, made)
            trace = self.recorder.trace
            if trace is not None:
                taken = [self._inputs[n] for n in inputs]
                trace.ran(chain, taken, wanted, scalars, reason, self._settled)
        finally:
            self.recorder.running -= 1

    def _run_what_it_reads(self) -> None:
        """Run the recordings that compute this recording's operands, dependencies first, without
        recursion."""
        waiting = [self]
        while waiting:
            deeper = [
                storage._array for storage, *_ in waiting[-1].inputs if type(storage) is Pending
            ]
            deeper = [x for x in deeper if not x.is_run]
            if deeper:
                waiting += deeper
            elif (recording := waiting.pop()) is not self:
                recording.run("another chain reads it")

    def tensor(self, number: int) -> Tensor:
        """Return an input as a tensor without a history."""
        storage, offset, shape, array = self._inputs[number]
        made = from_storage(storage, offset, shape, TENSOR_KEYS[storage.device.type])
        made._array = array
        return made

    def _known(self, stores: tuple[int, ...]) -> tuple[Chain, list[int]]:
        """Return the result of `_chain`, cached for equal recordings."""
        steps = tuple(self.settled())
        key = (steps, stores, tuple(map(_type, self.scalars)))
        found = _chains.get(key)
        if found is None:
            if len(_chains) >= _BOUND:
                _chains.clear()
            found = _chains[key] = self._chain(stores)
        return found

    def is_new(self, number: int) -> bool:
        """True if no step before this one has the same result."""
        self.settled()
        return self._distinct()[1][number] == number

    def _distinct(self) -> tuple[list[_Step], list[int]]:
        """Return the steps, and for each step the index of the first equal step. Only the first of
        equal steps is computed. An operand that is a layout copy is replaced by the operand of the
        copy: see Note [A chain of several layouts]."""
        steps: list[_Step] = []
        first: list[int] = []
        numbers: dict[_Step, int] = {}

        def read(code: int) -> int:
            while code % 3 == 1:
                code = 3 * first[code // 3] + 1
                what, operands, _ = steps[code // 3]
                if not what.is_move or operands[0] % 3 != 1:
                    break
                code = operands[0]
            return code

        for n, (what, operands, params) in enumerate(self._settled):
            step = what, tuple([read(x) for x in operands]), params
            steps.append(step)
            first.append(numbers.setdefault(step, n))
        return steps, first

    def _chain(self, stores: tuple[int, ...]) -> tuple[Chain, list[int]]:
        """Return the chain that computes the results of the steps `stores`, and the index in
        `_inputs` of each input of the chain."""
        steps, first = self._distinct()
        count = len(self._inputs)

        def numbers(codes: tuple[int, ...]) -> tuple[int, ...]:
            return tuple([(x // 3, count + x // 3, ~(x // 3))[x % 3] for x in codes])

        whole = Chain(
            self.place, tuple([x[2] for x in self._inputs]), tuple(map(_type, self.scalars)),
            tuple([Instruction(x, numbers(of), numbers(params)) for x, of, params in steps]), (),
        )  # fmt: skip
        wanted = [count + first[n] for n in stores]
        return whole.part(wanted, self.walk if self.has_rows else None)


def _recompute() -> Any:
    """Return the module recompute, which imports this module."""
    return import_module(f"{__package__}.recompute")


# The result of `getrefcount` in `Recording.wanted` for an object to which only the list refers.
_ALONE = [*map(getrefcount, [object()])][0]


def _type(scalar: Any) -> Any:
    """Return the part of a scalar that a chain contains: the type of a number or a Stream, or the
    value itself for any other scalar."""
    return type(scalar) if type(scalar) in NUMBERS or type(scalar) is Stream else scalar
