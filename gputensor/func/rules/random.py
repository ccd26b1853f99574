"""Random numbers within vmap. `randomness` decides: drawing raises an error, all entries get equal
numbers, or each entry gets its own numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._generated import functions
from ...core import errors
from ...dispatch.operator import Operator
from ..levels import batched, held, physical, unfolded, wrapped
from ..operators import Entry, call, draws


def random(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of an operator that draws random numbers and has operands of the level."""
    if not draws(entry.operator):
        return NotImplemented
    _check(level, entry.operator)
    name = entry.operator.short_name
    if entry.kind == "inplace":
        if not level.owns(args[0]):
            raise _without_batch(entry, args[0])
        if level.randomness == "different":
            call(entry.operator, *[held(level, x) for x in args])
            return args[0]
        if not any([level.owns(x) for x in args[1:]]):
            one = functions.empty_like(args[0].value.select(0, 0))
            return args[0].copy_(call(entry.operator, one, *args[1:]))
    if level.randomness == "same":
        if not name.endswith("_like"):
            rule = "not draw the same numbers for operands that differ: use randomness='different'"
            raise errors.must("vmap", name, rule, errors.Got("a batch"))
        return call(entry.operator, args[0].value.select(0, 0), *args[1:])
    if (
        "num_samples" in entry.names and args[0]._geometry.ndim == 2
    ):  # the operator draws numbers for each row, and the entries of the batch are rows
        made = call(entry.operator, args[0].value.flatten(0, 1), *args[1:])
        return unfolded(level, made, args[0]._geometry.sizes[0])
    if "size" in entry.names:
        return NotImplemented
    given = [physical(level, x) if n in entry.places and x is not None else x
             for n, x in enumerate(args)]  # fmt: skip
    return wrapped(level, call(entry.operator, *given))


def drawn_plainly(level: Any, entry: Entry, args: Sequence[Any]) -> Any:
    """Call an operator that draws random numbers within a vmap and has no operand of the level."""
    _check(level, entry.operator)
    if level.randomness == "same":
        return call(entry.operator, *args)
    if entry.kind == "inplace":
        raise _without_batch(entry, args[0])
    n = entry.names.get("size")
    if n is not None and not entry.places:
        given = list(args)
        given[n] = (level.size, *args[n])
        return wrapped(level, call(entry.operator, *given))
    results = [call(entry.operator, *args) for _ in range(level.size)]
    if isinstance(results[0], tuple):
        return tuple([batched(level, functions.stack(group)) for group in zip(*results)])
    return batched(level, functions.stack(results))


def _without_batch(entry: Entry, x: Any) -> Exception:
    rule = "have a batch, as each entry draws its own numbers"
    return errors.must(entry.operator.short_name, "self", rule, x)


def _check(level: Any, operator: Operator) -> None:
    if level.randomness == "error":
        raise errors.vmap_randomness(operator.short_name)
