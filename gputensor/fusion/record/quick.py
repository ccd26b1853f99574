"""Fast path from the table to the recording, for operators that were recorded before.

It is in a table for calls of plain tensors within a block, in front of the kernels of Autograd and
Fuse, which would only find the step to record. The step depends only on the operands' geometries
and is remembered here from the previous call. CPU short cuts, which have checked the operands, call
it directly. As with short cuts (Note [Short cuts]), any registration or wrapping of kernels gives
the operator another table.

Note [Recording beside other threads]
A thread that reads a result runs this thread's recording. It first closes the recording and then
collects the wanted results; this code first adds a result to the wanted ones and then checks that
the recording is still open. If it is closed, the result may have been missed and is recorded again.
So no lock is needed, which would add a tenth to the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from ...core.arguments import NUMBERS
from ...dispatch import shortcuts
from ...dispatch.backend_select import TENSOR_KEYS
from ...dispatch.operator import Table
from ...dispatch.tls import inference_blocks, keys_now
from ...makers.rows import bound
from ...structured.pointwise import elementwise
from ...structured import pointwise
from ...tensor.storage import Storage
from ...tensor.tensor import Tensor, blank
from .pending import Pending
from .recorder import LONGEST, SMALL, current
from .recording import Recording

Kernel = Callable[..., Any]
_BOUND = 1 << 11
_MAKERS = {elementwise.__name__, pointwise.__name__}
# Takes two thirds of the time of `object.__new__`.
_pending: Callable[[], Pending] = type.__call__.__get__(Pending)
_LAST = LONGEST - 1


def before(plain: int, place: str, table: Table, kernel: Kernel) -> Kernel:
    """The function that a table stores instead of its kernel. plain: the key set without Fuse."""
    arguments = table.operator.schema.arguments
    inputs = [n for n, a in enumerate(arguments) if a.type.has_tensor]
    if (
        table.operator not in bound or "pointwise" not in table.operator.tags
        or any([a.is_write for a in arguments]) or inputs not in ([0], [0, 1])
        or (function := shortcuts.learner(table, plain, place)) is None
    ):  # fmt: skip
        return kernel
    if len(inputs) == 2:
        # A kernel of native/ may inspect a number first, as pow's does.
        looks = function.__module__ not in _MAKERS
        return _of_two(kernel, TENSOR_KEYS[place], looks)
    return _of_one(kernel, TENSOR_KEYS[place])


# `record` compares the call to the last successor on the same operands; `first` searches all
# recorded successors and sets the expected one. Each `record` is written out because every operator
# of a block runs it: function calls would be a third of its time.


def _of_two(kernel: Kernel, keys: int, looks: bool) -> Kernel:
    """For two inputs, one of which may be a number. looks: the kernel may depend on its value."""
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
        if recording.steps:  # these determine its place
            recording.state.expected = (
                mine, left, right, first_kind, second_kind, *then, what, beside, number,
            )  # fmt: skip
        recorder.latest = recording
        if step == len(recording.steps):
            recording.steps.append(said)
        recording.state = state
        made = _made(recording, step, what, keys)
        return slow(key_set, a, b, *rest) if made is None else made

    def record(key_set: int, a: Any, b: Any, *rest: Any) -> Any:
        recorder = current.get()
        if recorder is None or (recording := recorder.latest) is None:
            return first(key_set, a, b, *rest)
        who, left, right, one, other, state, step, said, what, beside, number = (
            recording.state.expected
        )
        if who is not mine:
            return first(key_set, a, b, *rest)
        of = recording.of
        if type(a) is Tensor:
            if a._geometry is not one or a._offset or a._autograd is not None:
                return first(key_set, a, b, *rest)
            if a._storage is not of.get(left, of) and _code(recording, a, what.device) != left:
                return first(key_set, a, b, *rest)
        elif type(a) is not one or not a or (
            a != of.get(left, of) and _code(recording, a, None) != left
        ):  # fmt: skip
            return first(key_set, a, b, *rest)
        if type(b) is Tensor:
            if b._geometry is not other or b._offset or b._autograd is not None:
                return first(key_set, a, b, *rest)
            if b._storage is not of.get(right, of) and _code(recording, b, what.device) != right:
                return first(key_set, a, b, *rest)
        elif type(b) is not other or not b or (
            b != of.get(right, of) and _code(recording, b, None) != right
        ):  # fmt: skip
            return first(key_set, a, b, *rest)
        if rest and (rest[0] is not beside[0] or len(rest) > 1 and not all(map(is_, rest, beside))):
            return first(key_set, a, b, *rest)
        if number is not None and a is not number and b is not number:
            return first(key_set, a, b, *rest)
        if step == len(recording.steps):
            recording.steps.append(said)
        recording.state = state
        storage = _pending()
        storage._array, storage.version = (recording, step), 0
        of[3 * step + 1] = storage
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
        if step == _LAST:
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
                recording.state.expected = (
                    mine, code, None, a._geometry, None, *then, what, found[1], None,
                )  # fmt: skip
            recorder.latest = recording
            if step == len(recording.steps):
                recording.steps.append(said)
            recording.state = state
        made = _made(recording, step, what, keys)
        return slow(key_set, a, *rest) if made is None else made

    def record(key_set: int, a: Any, *rest: Any) -> Any:
        recorder = current.get()
        if recorder is None or (recording := recorder.latest) is None:
            return first(key_set, a, *rest)
        who, code, _, one, _, state, step, said, what, beside, _ = recording.state.expected
        if (
            who is not mine or type(a) is not Tensor or a._geometry is not one
            or a._storage is not recording.of.get(code, who) or a._offset or a._autograd is not None
        ):  # fmt: skip
            return first(key_set, a, *rest)
        if rest and not all(map(is_, rest, beside)):
            return first(key_set, a, *rest)
        if step == len(recording.steps):
            recording.steps.append(said)
        recording.state = state
        storage = _pending()
        storage._array, storage.version = (recording, step), 0
        recording.of[3 * step + 1] = storage
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
        if step == _LAST:
            recording.run(f"it has {LONGEST} operators")
        return tensor

    return record


def _made(recording: Recording, step: int, what: Any, keys: int) -> Tensor | None:
    """The result of a step; None if the recording was closed meanwhile."""
    storage = _pending()
    storage._array, storage.version = (recording, step), 0
    recording.of[3 * step + 1] = storage
    recording.results.append(storage)
    if not recording.is_open:
        return None
    tensor = blank()
    tensor._geometry = what.geometry
    tensor._keys = keys if not inference_blocks else keys_now(keys)
    tensor._device = what.device
    tensor._storage = storage
    tensor._offset = 0
    tensor._array = None
    tensor._autograd = None
    if step == _LAST:
        recording.run(f"it has {LONGEST} operators")
    return tensor


def _code(recording: Recording, x: Any, place: Any) -> int:
    """The code of a new operand that is not pending; -1 if this fast path cannot take it."""
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
    """Call the kernel, and remember the recorded step if the kernel did nothing else."""
    recorder = current.get()
    # For a subclass such as Parameter, the type does not determine the result.
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
            # An inspected number is keyed by value, other numbers by type.
            number = numbers[0] if (checked or looks) and numbers else None
            known[key] = (what, args[len(inputs) :], params, number)
    return made
