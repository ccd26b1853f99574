"""Trace of one call's operators, so that a similar call can run them without its Python.

A call consists of chains and of other operators, such as products and views. None of them writes to
existing memory, so any order that respects dependencies is valid. Tensors are numbered: the given
tensors first, then the results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ...core.geometry import Geometry
from ...core.returns import Results
from ...dispatch import refusal
from ...dispatch.backend_select import TENSOR_KEYS
from ...dispatch.keys import LAZY
from ...dispatch.operator import Operator
from ...structured.generator import Generator, all_marks
from ...tensor.storage import Storage
from ...tensor.tensor import Tensor
from ..chain import Chain, Stream
from .purity import is_constant

# Tags of operators that may give different results in the next call, or that have side effects.
_TAGS = frozenset(
    """nondeterministic_seeded data_dependent_output dynamic_output_shape inplace_view
    maybe_aliasing_or_mutating""".split()
)


class Unlike(Exception):
    """Raised if a call cannot be replayed. The message is a clause whose subject is the call."""


class Taken(NamedTuple):
    """A placeholder for a tensor among the arguments of an operator: the tensor at this place in
    `takes` of the step."""

    place: int


@dataclass(slots=True, eq=False)
class Step:
    """A chain that ran, or an operator that was called. takes, makes: the numbers of its operands
    and of its results. arguments: the operator's arguments, with a Taken for each tensor.
    geometries: the geometries of its results. offsets: for each result that is a view of the only
    operand, the number of elements between the first elements of the operand and of the view.
    """

    chain: Chain | None
    operator: Operator | None
    takes: tuple[Any, ...]
    makes: tuple[int, ...]
    scalars: list[Any]
    arguments: Any = ()
    geometries: tuple[Geometry, ...] = ()
    offsets: tuple[int, ...] | None = None


class Trace:
    """A trace of one call. why: the reason why the call cannot be replayed, or None. draws: the
    uses of generators in order, each as (stream, generator, number of random numbers)."""

    why: str | None

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors, self.n_given = tensors, len(tensors)
        self.steps: list[Step] = []
        self.why = None
        self.draws: list[tuple[Stream, Generator, int]] = []
        self._generators = all_marks()
        self._warned = refusal.warned
        self._found: dict[Any, int] = {}
        self._held: list[Any] = []  # keeps storages alive, so that no other object gets the same id
        self._called: list[Tensor] = []
        self._views: dict[int, Tensor] = {}  # The first result of each operator.
        self._again: list[Tensor] = []  # The views that equal an earlier view.
        self._read: list[Any] = []  # The storages of operands that may not have a number yet.
        self._within = 0  # The number of running operators that are not part of a chain.
        for number, x in enumerate(tensors):
            self._held.append(x._get_storage())
            self._found[_place(x)] = number
        # The geometry of each tensor that a chain makes.
        self.geometries: dict[int, Geometry] = {}
        self.versions: dict[int, int] = {}
        if len(self._found) < len(tensors):
            self.why = "was given one tensor twice"

    def refuse(self, why: str) -> None:
        if not self._within:
            self.why = self.why or why
            # Drop these references, because a chain stores each result to which something refers.
            self._let_go()

    def _let_go(self) -> None:
        self._found, self._held, self._called, self._read = {}, [], [], []
        self._views, self._again = {}, []

    def ran(
        self, chain: Chain, inputs: list[tuple[Any, ...]], wanted: list[tuple[int, Any]],
        scalars: list[Any], reason: str, recorded: list[Any],
    ) -> None:  # fmt: skip
        """Record that a chain ran. recorded: all steps of the chain's recording, including unneeded
        steps."""
        if self.why is not None:
            return
        is_late = reason.startswith(("the block is left", "it has", "another chain"))
        if not is_late and not reason.endswith(" reads it"):
            self.why = f"ran a chain early: {reason}"
            return
        makes = []
        for value, storage in wanted:
            shape = recorded[value][0].geometry
            place = (id(storage), 0, shape)
            again = self._found.get(place)
            if again is not None:  # an equal view was recorded before this chain ran
                self._forget(again)
            makes.append(self._new(storage, place))
            self.geometries[makes[-1]] = shape
        takes = tuple([(id(x[0]), x[1], x[2]) for x in inputs])
        self._read += [x[0] for x in inputs]
        self.steps.append(Step(chain, None, takes, tuple(makes), scalars))

    def _forget(self, number: int) -> None:
        """Replace a numbered view that equals its base by the base."""
        for step in self.steps:
            if step.operator is not None and step.makes == (number,):
                self.steps.remove(step)
                self._again += [x for x in self._called if x is self._views[number]]
                del self._found[_place(self._views[number])]
                return

    def _new(self, storage: Any, place: Any) -> int:
        self._held.append(storage)
        if self._found.setdefault(place, len(self._held) - 1) != len(self._held) - 1:
            self.why = "makes a view equal to its base"
        return len(self._held) - 1

    def drew(
        self, operator: Operator, stream: Stream, source: tuple[Generator, int], waits: bool
    ) -> None:
        """Record that a part of a generator's stream was taken. waits: True if a chain computes the
        numbers later."""
        if waits and not self._within:
            self.draws.append((stream, *source))
        else:
            self.why = self.why or f"runs {operator.short_name} at once"

    def begin(self, operator: Operator) -> None:
        """Record the start of an operator that is not part of a chain. `end` is called after the
        operator."""
        if not self._within and self.why is None and _has_effects(operator):
            self.why = f"runs {operator.short_name}"
        self._within += 1

    def end(self, operator: Operator, args: tuple[Any, ...], made: Any) -> None:
        self._within -= 1
        if self._within or self.why is not None:
            return
        results = made if isinstance(made, (tuple, list)) else (made,)
        if not all([type(x) is Tensor for x in results]) or not results:
            self.why = f"runs {operator.short_name}, which gives no tensor"
            return
        takes: list[Any] = []
        try:
            arguments = _arguments(args, takes)
        except Unlike as error:
            self.why = f"runs {operator.short_name}, {error}"
            return
        given = [_place(x) for x in takes]
        if not given and operator.short_name != "scalar_tensor":
            self.why = f"runs {operator.short_name}"
        elif all([_place(x) in self._found for x in results]):
            self._again += [x for x in results if not any([x is y for y in takes])]
        else:
            makes = tuple([self._new(x._get_storage(), _place(x)) for x in results])
            self._called += [*results, *takes]
            self._views[makes[0]] = results[0]
            self._read += [x._get_storage() for x in takes]
            shapes = tuple([x._geometry for x in results])
            offsets = None
            if len(takes) == 1 and all([
                x._storage is takes[0]._storage and not x._keys & LAZY for x in results
            ]):  # fmt: skip
                offsets = tuple([x._offset - takes[0]._offset for x in results])
            self.steps.append(
                Step(None, operator, tuple(given), makes, [], arguments, shapes, offsets)
            )

    def result(self, found: Any) -> Any:
        """Return a description of the call's result, after its chains have run. Raises: Unlike.

        The description is a number for a tensor, (constructor, parts) for a tuple or list, a dict
        for a dict, and a list of one item for any other value.
        """
        if found is None:
            raise Unlike("returns nothing")
        if refusal.warned != self._warned:
            raise Unlike("gives a warning")
        self._check_draws()
        self._order()
        tensors: dict[int, Tensor] = {}
        made = self._result(found, tensors)
        self.versions = {n: self._held[n].version for n in self.geometries}
        self._let_go()
        self.tensors.clear()
        return made

    def _check_draws(self) -> None:
        """Raise Unlike if a generator gave numbers that no chain computes, such as the numbers of a
        composite operator. A replay would use the same numbers again."""
        for generator, (seed, position) in all_marks().items():
            before = self._generators.get(generator, (seed, 0))
            blocks = sum([-(-count // 4) for _, of, count in self.draws if of is generator])
            if (seed, position) != (before[0], before[1] + blocks):
                raise Unlike("draws random numbers at once")

    def _order(self) -> None:
        """Sort the steps by dependencies, because views may be recorded before their base is
        computed."""
        there = set(range(self.n_given))
        waiting, self.steps = self.steps, []
        for step in waiting:
            takes = [self._found.get(place) for place in step.takes]
            if None in takes:
                raise Unlike("reads a tensor that neither was given nor made by it")
            step.takes = tuple([x or 0 for x in takes])
        while waiting:
            ready = [x for x in waiting if there.issuperset(x.takes)]
            if not ready:
                raise Unlike("reads what it overwrites")
            for step in ready:
                there.update(step.makes)
            self.steps += ready
            waiting = [x for x in waiting if x not in ready]

    def _result(self, found: Any, tensors: dict[int, Tensor]) -> Any:
        kind = type(found)
        if kind is Tensor:
            for number, x in enumerate(self.tensors):
                if x is found:
                    return number
            if any([x is found for x in self._again]):
                raise Unlike("returns a view equal to its base")
            number = self._made(found)
            if tensors.setdefault(number, found) is not found:
                raise Unlike("returns two tensors over one memory")
            return number
        if kind in (tuple, list) or kind.__base__ is Results:
            return (kind, *[self._result(x, tensors) for x in found])
        if kind is dict:
            return {name: self._result(x, tensors) for name, x in found.items()}
        if is_constant(found):
            return [found]
        raise Unlike(f"returns a {kind.__name__}")

    def _made(self, x: Tensor) -> int:
        storage = x._storage
        number = self._found.get((id(storage), x._offset, x._geometry), -1)
        if number < self.n_given:
            raise Unlike("returns a tensor that it did not make")
        is_of_chain, is_called = number in self.geometries, any([x is y for y in self._called])
        if x._autograd is not None if is_of_chain else not is_called:
            raise Unlike("returns a view that it did not make")
        if x._keys != TENSOR_KEYS[x._device.type] or type(storage) is not Storage:
            raise Unlike("returns a tensor of another kind")
        return number


def _place(x: Tensor) -> Any:
    place = id(x._get_storage()), x._offset, x._geometry
    lazy = x._keys & LAZY
    return (*place, lazy) if lazy else place


def _has_effects(operator: Operator) -> bool:
    """True if the operator may have effects other than its results, or different results for equal
    operands."""
    return (
        operator.namespace != "aten" or not _TAGS.isdisjoint(operator.tags)
        or "batch_norm" in operator.short_name
        or any([a.is_write for a in operator.schema.arguments])
    )  # fmt: skip


def _arguments(given: Any, takes: list[Any]) -> Any:
    """Replace each tensor in the arguments by a Taken, which is appended to `takes`."""
    if type(given) is Tensor:
        takes.append(given)
        return Taken(len(takes) - 1)
    if type(given) in (tuple, list):
        return type(given)([_arguments(x, takes) for x in given])
    if not is_constant(given) and type(given) is not complex:
        raise Unlike(f"which is given a {type(given).__name__}")
    return given
