"""What the operators of one call were, noted so that a like call runs them without its Python.

Tensors have numbers: those that a call is given come first, then what each chain stores.
"""

from __future__ import annotations

from typing import Any

from ..core.dtype import uint8
from ..core.geometry import Geometry
from ..dispatch.backend_select import TENSOR_KEYS
from ..tensor.storage import Storage
from ..tensor.tensor import Tensor
from .chain import Chain
from .purity import is_constant


class Step:
    """A chain that ran. takes: the numbers of its inputs; makes: of its results."""

    __slots__ = ("chain", "takes", "makes", "scalars")
    takes: tuple[int, ...]
    makes: tuple[int, ...]

    def __init__(
        self, chain: Chain, takes: tuple[int, ...], makes: tuple[int, ...], scalars: list[Any]
    ) -> None:
        self.chain, self.takes, self.makes, self.scalars = chain, takes, makes, scalars


class Unlike(Exception):
    """A call cannot be replayed: a clause whose subject is the call."""


class Trace:
    """Watches one call. why: what keeps it from being replayed, None as long as nothing does."""

    __slots__ = ("tensors", "n_given", "steps", "why", "geometries", "versions", "_found", "_held")
    why: str | None

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors, self.n_given = tensors, len(tensors)
        self.steps: list[Step] = []
        self.why = None
        self._found: dict[Any, int] = {}
        self._held: list[Any] = []  # so that nothing takes the place of a storage
        for x in tensors:
            storage = x._get_storage()
            self._held.append(storage)
            self._found[id(storage), x._offset, x._geometry] = len(self._held) - 1
        # Of each tensor that is made.
        self.geometries: dict[int, Geometry] = {}
        self.versions: dict[int, int] = {}
        if len(self._found) < len(tensors):
            self.why = "was given one tensor twice"

    def refuse(self, why: str) -> None:
        self.why = self.why or why

    def ran(
        self, chain: Chain, inputs: list[tuple[Any, ...]], wanted: list[tuple[int, Any]],
        scalars: list[Any], reason: str, recorded: list[Any],
    ) -> None:  # fmt: skip
        """Told of each chain that has run. recorded: all of its recording, also what nobody
        needed."""
        if self.why is not None:
            return
        if not reason.startswith(("the block is left", "it has", "another chain")):
            return self.refuse(f"ran a chain early: {reason}")
        if any([x[0].loop == "where" for x in recorded]) and any(
            [uint8 in (x[0].kinds) for x in recorded]
        ):
            return self.refuse("has `where` beside uint8, which warns in each call")
        takes = [self._found.get((id(x[0]), x[1], x[2])) for x in inputs]
        if None in takes:
            return self.refuse("reads a view, or a tensor that neither was given nor made by it")
        makes = tuple(range(len(self._held), len(self._held) + len(wanted)))
        for number, (value, storage) in zip(makes, wanted):
            shape = self.geometries[number] = recorded[value][0].geometry
            self._held.append(storage)
            self._found[id(storage), 0, shape] = number
        self.steps.append(Step(chain, tuple([x or 0 for x in takes]), makes, scalars))

    def result(self, found: Any) -> Any:
        """What tells how to make what the call returned, once its chains have run. Raises Unlike.

        A number, for a tensor; (type, of each part); a dict; anything else in a list of one.
        """
        tensors: dict[int, Tensor] = {}
        made = self._result(found, tensors)
        self.versions = {n: self._held[n].version for n in self.geometries}
        self._found, self._held = {}, []
        self.tensors.clear()
        return made

    def _result(self, found: Any, tensors: dict[int, Tensor]) -> Any:
        kind = type(found)
        if kind is Tensor:
            for number, x in enumerate(self.tensors):
                if x is found:
                    return number
            number = self._number(found)
            if tensors.setdefault(number, found) is not found:
                raise Unlike("returns two tensors over one memory")
            return number
        if kind in (tuple, list):
            return (kind, *[self._result(x, tensors) for x in found])
        if kind is dict:
            return {name: self._result(x, tensors) for name, x in found.items()}
        if is_constant(found):
            return [found]
        raise Unlike(f"returns a {kind.__name__}")

    def _number(self, x: Tensor) -> int:
        storage = x._storage
        number = self._found.get((id(storage), x._offset, x._geometry), -1)
        if number < self.n_given or x._autograd is not None:
            raise Unlike("returns a view, or a tensor that it did not make")
        if x._keys != TENSOR_KEYS[x._device.type] or type(storage) is not Storage:
            raise Unlike("returns a tensor of another kind")
        return number
