"""Random numbers within vmap: refused, the same in every entry, or each entry's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._generated import functions
from ..core import errors
from ..dispatch.operator import Operator
from .levels import batched, level_number, physical
from .operators import Entry, call, draws, outside


def random(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """An operator that draws, with operands of the level."""
    if not draws(entry.operator):
        return NotImplemented
    _check(level, entry.operator)
    name = entry.operator.short_name
    if entry.kind == "inplace":
        if level_number(args[0]) != level.number:
            rule = "have a batch, as each entry draws its own numbers"
            raise errors.must(name, "self", rule, args[0])
        if level.randomness == "different":
            call(entry.operator, *[_held(level, x) for x in args])
            return args[0]
    if level.randomness == "same":
        if not name.endswith("_like"):
            rule = "not draw the same numbers for operands that differ: use randomness='different'"
            raise errors.must("vmap", name, rule, errors.Got("a batch"))
        return call(entry.operator, args[0].value.select(0, 0), *args[1:])
    if "size" in entry.names or "num_samples" in entry.names:
        return NotImplemented
    given = [physical(level, x) if n in entry.places and x is not None else x
             for n, x in enumerate(args)]  # fmt: skip
    return _batch(level, call(entry.operator, *given))


def drawn_plainly(level: Any, entry: Entry, args: Sequence[Any]) -> Any:
    """An operator that draws, without an operand of the vmap that it is called in."""
    return outside(level, _drawn, level, entry, args)


def _drawn(level: Any, entry: Entry, args: Sequence[Any]) -> Any:
    _check(level, entry.operator)
    if level.randomness == "same":
        return call(entry.operator, *args)
    if entry.kind == "inplace":
        rule = "have a batch, as each entry draws its own numbers"
        raise errors.must(entry.operator.short_name, "self", rule, args[0])
    n = entry.names.get("size")
    if n is not None and not entry.places:
        given = list(args)
        given[n] = (level.size, *args[n])
        return _batch(level, call(entry.operator, *given))
    results = [call(entry.operator, *args) for _ in range(level.size)]
    if isinstance(results[0], tuple):
        return tuple([batched(level, functions.stack(group)) for group in zip(*results)])
    return batched(level, functions.stack(results))


def _batch(level: Any, result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple([batched(level, x) for x in result])
    return batched(level, result)


def _check(level: Any, operator: Operator) -> None:
    if level.randomness == "error":
        raise errors.vmap_randomness(operator.short_name)


def _held(level: Any, x: Any) -> Any:
    return x.value if level_number(x) == level.number else x
