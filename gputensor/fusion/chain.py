"""A recorded chain: operators on one layout, in SSA form, without data.

Note [A chain]
All results of a chain are dense with the sizes and strides of `walk`. Exceptions: the result of a
reduction (reductions.py) has its own layout, which broadcasts to the walk for instructions that
read it, and the result of a copy (copies.py) may have other strides. Values are numbered: 0 to
len(inputs) - 1 are the inputs, which broadcast to the walk, and len(inputs) + k is the result of
instruction k. An operand below 0 is a scalar: -1 is the first of `scalars`, -2 the second. The
chain contains the scalars' types but not their values, so that a changing learning rate finds the
same plan; a non-number (None, a string) is in `scalars` itself. Each result is rounded to its
dtype, as the operator alone would store it.

Note [An executor]
`prepare(chain)` of `fusion/<device type>.py` is called once for a chain, and returns

    run(inputs, outputs, scalars)

or None if the operators must run the chain one by one. inputs: tensors of the geometries in
`chain.inputs`, at any address; a 0-d input may be on the CPU. outputs: one allocated tensor for
each of `chain.stores`, with the walk's dimensions; it is new, or an operand that is written to. An
output may have exactly the memory of an input of the same layout but may not overlap an input
otherwise. scalars: the numbers (and other values) in order. `run` writes only the values in
`stores`, with the same bits that the operators give one by one, because it uses the loops of
kernels/cpu/<family>.py or the functors of kernels/cuda/<family>.cu that the operators run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from ..core.device import device
from ..core.dtype import bool_, dtype
from ..core.geometry import Geometry, geometry
from ..kernels import stub
from ..structured.pointwise import Rule


class Place:
    """A device and a layout of recorded results. Results with equal devices, sizes and strides
    share one object. walk: the geometry of results with these sizes and strides."""

    __slots__ = ("walk", "__weakref__")

    def __init__(self, walk: Geometry) -> None:
        self.walk: Geometry = walk


_NONE: Mapping[int, int] = {}
_places: WeakValueDictionary[Any, Place] = WeakValueDictionary()


class Stream(NamedTuple):
    """The scalar of a chain that describes the random numbers of one call: their position in the
    generator's stream, and the distribution's parameters."""

    seed: int
    block: int
    first: Any
    second: Any

    def taken(self, generator: Any, count: int) -> Stream:
        """Return the stream for the next random numbers of this distribution."""
        return self._replace(**dict(zip(("seed", "block"), generator.take(count))))


class Entry(NamedTuple):
    """The functions that run an operator which has no entry in structured/pointwise/. write: a
    function that runs the operator on values of a stage, called as `write(results, inputs,
    numbers)`. run: the operator's launch on a device. has: for each optional operand after the
    first one, True if it is given."""

    family: str
    name: str
    plan: Any
    kinds: tuple[Any, ...]
    write: Callable[[Any, Any, Any], object]
    run: Any = None
    has: tuple[bool, ...] = ()

    @property
    def rule(self) -> Rule:
        return Rule(self.family, self.name, None)


class Recorded:
    """The common description of all recorded calls of an operator with operands of the same
    geometries. These calls share one object, so objects are compared by identity.

    operator: `aten::add.Tensor`. family: the file in kernels/ that has its loop. loop: the loop,
    `add_alpha` instead of `add` if alpha is given. kinds: each input's dtype, or the type of a
    number. compute: the dtype of the computation. geometry: the geometry of the result. walk: the
    result's sizes and strides, without its dtype. result: the result's dtype. is_move: True for a
    copy to another layout in the same dtype. entry: the operator's own entry, which runs it alone.
    can_wait: True if the operator may run later, because only values of elements depend on it.
    reduces: the dimensions that a reduction reduces; None for results with the walk's sizes. seen:
    the result's geometry with its dimensions in the walk's order. feeds: equal to seen if later
    steps of the recording may read the result, otherwise None. at: the place (device and layout) of
    the walk. also: the place of the result, if it has another layout. whole, part, takes_rows: see
    Note [What takes rows]. dims: the dimensions of a row.
    """

    def __init__(
        self, operator: Any, kinds: tuple[Any, ...], entry: Any,
        reduces: tuple[int, ...] | None = None, walk: Geometry | None = None,
        feeds: bool = True, whole: tuple[int, ...] | None = None, part: int = 0,
        seen: Geometry | None = None,
    ) -> None:  # fmt: skip
        self.whole: tuple[int, ...] | None = whole
        self.part: int = part
        self.takes_rows: bool = reduces is not None or whole is not None
        self.dims: tuple[int, ...] = tuple(sorted(whole or reduces or ()))
        self.operator: Any = operator
        self.loop: str = entry.name
        self.kinds: tuple[Any, ...] = kinds
        self.entry: Any = entry
        self.device: device = entry.plan.device
        self.family: str = entry.rule.family
        self.compute: dtype = entry.plan.common_dtype
        shape: Geometry = entry.plan.outputs[0].geometry
        self.geometry: Geometry = shape
        self.result: dtype = shape.dtype
        self.is_move: bool = self.family == "copy" and kinds[0] is self.result
        self.reduces: tuple[int, ...] | None = reduces
        walk = walk or shape
        self.seen: Geometry = seen or shape
        self.feeds: Geometry | None = self.seen if feeds else None
        self.at: Place = _place(self.device, walk)
        self.walk: Geometry = self.at.walk
        other = _place(self.device, self.seen)
        is_other = other is not self.at and (reduces is None or feeds)
        self.also: Place | None = other if is_other else None
        looks = stub.looks_at_values(getattr(entry, "bound", None))
        self.can_wait: bool = (
            walk.is_non_overlapping_and_dense and walk.numel > 0 and not looks
            and self.device.type != "meta" and not shape.dtype.is_float8
            and not any([getattr(kind, "is_float8", False) for kind in kinds])
        )  # fmt: skip

    @property
    def shown(self) -> str:
        """Description of the result as text: its dtype, for a copy also its strides, and for a
        reduction its sizes and the reduced dimensions."""
        if self.part:
            return f"{self.result}, {list(self.geometry.sizes)}, its result {self.part}"
        if self.reduces is None:
            laid_out = f", strides {list(self.geometry.strides)}" if self.family == "copy" else ""
            return f"{self.result}{laid_out}"
        return f"{self.result}, {list(self.geometry.sizes)} over {list(self.reduces)}"


def _place(device: Any, shape: Geometry) -> Place:
    key = device, shape.sizes, shape.strides
    found = _places.get(key)
    if found is None:
        found = _places[key] = Place(geometry(shape.sizes, shape.strides, bool_))
    return found


class Instruction(NamedTuple):
    """One operator applied to values. operands: the index of each operand among the chain's values;
    -1 is the first scalar, -2 the second. params: the indices, also negative, of the scalars that
    are not operands (alpha, bounds)."""

    what: Recorded
    operands: tuple[int, ...]
    params: tuple[int, ...]


class Chain:
    """An immutable, hashable chain: see Note [A chain]. stores: the values to store, in the order
    of the outputs. The chain contains only operators that the stores need. walk: the sizes and
    strides of elementwise results. steps: maps the number of each result to its instruction."""

    def __init__(
        self, place: device, inputs: tuple[Geometry, ...], scalars: tuple[Any, ...],
        instructions: tuple[Instruction, ...], stores: tuple[int, ...],
        walk: Geometry | None = None,
    ) -> None:  # fmt: skip
        self.walk: Geometry = walk or instructions[0].what.walk
        self.device: device = place
        self.inputs: tuple[Geometry, ...] = inputs
        self.scalars: tuple[Any, ...] = scalars
        self.instructions: tuple[Instruction, ...] = instructions
        self.steps: dict[int, Instruction] = dict(enumerate(instructions, len(inputs)))
        self.stores: tuple[int, ...] = stores
        self._key = (place, inputs, scalars, instructions, stores, self.walk)
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chain) and self._key == other._key

    def geometry(self, value: int) -> Geometry:
        """Return the geometry of a value, with the walk's dimensions."""
        step = self.steps.get(value)
        return self.inputs[value] if step is None else step.what.seen

    def made(self, value: int) -> Geometry:
        """Return the geometry of the tensor in which a value is stored."""
        return self.steps[value].what.geometry

    @property
    def are_seen_otherwise(self) -> tuple[bool, ...]:
        """For each stored value, True if the tensor's dimensions differ from the walk's dimensions
        in number or in order."""
        return tuple([self.made(x) is not self.geometry(x) for x in self.stores])

    @property
    def bytes_moved(self) -> int:
        """Return the bytes that one kernel reads and writes: each input once, and the stored
        values."""
        stored = sum([self.geometry(x).nbytes for x in self.stores])
        return stored + sum([unique_bytes(x) for x in self.inputs])

    @property
    def bytes_apart(self) -> int:
        """Return the bytes that the operators read and write when they run one by one."""
        return sum([x.what.geometry.nbytes + self.bytes_read(x) for x in self.instructions])

    def bytes_read(self, step: Instruction) -> int:
        """Return the bytes that an operator reads when it runs alone. The second and later parts of
        an operator with several results read nothing more."""
        if step.what.part:
            return 0
        return sum([unique_bytes(self.geometry(x)) for x in {*step.operands} if x >= 0])

    @property
    def drawn(self) -> list[int]:
        """Return the values that are random numbers."""
        return [n for n, step in self.steps.items() if step.what.family == "random"]

    @property
    def is_reduced(self) -> bool:
        """True if an instruction takes whole rows, or has one result element per row."""
        sizes = self.walk.sizes
        return any([x.what.takes_rows or x.what.walk.sizes != sizes for x in self.instructions])

    def needed(self, wanted: Iterable[int], given: Iterable[int] = ()) -> list[int]:
        """Return these values and all values from which they are computed, in order. given: values
        that are available without computation; they are left out."""
        found, given = {*wanted}, {*given}
        for n, step in reversed(self.steps.items()):
            if n in found and n not in given:
                found.update(step.operands)
        return sorted([n for n in found if n >= 0 and n not in given])

    def origins(self) -> dict[int, int]:
        """Return a dict that maps each value to its origin. A copy to another layout has the origin
        of the copied value. Any other value is its own origin."""
        found = {n: n for n in range(len(self.inputs))}
        for n, step in self.steps.items():
            found[n] = found[step.operands[0]] if step.what.is_move else n
        return found

    def cut(
        self, takes: Sequence[int], steps: Sequence[int], stores: Iterable[int],
        walk: Geometry | None = None, same: Mapping[int, int] = _NONE,
    ) -> Chain:  # fmt: skip
        """Return a chain of some of the instructions, with all scalars. takes: the values that
        become inputs. steps: the values that the new chain computes. stores: the values that it
        stores. same: maps a value to the value that replaces it as an operand."""
        numbers = {n: place for place, n in enumerate([*takes, *steps])}
        made = [
            x._replace(operands=tuple([numbers.get(same.get(y, y), y) for y in x.operands]))
            for x in [self.steps[n] for n in steps]
        ]
        return Chain(
            self.device, tuple(map(self.geometry, takes)), self.scalars, tuple(made),
            tuple([numbers[n] for n in stores]), walk,
        )  # fmt: skip

    def part(self, wanted: Sequence[int], walk: Geometry | None) -> tuple[Chain, list[int]]:
        """Return the chain that stores only the values `wanted`, and the inputs that it reads."""
        needed = self.needed(wanted)
        inputs = [n for n in needed if n not in self.steps]
        return self.cut(inputs, [n for n in needed if n in self.steps], wanted, walk), inputs

    def __str__(self) -> str:
        lines = [f"v{n} = input {x}" for n, x in enumerate(self.inputs)]
        for n, (what, operands, params) in self.steps.items():
            shown = [f"v{x}" if x >= 0 else f"s{~x}" for x in (*operands, *params)]
            lines.append(f"v{n} = {what.operator.short_name}({', '.join(shown)})  # {what.shown}")
        return "\n".join([*lines, "store " + ", ".join(f"v{x}" for x in self.stores)])


def unique_bytes(shape: Geometry) -> int:
    """Return the number of bytes that a kernel reads of an operand. A repeated element counts
    once."""
    seen = prod([n for n, stride in zip(shape.sizes, shape.strides) if stride])
    return shape.dtype.itemsize * min(seen, shape.numel)
