"""From the table straight to the recording, for operators that were recorded before.

It stands in a table for calls of plain tensors within a block, in front of the kernels of Autograd
and of Fuse, which would do nothing for such operands but find out what is recorded. That follows
from the operands' geometries, and is known here from the call before. As with short cuts (Note
[Short cuts]), whatever is registered or put around kernels gives the operator another table.

Note [Recording beside other threads]
Another thread that looks at a result runs the recording of this one. It closes the recording before
it collects what is wanted; here, a result is first among those and then asked for whether the
recording is open still. If it is not, the result may have come too late, and is recorded again. So
this needs no lock, which would cost a tenth of it.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from ..core.arguments import NUMBERS
from ..dispatch import shortcuts
from ..dispatch.backend_select import TENSOR_KEYS
from ..dispatch.operator import Table
from ..dispatch.tls import inference_blocks, keys_now
from ..makers.rows import bound
from ..structured import elementwise, pointwise
from ..tensor.storage import Storage
from ..tensor.tensor import Tensor, blank
from .pending import Pending
from .recorder import LONGEST, SMALL, current
from .recording import Recording

Kernel = Callable[..., Any]
_BOUND = 1 << 11
_MAKERS = {elementwise.__name__, pointwise.__name__}
_new = object.__new__
_EXACT = (float, int)


def before(plain: int, place: str, table: Table, kernel: Kernel) -> Kernel:
    """What a table gets instead of the kernel it found. plain: the key set without Fuse."""
    arguments = table.operator.schema.arguments
    inputs = [n for n, a in enumerate(arguments) if a.type.has_tensor]
    if (
        table.operator not in bound or "pointwise" not in table.operator.tags
        or any([a.is_write for a in arguments]) or inputs not in ([0], [0, 1])
        or (function := shortcuts.learner(table, plain, place)) is None
    ):  # fmt: skip
        return kernel
    if len(inputs) == 2:
        # One of native/ may look at a number before it goes on, as that of pow does.
        looks = function.__module__ not in _MAKERS
        return _of_two(kernel, TENSOR_KEYS[place], looks)
    return _of_one(kernel, TENSOR_KEYS[place])


# What follows what was recorded before is found by one look, in `State.next`: `record` asks there,
# and `first` leaves it. All are written out, as each operator of a block comes by: calls would be a
# third of it.


def _of_two(kernel: Kernel, keys: int, looks: bool) -> Kernel:
    """Of two inputs, one of which may be a number. looks: the kernel may depend on which one."""
    known: dict[Any, Any] = {}
    mine = object()

    def slow(key_set: int, a: Any, b: Any, *rest: Any) -> Any:
        key = [x._geometry if type(x) is Tensor else type(x) for x in (a, b)]
        return _told(known, tuple(key), kernel, looks, (a, b), key_set, a, b, *rest)

    def first(key_set: int, a: Any, b: Any, *rest: Any) -> Any:
        recorder = current.get()
        first_kind = a._geometry if type(a) is Tensor else type(a)
        second_kind = b._geometry if type(b) is Tensor else type(b)
        found = known.get((first_kind, second_kind))
        if found is None or recorder is None:
            return slow(key_set, a, b, *rest)
        what, beside, params, number = found
        if rest and (rest[0] is not beside[0] or len(rest) > 1 and not all(map(is_, rest, beside))):
            return slow(key_set, a, b, *rest)
        if params or number is not None and a is not number and b is not number:
            return slow(key_set, a, b, *rest)
        recording = recorder.open.get(what.at)
        if recording is None:
            recording = recorder.opened(what)
        codes = recording.found
        if type(a) is Tensor:
            storage = a._storage
            if type(storage) is Pending:
                held, step = storage._array
                if held is not recording or held.steps[step][0].feeds is not first_kind:
                    return slow(key_set, a, b, *rest)
                left = 3 * step + 1
                if a._offset:
                    return slow(key_set, a, b, *rest)
            elif (left := codes.get((id(storage), a._offset, first_kind))) is None:
                left = _code(recording, a, what.device)
            if a._autograd is not None:
                left = -1
        elif not a or (left := codes.get((first_kind, a))) is None:
            left = _code(recording, a, None)
        if type(b) is Tensor:
            storage = b._storage
            if type(storage) is Pending:
                held, step = storage._array
                if held is not recording or held.steps[step][0].feeds is not second_kind:
                    return slow(key_set, a, b, *rest)
                right = 3 * step + 1
                if b._offset:
                    return slow(key_set, a, b, *rest)
            elif (right := codes.get((id(storage), b._offset, second_kind))) is None:
                right = _code(recording, b, what.device)
            if b._autograd is not None:
                right = -1
        elif not b or (right := codes.get((second_kind, b))) is None:
            right = _code(recording, b, None)
        if left < 0 or right < 0:
            return slow(key_set, a, b, *rest)
        key = (what, left, right)
        then = recording.state.then.get(key)
        if then is None:
            then = recording.new_state(key, (what, (left, right), ()))
        state, step, said = then
        if recording.steps:  # of which place it is follows from these
            following = (*then, what, beside, first_kind, second_kind, number)
            recording.state.next[mine, left, right] = following
        recorder.latest = recording
        if step == len(recording.steps):
            recording.steps.append(said)
        recording.state = state
        storage = _new(Pending)
        storage._data, storage._array = None, (recording, step)
        storage.device, storage.version, storage.nbytes = what.device, 0, what.nbytes
        recording.results.append(storage)
        if not recording.is_open:
            return slow(key_set, a, b, *rest)
        tensor = blank()
        tensor._geometry = what.geometry
        tensor._keys = keys if not inference_blocks else keys_now(keys)
        tensor._device = what.device
        tensor._storage = storage
        tensor._offset = 0
        tensor._array = None
        tensor._autograd = None
        if step == LONGEST - 1:
            recording.run(f"it has {LONGEST} operators")
        return tensor

    def record(key_set: int, a: Any, b: Any, *rest: Any) -> Any:
        recorder = current.get()
        recording = None if recorder is None else recorder.latest
        if recording is None:
            return first(key_set, a, b, *rest)
        one: Any
        other: Any
        if type(a) is Tensor:
            one, storage = a._geometry, a._storage
            if type(storage) is Pending:
                held, step = storage._array
                left = 3 * step + 1 if held is recording and not a._offset else None
            else:
                left = recording.found.get((id(storage), a._offset, one))
            if a._autograd is not None:
                left = None
        else:
            one = type(a)
            left = recording.found.get((one, a)) if one in _EXACT and a else None
        if type(b) is Tensor:
            other, storage = b._geometry, b._storage
            if type(storage) is Pending:
                held, step = storage._array
                right = 3 * step + 1 if held is recording and not b._offset else None
            else:
                right = recording.found.get((id(storage), b._offset, other))
            if b._autograd is not None:
                right = None
        else:
            other = type(b)
            right = recording.found.get((other, b)) if other in _EXACT and b else None
        known = recording.state.next.get((mine, left, right))
        if known is None:
            return first(key_set, a, b, *rest)
        state, step, said, what, beside, kind, other_kind, number = known
        if kind is not one or other_kind is not other:
            return first(key_set, a, b, *rest)
        if rest and (rest[0] is not beside[0] or len(rest) > 1 and not all(map(is_, rest, beside))):
            return first(key_set, a, b, *rest)
        if number is not None and a is not number and b is not number:
            return first(key_set, a, b, *rest)
        if step == len(recording.steps):
            recording.steps.append(said)
        recording.state = state
        storage = _new(Pending)
        storage._data, storage._array = None, (recording, step)
        storage.device, storage.version, storage.nbytes = what.device, 0, what.nbytes
        recording.results.append(storage)
        if not recording.is_open:
            return first(key_set, a, b, *rest)
        tensor = blank()
        tensor._geometry = what.geometry
        tensor._keys = keys if not inference_blocks else keys_now(keys)
        tensor._device = what.device
        tensor._storage = storage
        tensor._offset = 0
        tensor._array = None
        tensor._autograd = None
        if step == LONGEST - 1:
            recording.run(f"it has {LONGEST} operators")
        return tensor

    return record


def _of_one(kernel: Kernel, keys: int) -> Kernel:
    known: dict[Any, Any] = {}
    mine = object()

    def slow(key_set: int, a: Any, *rest: Any) -> Any:
        key = a._geometry if type(a) is Tensor else None
        return _told(known, key, kernel, False, (a,), key_set, a, *rest)

    def first(key_set: int, a: Any, *rest: Any) -> Any:
        recorder = current.get()
        found = known.get(a._geometry) if type(a) is Tensor else None
        if found is None or recorder is None or rest and not all(map(is_, rest, found[1])):
            return slow(key_set, a, *rest)
        what, _, params, _ = found
        recording = recorder.open.get(what.at)
        if recording is None:
            recording = recorder.opened(what)
        storage = a._storage
        if type(storage) is Pending:
            held, step = storage._array
            if held is not recording or held.steps[step][0].feeds is not a._geometry:
                return slow(key_set, a, *rest)
            code = 3 * step + 1
            if a._offset:
                return slow(key_set, a, *rest)
        elif (code := recording.found.get((id(storage), a._offset, a._geometry))) is None:
            code = _code(recording, a, what.device)
        if code < 0 or a._autograd is not None:
            return slow(key_set, a, *rest)
        if params:
            step = recording.add(what, (code,), tuple([recording.scalar(x) for x in params]))
        else:
            key = (what, code)
            then = recording.state.then.get(key)
            if then is None:
                then = recording.new_state(key, (what, (code,), ()))
            state, step, said = then
            if recording.steps:
                recording.state.next[mine, code] = (*then, what, found[1], a._geometry)
            recorder.latest = recording
            if step == len(recording.steps):
                recording.steps.append(said)
            recording.state = state
        storage = _new(Pending)
        storage._data, storage._array = None, (recording, step)
        storage.device, storage.version, storage.nbytes = what.device, 0, what.nbytes
        recording.results.append(storage)
        if not recording.is_open:
            return slow(key_set, a, *rest)
        tensor = blank()
        tensor._geometry = what.geometry
        tensor._keys = keys if not inference_blocks else keys_now(keys)
        tensor._device = what.device
        tensor._storage = storage
        tensor._offset = 0
        tensor._array = None
        tensor._autograd = None
        if step == LONGEST - 1:
            recording.run(f"it has {LONGEST} operators")
        return tensor

    def record(key_set: int, a: Any, *rest: Any) -> Any:
        recorder = current.get()
        recording = None if recorder is None else recorder.latest
        if recording is None or type(a) is not Tensor or a._autograd is not None:
            return first(key_set, a, *rest)
        storage = a._storage
        if type(storage) is Pending:
            held, step = storage._array
            code = 3 * step + 1 if held is recording and not a._offset else None
        else:
            code = recording.found.get((id(storage), a._offset, a._geometry))
        known = recording.state.next.get((mine, code))
        if known is None:
            return first(key_set, a, *rest)
        state, step, said, what, beside, kind = known
        if kind is not a._geometry or rest and not all(map(is_, rest, beside)):
            return first(key_set, a, *rest)
        if step == len(recording.steps):
            recording.steps.append(said)
        recording.state = state
        storage = _new(Pending)
        storage._data, storage._array = None, (recording, step)
        storage.device, storage.version, storage.nbytes = what.device, 0, what.nbytes
        recording.results.append(storage)
        if not recording.is_open:
            return first(key_set, a, *rest)
        tensor = blank()
        tensor._geometry = what.geometry
        tensor._keys = keys if not inference_blocks else keys_now(keys)
        tensor._device = what.device
        tensor._storage = storage
        tensor._offset = 0
        tensor._array = None
        tensor._autograd = None
        if step == LONGEST - 1:
            recording.run(f"it has {LONGEST} operators")
        return tensor

    return record


def _code(recording: Recording, x: Any, place: Any) -> int:
    """Of an operand that is not pending, met for the first time; -1 where that is not for here."""
    if type(x) is not Tensor:
        return -1 if type(x) is int and not -SMALL < x < SMALL else recording.scalar(x)
    storage = x._get_storage()
    if type(storage) is not Storage or x._device is not place:
        return -1
    key = (id(storage), x._offset, x._geometry)
    code = recording.found.get(key)
    return recording.input(key, storage, x) if code is None else code


# --- what is known --------------------------------------------------------------------------------


def _told(
    known: dict[Any, Any], key: Any, kernel: Kernel, looks: bool, inputs: tuple[Any, ...],
    key_set: int, *args: Any,
) -> Any:  # fmt: skip
    """Call the kernel, and keep what it has recorded, if that is all that it did."""
    recorder = current.get()
    # Of a subclass, as parameters are, nothing follows from its type.
    if recorder is None or not all([type(x) is Tensor or type(x) in NUMBERS for x in inputs]):
        return kernel(key_set, *args)
    told = recorder.told = []
    made = kernel(key_set, *args)
    recorder.told = None
    if len(told) == 1 and told[0][3] is made:
        what, recorded, params, _, checked = told[0]
        if len(recorded) == len(inputs) and all(map(is_, recorded, inputs)):
            numbers = [x for x in inputs if type(x) is not Tensor]
            if len(known) >= _BOUND:
                known.clear()
            # A number that was looked at stands for itself, others for all of their type.
            number = numbers[0] if (checked or looks) and numbers else None
            known[key] = (what, args[len(inputs) :], params, number)
    return made
