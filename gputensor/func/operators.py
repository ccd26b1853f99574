"""Operators at the keys of gt.func: who computes, and how an operator is called again below.

What a level needs to know of an operator is an `Entry`: its schema, and whether it is a composite,
which runs as it stands, since it calls operators that come here in their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dispatch.boxing import adapters
from ..dispatch import dispatcher, keys, tls
from ..dispatch.keys import BATCHED, DUAL, CompositeImplicitAutograd
from ..dispatch.operator import Operator, Table
from .levels import Level, Wrapper, around, check_alive, levels, set_levels

_BELOW = keys.below("FuncTorchGradWrapper") & ~BATCHED
_get, _set = tls.state.get, tls.state.set


class Entry:
    """One operator. places: of its arguments that are tensors or lists of them.

    composite: its own text in terms of others, or None. kind: of its schema.
    """

    __slots__ = ("operator", "schema", "places", "names", "composite", "kind")
    operator: Operator
    schema: Any
    places: list[int]
    names: dict[str, int]

    def __init__(self, table: Table, key_set: int) -> None:
        self.operator = table.operator
        self.schema = schema = table.signature.schema
        self.places = [n for n, a in enumerate(schema.arguments) if a.type.has_tensor]
        self.names = {a.name: n for n, a in enumerate(schema.arguments)}
        self.kind: str = schema.kind
        found = table.kernels.get(CompositeImplicitAutograd)
        self.composite: Callable[..., Any] | None = None
        if found:
            self.composite = adapters.table_entry(table, found[0], key_set)


def install() -> None:
    """Register the fallbacks of FuncTorchBatched and FuncTorchGradWrapper, unless they are."""
    for name in ("FuncTorchBatched", "FuncTorchGradWrapper"):
        key = keys.runtime_key(name)
        if key not in dispatcher.fallbacks():
            dispatcher.register_fallback(key, _make, "maker")


def _make(table: Table, key_set: int) -> Callable[..., Any]:
    """The kernel of one operator at either key."""
    entry = Entry(table, key_set)
    operator, places = entry.operator, entry.places

    def transformed(key_set: int, *args: Any) -> Any:
        level = _innermost(args, places, operator)
        if level is None:  # within a vmap, which looks for random numbers
            return _plain(entry, key_set, args)
        if entry.composite is not None and not level.has_rule(entry):
            return entry.composite(key_set, *args)
        if not level.is_vmap and draws(operator):  # each entry of a vmap within draws its own
            mapped: list[Any] = [v for v in levels() if v.is_vmap and v.number > level.number]
            if mapped:
                return mapped[-1].draw(entry, args)
        return level.compute(entry, args)

    return transformed


def _plain(entry: Entry, key_set: int, args: Sequence[Any]) -> Any:
    """An operator within a vmap without an operand of any level."""
    if entry.composite is None and draws(entry.operator):
        running: list[Any] = [x for x in levels() if x.is_vmap]
        if running:
            return running[-1].draw(entry, args)
    key_set &= _BELOW
    return entry.operator.redispatch_table[key_set](key_set, *args)


def draws(operator: Operator) -> bool:
    """Whether the operator's results are random."""
    return "nondeterministic_seeded" in operator.tags


def _innermost(args: Sequence[Any], places: Sequence[int], operator: Operator) -> Any:
    """The level furthest in that an operand is of."""
    found: Any = None
    tensors: list[Any] = []
    for place in places:
        value = args[place]
        tensors += value if isinstance(value, (list, tuple)) else (value,)
    for x in tensors:
        if isinstance(x, Wrapper) and (found is None or x.level.number > found.number):
            check_alive(x, operator.short_name)
            found = x.level
    for level in levels()[::-1]:
        if found is not None and level.number <= found.number:
            break
        if any(level.has_written(x) for x in tensors):
            return level
    return found


def functional_name(operator: Operator) -> str:
    """The name of the form that an in-place operator writes the result of."""
    name = operator.name.removesuffix("_")
    return f"{name}.{operator.overload}" if operator.overload else name


def functional_of(operator: Operator) -> Operator | None:
    """What gives the result that an in-place operator writes; None where nothing does."""
    found = dispatcher.get(functional_name(operator))
    if found is not None and found.is_defined:
        return found
    base = operator.qualified_name.partition(".")[0].removesuffix("_")
    names = [a.name for a in operator.schema.arguments]
    for other in dispatcher.overloads(base):  # `transpose.int` of `transpose_`
        if other.is_defined and other.schema.kind == "functional":
            if [a.name for a in other.schema.arguments] == names:
                return other
    return None


def call(operator: Operator, *args: Any) -> Any:
    """Call an operator from the top, with its kernel's arguments."""
    bits, keep = _get()
    for value in args:
        if isinstance(value, (list, tuple)):
            for x in value:
                bits |= getattr(x, "_keys", 0)
        else:
            bits |= getattr(value, "_keys", 0)
    bits &= keep
    return operator.table[bits](bits, *args)


def outside(level: Level, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function as if the level, and those within it, were not there: what is to be drawn for
    each of its entries is drawn by it alone."""
    (include, keep), here, rest = _get(), levels(), around(level)
    bits = ~(BATCHED | DUAL)
    for x in rest:
        bits |= x.bit
    try:
        set_levels(rest)
        _set((include & bits, keep))
        return function(*args)
    finally:
        _set((include, keep))
        set_levels(here)
