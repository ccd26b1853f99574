"""The kernels of operators at the dispatch keys of gt.func. A kernel chooses the level that handles
a call. This level then calls operators on the contents of the wrappers.

An `Entry` contains the properties of an operator that a level needs: its schema and, for a
composite operator, its composition. A composite operator runs as its composition, and the operators
in it reach the levels again.
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
    """Properties of one operator. places: the indices of arguments that are tensors or lists of
    tensors.

    composite: the function that composes the operator of other operators, or None. kind:
    `schema.kind`.
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
    """Register the fallbacks of FuncTorchBatched and FuncTorchGradWrapper, once."""
    for name in ("FuncTorchBatched", "FuncTorchGradWrapper"):
        key = keys.runtime_key(name)
        if key not in dispatcher.fallbacks():
            dispatcher.register_fallback(key, _make, "maker")


def _make(table: Table, key_set: int) -> Callable[..., Any]:
    """Return the kernel of one operator for the keys FuncTorchBatched and FuncTorchGradWrapper."""
    entry = Entry(table, key_set)
    operator, places = entry.operator, entry.places

    def transformed(key_set: int, *args: Any) -> Any:
        level = _innermost(args, places, operator)
        # No operand belongs to a level, but the call is within a vmap, whose level handles random
        # numbers.
        if level is None:
            return _plain(entry, key_set, args)
        if entry.composite is not None and not level.has_rule(entry):
            return entry.composite(key_set, *args)
        if not level.is_vmap and draws(
            operator
        ):  # each entry of an inner vmap draws numbers of its own
            mapped: list[Any] = [v for v in levels() if v.is_vmap and v.number > level.number]
            if mapped:
                return mapped[-1].draw(entry, args)
        return level.compute(entry, args)

    return transformed


def _plain(entry: Entry, key_set: int, args: Sequence[Any]) -> Any:
    """Call an operator whose operands belong to no level. If it draws random numbers, the innermost
    vmap draws them."""
    if entry.composite is None and draws(entry.operator):
        running: list[Any] = [x for x in levels() if x.is_vmap]
        if running:
            return running[-1].draw(entry, args)
    key_set &= _BELOW
    return entry.operator.redispatch_table[key_set](key_set, *args)


def draws(operator: Operator) -> bool:
    """True if the operator draws random numbers."""
    return "nondeterministic_seeded" in operator.tags


def _innermost(args: Sequence[Any], places: Sequence[int], operator: Operator) -> Any:
    """Return the innermost level among the levels of the operands."""
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
    """Return the name of an in-place operator's functional form."""
    name = operator.name.removesuffix("_")
    return f"{name}.{operator.overload}" if operator.overload else name


def functional_of(operator: Operator) -> Operator | None:
    """Return the functional form of an in-place operator, or None."""
    found = dispatcher.get(functional_name(operator))
    if found is not None and found.is_defined:
        return found
    base = operator.qualified_name.partition(".")[0].removesuffix("_")
    names = [a.name for a in operator.schema.arguments]
    for other in dispatcher.overloads(base):  # finds `transpose.int` for `transpose_`
        if other.is_defined and other.schema.kind == "functional":
            if [a.name for a in other.schema.arguments] == names:
                return other
    return None


def call(operator: Operator, *args: Any) -> Any:
    """Call an operator, beginning at the highest key, with the arguments of its kernel."""
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
    """Call a function without this level and the levels inside of it.

    Random numbers are an exception: only the level itself draws them for its entries.
    """
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
