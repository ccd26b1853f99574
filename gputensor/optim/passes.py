"""Steps of elementwise optimizers in one pass over memory.

The recorder of `gt.fuse` records the formula of a step once for each kind of parameter, on samples
of a few elements. The recorded chain is one program of the compiled library, or one kernel on CUDA,
which reads each element of a parameter, of its gradient and of its state once and writes it once.
One launch on CUDA steps many parameters. The results have the same bits as if the operators ran one
by one. Complex parameters, and parameters on other devices, are stepped by operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .._generated.functions import empty
from ..core.device import CPU
from ..dispatch import tls
from ..dispatch.backend_select import TENSOR_KEYS
from ..fusion.chain import Chain
from ..fusion.cpu import programs
from ..fusion.cuda import body
from ..fusion.record import operators
from ..fusion.record.pending import Pending
from ..fusion.record.recorder import Recorder, current
from ..kernels import stub
from ..nn.utils.lists import are_apart, are_on as are_on
from ..tensor.base import bump_version
from ..tensor.tensor import Tensor
from .arithmetic import Group, State, Stepped

if TYPE_CHECKING:
    from .optimizer import Optimizer

_KEYS = (TENSOR_KEYS["cpu"], TENSOR_KEYS["cuda"])
_SAMPLE = 64  # The number of elements of a sample.
# In a group of fewer than _MANY parameters, operators update each parameter of fewer than _LARGE
# elements. Recording a step costs as much as running the operators for _MANY small parameters, or
# for one parameter of _LARGE elements.
_MANY, _LARGE = 12, 1 << 17
# A function that updates parameters. Its arguments are the tensors of each parameter, and the
# scalars. It returns the number n of parameters that it updated, which are the first n. The other
# parameters are unchanged.
Run = Callable[[list[list[Tensor]], list[Any]], int]
# Maps (chain, places of its stores and inputs) to the result of `_program`.
_programs: dict[Any, Run | None] = {}
_BOUND = 1 << 8


class _Pass(NamedTuple):
    """A recorded step for all parameters of one kind. They have the same dtype and device, and
    their states have the same tensors by name and the same numbers. Tensor 0 is the parameter,
    tensor 1 is its gradient, and the other tensors belong to its state.

    run: see `Run`. written: the numbers of the tensors that the step writes. scalars: the numbers
    that the chain uses. numbers: the state's numbers after the step; None for a number that the
    step removed.
    """

    run: Run
    written: tuple[int, ...]
    scalars: list[Any]
    numbers: State


class _Waiting(NamedTuple):
    """A parameter that waits for its pass to run."""

    made: _Pass
    tensors: list[Tensor]
    stepped: Stepped


class Passes:
    """One step of a group, with one pass for each kind of parameter in the group."""

    __slots__ = ("_optimizer", "_group", "_are_few", "_known", "_waiting", "_names")
    _waiting: list[_Waiting]

    def __init__(self, optimizer: Optimizer, group: Group) -> None:
        self._optimizer, self._group = optimizer, group
        self._are_few: bool = len(group["params"]) < _MANY
        self._known: dict[Any, _Pass | None] = {}
        self._waiting, self._names = [], set[int]()

    def step(self, found: list[Stepped]) -> None:
        """Update parameters by passes. For a parameter without a pass, call operators."""
        for stepped in found:
            if id(stepped[0]) in self._names:  # a group may contain a parameter twice
                self._run()
            waiting = self._taken(stepped)
            if waiting is not None:
                self._waiting.append(waiting)
                self._names.add(id(stepped[0]))
            else:
                self._run()
                self._optimizer._step_by_operators(stepped, self._group)
        self._run()

    def _taken(self, stepped: Stepped) -> _Waiting | None:
        """Return a parameter with its pass. Return None if operators must update the parameter."""
        p, grad, state = stepped
        shape = p._geometry
        if self._are_few and shape.numel < _LARGE:
            return None
        tensors = [p, grad]
        kind = [shape.dtype, shape.is_non_overlapping_and_dense, p._device]
        for name, value in state.items():
            if isinstance(value, Tensor):
                tensors.append(value)
                kind.append(name)
            else:
                kind.append((name, value))
        for x in tensors:
            if x._keys not in _KEYS or x._geometry is not shape or x._device is not p._device:
                return None
        key = tuple(kind)
        if key not in self._known:
            self._known[key] = self._recorded(p, state)
        made = self._known[key]
        if made is None or abs(p._ptr() - grad._ptr()) < shape.numel * shape.dtype.itemsize:
            # The gradient's memory overlaps the parameter's memory. A pass would overwrite elements
            # of the gradient before it reads them.
            return None
        return _Waiting(made, tensors, stepped)

    def _run(self) -> None:
        """Update all waiting parameters."""
        waiting, self._waiting, self._names = self._waiting, [], set()
        of: dict[int, list[_Waiting]] = {}
        for x in waiting:
            of.setdefault(id(x.made), []).append(x)
        batches = [*of.values()]
        # Several passes may run in any order, and on CUDA one pass updates several parameters at
        # once. In both cases the parameters' memory must not overlap.
        is_ordered = len(of) < 2 and all([x.stepped[0]._device is CPU for x in waiting[:1]])
        if not is_ordered and not are_apart([(x.tensors, x.made.written) for x in waiting]):
            batches = [[x] for x in waiting]
        for batch in batches:
            self._run_batch(batch[0].made, batch)

    def _run_batch(self, made: _Pass, batch: list[_Waiting]) -> None:
        while batch:
            done = made.run([x.tensors for x in batch], made.scalars)
            for x in batch[:done]:
                for n in made.written:
                    bump_version(x.tensors[n])
                self._optimizer._set_numbers(x.stepped, made.numbers, self._group)
            for x in batch[done : done + 1]:
                self._optimizer._step_by_operators(x.stepped, self._group)
            batch = batch[done + 1 :]

    def _recorded(self, p: Tensor, given: State) -> _Pass | None:
        """Record a step on samples. Return None if the step is more than one chain."""
        shape = p._geometry
        if not (shape.dtype.is_floating_point and shape.is_non_overlapping_and_dense):
            return None
        names = [name for name, value in given.items() if isinstance(value, Tensor)]
        numbers = {name: value for name, value in given.items() if name not in names}
        samples = [
            empty(_SAMPLE, dtype=shape.dtype, device=p._device) for _ in (None, None, *names)
        ]  # fmt: skip
        operators.install()
        recorder, before = Recorder(), tls.state.get()
        recorder.runs_small = False
        outside = current.set(recorder)
        tls.state.set(tls.FUSING)
        try:
            copies = [x.clone() for x in samples]
            state = {**numbers, **dict(zip(names, copies[2:]))}
            first = [getattr(x._storage, "_step", None) for x in copies]
            self._optimizer._apply(copies[0], copies[1], state, self._group)
            is_same = all([state.get(name) is x for name, x in zip(names, copies[2:])])
            if not is_same or not state.keys() <= given.keys():
                return None
            return _pass(recorder, samples, copies, first, {n: state.get(n) for n in numbers})
        finally:
            tls.state.set(before)
            current.reset(outside)
            # Drop the recording without running it, and without a reference cycle.
            for recording in [*recorder.pending]:
                recording.close()
                recording.let_go()


def _pass(
    recorder: Recorder, samples: list[Tensor], copies: list[Tensor], first: list[Any],
    numbers: State,
) -> _Pass | None:  # fmt: skip
    """Build a pass from a step that was recorded on copies of the samples. first: the recorded
    operations that copied the samples.
    """
    storages = [x._storage for x in copies]
    if any([type(x) is not Pending for x in storages]):
        return None
    recording = storages[0]._array
    if not recording.is_open or any([x._array is not recording for x in storages]):
        return None
    written = [n for n, x in enumerate(storages) if x._step != first[n]]
    chain, inputs = recording._known(tuple([storages[n]._step for n in written]))
    numbers_of = {id(x._get_storage()): n for n, x in enumerate(samples)}
    read = [numbers_of.get(id(recording.inputs[n][0]), -1) for n in inputs]
    if -1 in read:
        return None
    key = (chain, *written, *read)
    if key not in _programs:
        if len(_programs) >= _BOUND:
            _programs.clear()
        _programs[key] = _program(chain, (*written, *read))
    run = _programs[key]
    return None if run is None else _Pass(run, tuple(written), recording.scalars, numbers)


def _program(chain: Chain, places: tuple[int, ...]) -> Run | None:
    """Return a function that runs a chain for many parameters, or None if the chain cannot be one
    program. places: the numbers of the tensors that the chain writes, followed by the numbers of
    the tensors that it reads. For the numbers, see `_Pass`."""
    made = _without_copies(chain)
    if made is None:
        return None
    if chain.device.type == "cuda":
        return _kernel(made, places)
    if not all([programs.is_known(made, step) for step in made.instructions]):
        return None
    found = programs.program(made, [*made.steps])
    if found is None:
        return None
    program, count = found.program, len(made.stores)
    assert program is not None
    chosen = [places[made.stores.index(x)] for x in found.makes]
    chosen += [places[count + n] for n in found.takes]

    def run(parameters: list[list[Tensor]], scalars: list[Any]) -> int:
        for number, tensors in enumerate(parameters):
            arrays = [x._get_array() for x in tensors]
            if not program(*[arrays[n] for n in chosen], scalars, True):
                return number
        return len(parameters)

    return run


def _kernel(chain: Chain, places: tuple[int, ...]) -> Run | None:
    """Return a function that launches the chain on CUDA, or None if one kernel cannot compute
    it."""
    if stub.registered(stub.CHAIN, stub.CHAIN, "cuda") is not None:
        return None
    launch, index = body.over_lists(chain, places), chain.device.index
    if launch is None or index is None:
        return None
    written = {*places[: len(chain.stores)]}

    def run(parameters: list[list[Tensor]], scalars: list[Any]) -> int:
        if len(parameters) == 1 and not are_apart([(parameters[0], written)]):
            return 0
        addresses = [[x._address() for x in tensors] for tensors in parameters]
        numels = [tensors[0]._geometry.numel for tensors in parameters]
        launch(index, [*zip(numels, addresses)], scalars)
        return len(parameters)

    return run


def _without_copies(chain: Chain) -> Chain | None:
    """Return the chain without copies. Instructions that read a copy read its origin instead.
    Return None if a copy of an input is stored, or if two stores have the same value."""
    count, origins = len(chain.inputs), chain.origins()
    stores = [origins[x] for x in chain.stores]
    if len({*stores}) < len(stores) or min(stores, default=-1) < count:
        return None
    steps = [n for n in chain.needed(stores) if n >= count and origins[n] == n]
    return chain.cut(range(count), steps, stores, same=origins)
