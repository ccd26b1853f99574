"""The fast path from a dispatch table to the recording, for operators that were recorded before.

Within a block, tables store this path for calls of plain tensors. It replaces the kernels of
Autograd and Fuse, whose only effect would be to find the step to record. The step depends only on
the operands' geometries; for each combination of geometries, a function records it. Short cuts on
the CPU call that function directly, because they have checked the operands. As with short cuts
(Note [Short cuts]), any registration or wrapping of kernels gives the operator another table.

Note [Recording beside other threads]
A thread that reads a result runs this thread's recording. It first closes the recording and then
collects the wanted results; this code first adds a result to the wanted results and then checks
that the recording is still open. If it is closed, the result may have been missed and is recorded
again. So this code needs no lock; a lock would add a tenth to the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from ...core.arguments import NUMBERS
from ...core.dtype import COMPLEX, FLOATING, INTEGER, dtype
from ...core.number_range import integer_range, largest_float
from ...dispatch import keys, shortcuts
from ...dispatch.backend_select import TENSOR_KEYS
from ...dispatch.operator import Table
from ...dispatch.tls import inference_blocks, keys_now
from ...registrations.rows import bound
from ...structured.pointwise import cpu, elementwise
from ...structured import pointwise
from ...tensor.storage import Storage
from ...tensor.tensor import Tensor, blank
from ..chain import Recorded
from .pending import Pending
from .recorder import LONGEST, SMALL, current, is_small
from .recording import NUMBER, PARAMS

Kernel = Callable[..., Any]
_BOUND = 1 << 11
_MAKERS = {cpu.__name__, elementwise.__name__, pointwise.__name__}
# A call of this function takes two thirds of the time of `object.__new__`.
_pending: Callable[[], Pending] = type.__call__.__get__(Pending)
_now = current.get
_FUSE = keys.FUSE
_LAST = LONGEST - 1


def before(plain: int, place: str, table: Table, kernel: Kernel) -> Kernel:
    """Return the function that a table stores in place of its kernel. plain: the key set without
    Fuse."""
    arguments = table.operator.schema.arguments
    inputs = [n for n, a in enumerate(arguments) if a.type.has_tensor]
    if (
        table.operator not in bound or "pointwise" not in table.operator.tags
        or any([a.is_write for a in arguments]) or inputs not in ([0], [0, 1])
        or (function := shortcuts.learner(table, plain, place)) is None
    ):  # fmt: skip
        return kernel
    # The result of a kernel of native/ may depend on the value of a number, as in pow.
    looks = len(inputs) == 2 and function.__module__ not in _MAKERS
    known = _Known(table, kernel, TENSOR_KEYS[place], looks)
    return known.of_two() if len(inputs) == 2 else known.of_one()


class _Known:
    """The calls of one operator that were recorded before. kernel: the kernel that the table would
    call. looks: True if the kernel may depend on the value of a number.

    recorders: maps (operands' geometries, type of a number) to [the function that records the call,
    the arguments after the operands]. A short cut holds the list, whose function may change.
    """

    def __init__(self, table: Table, kernel: Kernel, keys: int, looks: bool) -> None:
        self.table, self.kernel, self.keys, self.looks = table, kernel, keys, looks
        self.recorders: dict[Any, list[Any]] = {}

    def of_two(self) -> Kernel:
        """Return the function for two inputs, one of which may be a number."""
        recorders = self.recorders

        def first(key_set: int, a: Any, b: Any, *rest: Any) -> Any:
            key = (
                a._geometry if type(a) is Tensor else type(a),
                b._geometry if type(b) is Tensor else type(b),
            )
            found = recorders.get(key)
            if found is not None and (not rest or all(map(is_, rest, found[1]))):
                made = found[0](a, b)
                return self.at_once(key_set, a, b, *rest) if made is None else made
            return self.told(None, key, (a, b), key_set, a, b, *rest)

        vars(first)["told"] = self.told
        return first

    def of_one(self) -> Kernel:
        recorders = self.recorders

        def first(key_set: int, a: Any, *rest: Any) -> Any:
            key = a._geometry if type(a) is Tensor else None
            found = recorders.get(key)
            if found is not None and (not rest or all(map(is_, rest, found[1]))):
                made = found[0](a)
                return self.at_once(key_set, a, *rest) if made is None else made
            return self.told(None, key, (a,), key_set, a, *rest)

        vars(first)["told"] = self.told
        return first

    def at_once(self, key_set: int, *args: Any) -> Any:
        """Run the operator immediately, as outside of a block."""
        key_set &= ~_FUSE
        return self.table[key_set](key_set, *args)

    def told(
        self, known: list[Any] | None, key: Any, inputs: tuple[Any, ...], key_set: int, *args: Any
    ) -> Any:
        """Call the kernel. If its only effect was to record one step, store a function that records
        this step in later calls. known: the list in which the function is stored; None means the
        list at `recorders[key]`. An existing list is changed in place, because a short cut of the
        operator may refer to it.
        """
        recorder = current.get()
        # Calls with a subclass of Tensor, such as Parameter, are not remembered, because the
        # operand's class does not determine the class of the result.
        if recorder is None or not all([type(x) is Tensor or type(x) in NUMBERS for x in inputs]):
            return self.kernel(key_set, *args)
        told = recorder.told = []
        made = self.kernel(key_set, *args)
        recorder.told = None
        if len(told) == 1 and told[0][3] is made:
            what, recorded, params, _ = told[0]
            if len(recorded) == len(inputs) and all(map(is_, recorded, inputs)):
                rest = args[len(inputs) :]
                self._remember(known, key, what, inputs, params, key_set, rest)
        return made

    def _remember(
        self, known: list[Any] | None, key: Any, what: Recorded, inputs: tuple[Any, ...],
        params: tuple[Any, ...], key_set: int, rest: tuple[Any, ...],
    ) -> None:  # fmt: skip
        if len(self.recorders) >= _BOUND:
            self.recorders.clear()
        numbers = [x for x in inputs if type(x) is not Tensor]
        known = known or self.recorders.get(key)
        if known is None or len(known[1]) != len(rest) or not all(map(is_, known[1], rest)):
            known = [None, rest]

        def slow(*operands: Any) -> Any:
            return self.told(known, key, operands, key_set, *operands, *rest)

        if len(inputs) == 1:
            known[0] = _of_tensor(
                what, key, True, params, PARAMS, None, self.keys, lambda a, _: slow(a)
            )  # fmt: skip
        elif params:
            return
        elif not numbers:
            known[0] = _of_two(what, key[0], key[1], self.keys, slow)
        else:
            is_first = type(inputs[0]) is Tensor
            one = key[0] if is_first else key[1]
            number = numbers[0]
            bound = None if self.looks else _free_of_checks(type(number), what.compute)
            known[0] = _of_tensor(what, one, is_first, number, NUMBER, bound, self.keys, slow)
        self.recorders[key] = known


def _free_of_checks(kind: type, compute: dtype) -> float | None:
    """Return a bound: numbers of this type with a smaller magnitude need no check. None means that
    every number needs a check."""
    if kind is bool:
        return 2
    if kind is int:
        return min(SMALL, integer_range(compute)[1]) if compute.category == INTEGER else SMALL
    is_checked = kind is not float or compute.category not in (FLOATING, COMPLEX)
    return None if is_checked else largest_float(compute)


# The following functions `record` repeat code, because every operator in a block runs one of them,
# and calls of further functions would take a third of the operator's time. A `record` is called
# only with operands of the geometries for which it was made. It returns None if the operator must
# run immediately: see `is_small`.


def _of_two(what: Recorded, one: Any, other: Any, keys: int, slow: Kernel) -> Kernel:
    at, device, geometry, may_run = what.at, what.device, what.geometry, is_small(what)

    def record(a: Any, b: Any) -> Any:
        recorder = _now()
        if recorder is None:
            return slow(a, b)
        if may_run and recorder.runs_small and not (recorder.open and recorder.continues(at, a, b)):
            return None
        recording = recorder.latest
        if recording is None or recording.at is not at:
            recording = recorder.taking(what)
        if a._autograd is not None or b._autograd is not None or a._offset or b._offset:
            return slow(a, b)
        steps = recording.steps
        left = a._storage
        if type(left) is Pending:
            held, left = left._array, left._step
            if held is not recording or steps[left][0].feeds is not one:
                return slow(a, b)
        elif a._device is not device or type(left) is not Storage and (
            left is not None or type(left := a._get_storage()) is not Storage
        ):  # fmt: skip
            return slow(a, b)
        right = b._storage
        if type(right) is Pending:
            held, right = right._array, right._step
            if held is not recording or steps[right][0].feeds is not other:
                return slow(a, b)
        elif b._device is not device or type(right) is not Storage and (
            right is not None or type(right := b._get_storage()) is not Storage
        ):  # fmt: skip
            return slow(a, b)
        step = len(steps)
        steps.append((what, one, left, a._array, other, right, b._array))
        storage = _pending()
        storage._array, storage._step, storage.version = recording, step, 0
        recording.results.append(storage)
        if not recording.is_open:
            return slow(a, b)
        tensor = blank()
        tensor._geometry = geometry
        tensor._keys = keys if not inference_blocks else keys_now(keys)
        tensor._device = device
        tensor._storage = storage
        tensor._offset = 0
        tensor._array = None
        tensor._autograd = None
        if step >= _LAST:
            recording.run(f"it has {LONGEST} operators")
        return tensor

    return record


def _of_tensor(
    what: Recorded, one: Any, is_first: bool, beside: Any, kind: Any, bound: float | None,
    keys: int, slow: Kernel,
) -> Kernel:  # fmt: skip
    """Return the function for a tensor and a number (kind NUMBER), or for a tensor only (kind
    PARAMS). beside: the number or the parameters. With a bound, the function accepts all numbers
    between -bound and bound; without a bound, only `beside`. is_first: the tensor is the first
    operand."""
    at, device, geometry, may_run = what.at, what.device, what.geometry, is_small(what)

    def record(a: Any, b: Any = beside) -> Any:
        x, n = (a, b) if is_first else (b, a)
        recorder = _now()
        if recorder is None or n is not beside and (bound is None or not -bound < n < bound):
            return slow(a, b)
        if may_run and recorder.runs_small and not (recorder.open and recorder.continues(at, x)):
            return None
        recording = recorder.latest
        if recording is None or recording.at is not at:
            recording = recorder.taking(what)
        if x._autograd is not None or x._offset:
            return slow(a, b)
        steps = recording.steps
        source = x._storage
        if type(source) is Pending:
            held, source = source._array, source._step
            if held is not recording or steps[source][0].feeds is not one:
                return slow(a, b)
        elif x._device is not device or type(source) is not Storage and (
            source is not None or type(source := x._get_storage()) is not Storage
        ):  # fmt: skip
            return slow(a, b)
        step = len(steps)
        steps.append(
            (what, one, source, x._array, None, n, kind)
            if is_first
            else (what, None, n, kind, one, source, x._array)
        )
        storage = _pending()
        storage._array, storage._step, storage.version = recording, step, 0
        recording.results.append(storage)
        if not recording.is_open:
            return slow(a, b)
        tensor = blank()
        tensor._geometry = geometry
        tensor._keys = keys if not inference_blocks else keys_now(keys)
        tensor._device = device
        tensor._storage = storage
        tensor._offset = 0
        tensor._array = None
        tensor._autograd = None
        if step >= _LAST:
            recording.run(f"it has {LONGEST} operators")
        return tensor

    return record
