"""Steps of elementwise optimizers in one pass over memory.

The formula of a step is recorded once for each kind of parameter, on samples of a few elements, by
the recorder of `gt.fuse`. The recorded chain is one program of the compiled library, or one kernel
on CUDA, which reads each element of a parameter, of its gradient and of its state once and writes
it once. The bits equal those of operators that run one by one. Complex parameters, and parameters
on other devices, are stepped by operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .._generated.functions import empty
from ..dispatch import dispatcher, tls
from ..dispatch.backend_select import TENSOR_KEYS
from ..fusion import block
from ..fusion.chain import Chain
from ..fusion.cpu import programs
from ..fusion.cuda import body
from ..fusion.record import operators
from ..fusion.record.pending import Pending
from ..fusion.record.recorder import Recorder, current
from ..kernels import stub
from ..tensor.base import bump_version
from ..tensor.tensor import Tensor
from .arithmetic import Group, State

if TYPE_CHECKING:
    from .optimizer import Optimizer

_KEYS = (TENSOR_KEYS["cpu"], TENSOR_KEYS["cuda"])
_SAMPLE = 64  # elements of a sample
# Recording a step costs as much as the operators for _MANY small parameters, or for one parameter
# of _LARGE elements.
_MANY, _LARGE = 12, 1 << 17
# run(tensors to write, tensors to read, scalars). It returns False if it has written nothing.
Run = Callable[[list[Tensor], list[Tensor], list[Any]], bool]
# Chain -> its program with the stores and inputs; None if the chain is not one program.
_programs: dict[Chain, Any] = {}
_BOUND = 1 << 8


class _Pass(NamedTuple):
    """A step of all parameters of one kind. Tensors are numbered: the parameter, its gradient, and
    the tensors of its state.

    run: see `_program`. written, read: the tensors that are its results and its operands. scalars:
    the chain's numbers. numbers: the state's numbers after the step; None for one that it
    removed."""

    run: Run
    written: tuple[int, ...]
    read: tuple[int, ...]
    scalars: list[Any]
    numbers: State


class Passes:
    """One step of a group: a pass for each kind of parameter that occurs in it."""

    __slots__ = ("_optimizer", "_group", "_are_few", "_known")

    def __init__(self, optimizer: Optimizer, group: Group) -> None:
        self._optimizer, self._group = optimizer, group
        self._are_few: bool = len(group["params"]) < _MANY
        self._known: dict[Any, _Pass | None] = {}

    def step(self, p: Tensor, grad: Tensor, state: State) -> bool:
        """Step a parameter and its state. Returns False if operators must do it; nothing has been
        written then."""
        shape = p._geometry
        if self._are_few and shape.numel < _LARGE:
            return False
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
                return False
        key = tuple(kind)
        if key not in self._known:
            self._known[key] = self._recorded(p, state)
        found = self._known[key]
        if found is None:
            return False
        if p.data_ptr() == grad.data_ptr() != 0:
            return False  # the gradient would change before it is read
        written, read = ([tensors[n] for n in of] for of in (found.written, found.read))
        if not found.run(written, read, found.scalars):
            return False
        for n in found.written:
            bump_version(tensors[n])
        for name, number in found.numbers.items():
            if number is None:
                del state[name]
            else:
                state[name] = number
        return True

    def _recorded(self, p: Tensor, given: State) -> _Pass | None:
        """Record a step of samples. Returns None if the step is more than one chain."""
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
            # drop the recording without running it, and leave no reference cycle
            for recording in [*recorder.pending]:
                recording.close()
                recording.let_go()
            recorder.pending.clear()


def are_on() -> bool:
    """True if passes and operators have the same effect: no mode, trace or user's kernel watches or
    replaces operators.
    """
    return tls.state.get() is tls.PLAIN and not block.is_off and not dispatcher.is_wrapped()


def _pass(
    recorder: Recorder, samples: list[Tensor], copies: list[Tensor], first: list[Any],
    numbers: State,
) -> _Pass | None:  # fmt: skip
    """Build a pass from the recorded step of copies of samples. first: the recorded steps that made
    the copies.
    """
    storages = [x._storage for x in copies]
    if any([type(x) is not Pending for x in storages]):
        return None
    recording = storages[0]._array
    if not recording.is_open or any([x._array is not recording for x in storages]):
        return None
    written = [n for n, x in enumerate(storages) if x._step != first[n]]
    chain, inputs = recording._known(tuple([storages[n]._step for n in written]))
    found = _programs.get(chain, chain)
    if found is chain:
        if len(_programs) >= _BOUND:
            _programs.clear()
        found = _programs[chain] = _program(chain)
    if found is None:
        return None
    run, stores, read = found
    places = {id(x._get_storage()): n for n, x in enumerate(samples)}
    operands = [places.get(id(recording.inputs[n][0])) for n in inputs]
    if None in operands:
        return None
    return _Pass(
        run, tuple([written[n] for n in stores]), tuple([operands[n] for n in read]),
        recording.scalars, numbers,
    )  # fmt: skip


def _program(chain: Chain) -> tuple[Run, list[int], list[int]] | None:
    """Return a chain's program, the numbers of its results among the chain's stores, and the inputs
    that it reads; None if the chain is not one program."""
    made = _without_copies(chain)
    if made is None:
        return None
    if chain.device.type == "cuda":
        return _kernel(made)
    if not all([programs.is_known(made, step) for step in made.instructions]):
        return None
    found = programs.program(made, 0, len(made.instructions))
    if found is None:
        return None
    program = found.run

    def run(written: list[Tensor], read: list[Tensor], scalars: list[Any]) -> bool:
        done: bool = program(*[x._get_array() for x in (*written, *read)], scalars, True)
        return done

    return run, [made.stores.index(x) for x in found.stores], found.inputs


def _kernel(chain: Chain) -> tuple[Run, list[int], list[int]] | None:
    """Return a chain's launch on CUDA in the form of `_program`; None if one kernel cannot compute
    it."""
    if stub.registered(stub.CHAIN, stub.CHAIN, "cuda") is not None:
        return None
    launch = body.dense(chain)
    if launch is None:
        return None

    def run(written: list[Tensor], read: list[Tensor], scalars: list[Any]) -> bool:
        tensors = {id(x): x for x in (*written, *read)}.values()
        if len({id(x._get_storage()) for x in tensors}) < len(tensors):  # they may overlap
            return False
        return launch(written, read, scalars)

    return run, [*range(len(chain.stores))], [*range(len(chain.inputs))]


def _without_copies(chain: Chain) -> Chain | None:
    """Let a chain read its inputs instead of copies of them. Returns None if a copy is stored, or
    two stores have one value."""
    count, origins = len(chain.inputs), chain.origins()
    stores = [origins[x] for x in chain.stores]
    if len({*stores}) < len(stores) or min(stores, default=-1) < count:
        return None
    steps = [n for n in chain.needed(stores) if n >= count and origins[n] == n]
    return chain.cut(range(count), steps, stores, same=origins)
