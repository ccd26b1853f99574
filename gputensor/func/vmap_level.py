"""The level of a running `vmap`: it lets each operator work on whole batches, by its batch rule.

A rule is chosen by the field `batch` of the operator's row in native_functions.yaml, else by its
family; rules/ has them. An operator without a rule runs once for each entry of the batch,
which is right for all, and slow: it warns once.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

from .._generated import functions
from ..core import errors
from ..custom.operator_kernels import vmap_rules
from ..dispatch.keys import BATCHED
from ..dispatch.operator import Operator
from ..tensor.tensor import Tensor
from .rules import batches, random
from .levels import Level, batched, held, rebuilt
from .operators import Entry, call, functional_of, outside
from .rules.table import is_explicit, rule_of

_warned: set[Operator] = set()


class VmapInfo:
    """What a rule of a user's may know. batch_size; randomness: as given to vmap."""

    __slots__ = ("batch_size", "randomness")
    batch_size: int
    randomness: str

    def __init__(self, batch_size: int, randomness: str) -> None:
        self.batch_size, self.randomness = batch_size, randomness


class VmapLevel(Level):
    """A vmap while it runs; operators without operands of it come to it as well, since some of them
    draw random numbers.

    size: entries of the batch. randomness: "error", "different" or "same".
    """

    is_vmap: ClassVar[bool] = True
    bit: ClassVar[int] = BATCHED
    size: int
    randomness: str

    def __init__(self, size: int, randomness: str) -> None:
        super().__init__()
        self.size, self.randomness = size, randomness

    def has_rule(self, entry: Entry) -> bool:
        """Whether a composite operator has a rule of its own."""
        return entry.operator in vmap_rules or is_explicit(entry.operator)

    def compute(self, entry: Entry, args: Sequence[Any]) -> Any:
        return outside(self, self._compute, entry, args)

    def _compute(self, entry: Entry, args: Sequence[Any]) -> Any:
        if entry.operator in vmap_rules:
            return self._users(entry, args)
        rule, argument = rule_of(entry.operator)
        made = NotImplemented
        if rule is not None and "inplace_view" not in entry.operator.tags:
            made = rule(self, entry, args, argument)
        if made is NotImplemented and entry.kind == "inplace":
            made = self._inplace(entry, args)
        if made is NotImplemented:
            made = self._one_by_one(entry, args)
        return made

    def draw(self, entry: Entry, args: Sequence[Any]) -> Any:
        """The result of an operator that draws, without an operand of this level."""
        return outside(self, random.drawn_plainly, self, entry, args)

    def _inplace(self, entry: Entry, args: Sequence[Any]) -> Any:
        """What the functional form gives, copied into self; without one, entry by entry."""
        batches.check_written(self, entry, args)
        operator = entry.operator
        functional = functional_of(operator)
        if functional is None:
            if "inplace_view" not in operator.tags:
                self._one_by_one(entry, args)
                return args[0]
            rule = "not be called within vmap, as it changes what its operand is"
            raise errors.must("vmap", operator.short_name, rule, args[0])
        result = call(functional, *args)
        if "inplace_view" in operator.tags:
            args[0].hold(result.value, result._geometry, BATCHED)
            return args[0]
        return args[0].copy_(result)

    def _one_by_one(self, entry: Entry, args: Sequence[Any]) -> Any:
        """One call for each entry of the batch; the results stacked."""
        operator = entry.operator
        if entry.kind == "out":
            raise errors.must(operator.short_name, "out", "not be given within vmap", args[-1])
        if operator not in _warned:
            _warned.add(operator)
            warnings.warn(errors.vmap_without_rule(operator.short_name), stacklevel=2)
        results = [
            call(operator, *[self._entry(value, n) for value in args]) for n in range(self.size)
        ]
        return self._stacked(operator, results)

    def _entry(self, value: Any, number: int) -> Any:
        """The argument of one entry's call."""
        if isinstance(value, (list, tuple)):
            return tuple([self._entry(x, number) for x in value])
        return value.value.select(0, number) if self.owns(value) else value

    def _stacked(self, operator: Operator, results: list[Any]) -> Any:
        if not results:
            raise errors.vmap_of_nothing(operator.short_name)
        first = results[0]
        if isinstance(first, (list, tuple)):
            parts = [self._stacked(operator, list(group)) for group in zip(*results)]
            return rebuilt(first, parts)
        if first is None:  # a gradient that was not asked for
            return None
        if not isinstance(first, Tensor):
            raise errors.vmap_no_tensor(operator.short_name)
        return batched(self, functions.stack(results))

    def _users(self, entry: Entry, args: Sequence[Any]) -> Any:
        """By the rule that `register_vmap` was given."""
        shown = [self._plain(value) for value in args]
        in_dims = tuple([self._dim(value) for value in args])
        info = VmapInfo(self.size, self.randomness)
        result, out_dims = vmap_rules[entry.operator](info, in_dims, *shown)
        return self._wrapped(result, out_dims)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._plain(x) for x in value]
        return held(self, value)

    def _dim(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._dim(x) for x in value]
        return 0 if self.owns(value) else None

    def _wrapped(self, result: Any, dims: Any) -> Any:
        if isinstance(result, (list, tuple)):
            listed = dims if isinstance(dims, (list, tuple)) else [dims] * len(result)
            return type(result)([self._wrapped(x, d) for x, d in zip(result, listed)])
        return result if dims is None else batched(self, result.movedim(dims, 0))
