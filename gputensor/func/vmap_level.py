"""The level of a running `vmap`. It runs each operator on whole batches, by the operator's batch
rule.

The rule is chosen by the field `batch` of the operator's row in native_functions.yaml, otherwise by
its family. The rules are in rules/. An operator without a rule runs once for each entry of the
batch; this is correct but slow, so there is one warning.

Note [Spread batches]
A function within a vmap may be differentiated with respect to a tensor without a batch, as in
`hessian`. The tensor's alias has the batch, so that each entry gets its own gradient (reverse.py),
but all entries have equal values: the alias is spread. A result is spread, too, if all its operands
with a batch are spread. If a spread tensor is written to a tensor without a batch, that tensor gets
the values, and its storage gets a batch at this level, so that the gradients stay separate.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from .._generated import functions
from ..autograd.history import requires_grad
from ..autograd.modes import is_grad_enabled, no_grad
from ..core import errors
from ..custom.operator_kernels import vmap_rules
from ..dispatch.keys import BATCHED
from ..dispatch.operator import Operator
from ..tensor.tensor import Tensor
from .rules import batches, random
from .levels import Level, Wrapper, batched, each, held, is_of, rebuilt, tensors_in
from .operators import Entry, call, functional_of, outside
from .rules.table import is_explicit, rule_of

_warned: set[Operator] = set()


class VmapInfo(NamedTuple):
    """The argument `info` of a user's batch rule: batch_size, and randomness as given to vmap."""

    batch_size: int
    randomness: str


class VmapLevel(Level):
    """The level of a running vmap. It also handles operators whose operands do not belong to the
    level, because some of them draw random numbers.

    size: the number of entries of the batch. randomness: "error", "different" or "same".
    has_spread: see Note [Spread batches]. written: maps the id of a storage to the storage, and to
    its elements for each entry.
    """

    is_vmap: ClassVar[bool] = True
    bit: ClassVar[int] = BATCHED
    size: int
    randomness: str
    has_spread: bool
    written: dict[int, tuple[Any, Tensor]]

    def __init__(self, size: int, randomness: str) -> None:
        super().__init__()
        self.size, self.randomness = size, randomness
        self.has_spread, self.written = False, {}

    def has_rule(self, entry: Entry) -> bool:
        """True if a composite operator has its own rule."""
        return entry.operator in vmap_rules or is_explicit(entry.operator)

    def compute(self, entry: Entry, args: Sequence[Any]) -> Any:
        return outside(self, self._with_spread if self.has_spread else self._compute, entry, args)

    def spread(self, alias: Any, x: Any) -> None:
        """Mark an alias of x as spread if all entries of x are equal."""
        if x.is_spread if self.owns(x) else not is_of(self, x):
            self.has_spread = alias.is_spread = True

    def has_written(self, x: Any) -> bool:
        return bool(self.written) and self.batch_of(x) is not None

    def batch_of(self, x: Any) -> Tensor | None:
        """Return the entries of a tensor without a wrapper, if a spread tensor was written to it.
        Otherwise return None."""
        if not self.written or isinstance(x, Wrapper) or not isinstance(x, Tensor):
            return None
        found = self.written.get(id(x._storage))
        if found is None or found[1].dtype is not x.dtype:
            return None
        shape, front = x._geometry, found[1]._geometry.sizes[1]
        return found[1].as_strided((self.size, *shape.sizes), (front, *shape.strides), x._offset)

    def _entered(self, value: Any) -> Any:
        """Return an argument, wrapped at this level if a spread tensor was written to it."""
        if isinstance(value, (list, tuple)):
            return tuple([self._entered(x) for x in value])
        found = self.batch_of(value)
        return value if found is None else self._as_spread(batched(self, found))

    def _as_spread(self, x: Any) -> Any:
        if self.owns(x):
            x.is_spread = True
        return x

    def _begin(self, x: Tensor) -> None:
        """Start a batch for the storage of a tensor. Each entry is a copy of the storage's
        elements."""
        storage = x._get_storage()
        if id(storage) not in self.written:
            count = storage.nbytes() // x.dtype.itemsize
            elements = x.as_strided((count,), (1,), 0)
            self.written[id(storage)] = storage, elements.expand(self.size, count).clone()

    def _with_spread(self, entry: Entry, args: Sequence[Any]) -> Any:
        """Run `_compute` for operands with spread batches. If all of the operands' batches are
        spread, mark the results as spread, so that they can be written to tensors without a
        batch."""
        given, target = [self._entered(x) for x in args], args[0]
        own: list[Any] = [x for x in tensors_in(given) if self.owns(x)]
        are_spread = all(x.is_spread for x in own)
        if entry.kind != "inplace" or isinstance(target, Wrapper):
            made = self._compute(entry, given)
            return each(made, self._as_spread) if are_spread else made
        if are_spread:
            self._begin(target)
        given[0] = self._entered(target) if are_spread else target
        self._compute(entry, given)
        with no_grad():
            target.copy_(given[0].value.select(0, 0).detach())
        return target

    def _compute(self, entry: Entry, args: Sequence[Any]) -> Any:
        if entry.operator in vmap_rules:
            return self._users(entry, args)
        if entry.kind == "out":
            raise errors.must(
                entry.operator.short_name, "out", "not be given within vmap", args[-1]
            )
        if entry.kind == "inplace":
            batches.check_written(self, entry, args)
        rule, argument = rule_of(entry.operator)
        made = NotImplemented
        reshapes = "inplace_view" in entry.operator.tags
        if rule is not None and (not reshapes or is_explicit(entry.operator)):
            made = rule(self, entry, args, argument)
        if made is NotImplemented and entry.kind == "inplace":
            made = self._inplace(entry, args)
        if made is NotImplemented:
            made = self._one_by_one(entry, args)
        return made

    def draw(self, entry: Entry, args: Sequence[Any]) -> Any:
        """Run an operator that draws random numbers and has no operand of this level."""
        return outside(self, random.drawn_plainly, self, entry, args)

    def _inplace(self, entry: Entry, args: Sequence[Any]) -> Any:
        """Compute the functional form of an in-place operator and copy the result to self. If there
        is no functional form, run entry by entry."""
        operator = entry.operator
        functional = functional_of(operator)
        if functional is None:
            if "inplace_view" not in operator.tags:
                self._one_by_one(entry, args)
                return args[0]
            rule = "not be called within vmap, as it changes its operand's sizes or strides"
            raise errors.must("vmap", operator.short_name, rule, args[0])
        x, *rest = args
        if "inplace_view" in operator.tags:
            result = call(functional, x, *rest)
            x.hold(result.value, result._geometry, BATCHED)
            return x
        if is_grad_enabled() and any(map(requires_grad, tensors_in(args))):
            # A recorded node may save self before it is overwritten, so the node gets a copy of
            # self.
            return x.copy_(call(functional, x.clone(), *rest))
        return x.copy_(call(functional, x, *rest))

    def _one_by_one(self, entry: Entry, args: Sequence[Any]) -> Any:
        """Make one call for each entry of the batch, and stack the results."""
        operator = entry.operator
        if operator not in _warned:
            _warned.add(operator)
            warnings.warn(errors.vmap_without_rule(operator.short_name), stacklevel=2)
        results = [
            call(operator, *[self._entry(value, n) for value in args]) for n in range(self.size)
        ]
        return self._stacked(operator, results)

    def _entry(self, value: Any, number: int) -> Any:
        """Return an argument of the call for entry `number`. For a tensor of this level, it is the
        slice of the batch."""
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
        if first is None:  # the gradient was not requested
            return None
        if not isinstance(first, Tensor):
            raise errors.vmap_no_tensor(operator.short_name)
        return batched(self, functions.stack(results))

    def _users(self, entry: Entry, args: Sequence[Any]) -> Any:
        """Run the rule that a user gave to `register_vmap`."""
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
