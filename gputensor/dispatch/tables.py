"""Text of registrations and computed tables, for `gt.dispatch.dump`, `dump_table` and similar
functions."""

from __future__ import annotations

from typing import Any

from ..core import errors
from . import dispatcher, keys
from .keys import AliasKey, DispatchKey
from .operator import Operator, passing
from .registered import Kernel
from .table_text import lines_of


def dump(name: str) -> str:
    """Return the text of an operator's registrations: name, schema, sites, and each kernel, newest
    first.

    Empty for a name without registrations.
    """
    operator = dispatcher.get(name)
    if operator is None:
        return ""
    lines = [f"name: {operator.qualified_name}"]
    definition = operator.definition
    if definition is None:
        lines.append("schema: (none)")
    else:
        lines += [
            f"schema: {definition.schema}",
            f"debug: registered at {definition.site}",
            f"alias analysis kind: {definition.alias_analysis}",
        ]
        lines += [f"tags: {', '.join(definition.tags)}"] if definition.tags else []
    for key in keys.ALL_KEYS:
        for number, kernel in enumerate(operator.kernels.get(key, ())):
            alias = "[alias]" if isinstance(key, AliasKey) else ""
            active = "" if number == 0 else " (inactive)"
            at = f"registered at {kernel.site} [ {kernel.convention} ]"
            lines.append(f"{key.name}{alias}{active}: {at}")
    return "\n".join(lines) + "\n"


def dump_table(name: str) -> str:
    """Return the computed table as text, one line per key: `CPU: registered at <file:line>
    [kernel]`, as in PyTorch."""
    operator = dispatcher.get(name)
    return "" if operator is None else lines_of(operator.table)


def compute(operator: Operator, key: DispatchKey) -> tuple[Kernel | None, str]:
    """Return (kernel, label) of one slot of the operator's current table. The label is PyTorch's
    name of the rule."""
    return operator.table.slot(key)


def key_set(tensor: Any) -> keys.KeySet:
    """Return the dispatch keys that a tensor contributes to a call."""
    if not hasattr(tensor, "_keys"):
        raise errors.wrong_type("key_set", "tensor", "be a Tensor", tensor)
    return keys.KeySet(tensor._keys)


def has_kernel(name: str, key: str) -> bool:
    """True if a kernel is registered at this key itself, not at an alias that includes it."""
    return keys.key(key) in _registered(name).kernels


def has_computed_kernel(name: str, key: str) -> bool:
    """True if a call at the run-time key finds a kernel by any rule of precedence."""
    return compute(_registered(name), keys.runtime_key(key))[0] is not None


def _registered(name: str) -> Operator:
    operator = dispatcher.get(name)
    if operator is None:
        raise errors.operator_not_found(name, None)
    return operator


def is_alias_key(key: str) -> bool:
    """True for an alias key, which stands for several keys at registration."""
    return isinstance(keys.key(key), AliasKey)


def is_included_in_alias(key: str, alias: str) -> bool:
    """True if the alias includes the run-time key, or if both are the same key."""
    found, of = keys.key(key), keys.key(alias)
    return found is of or isinstance(of, AliasKey) and found in of.keys


def has_backend_fallback(key: str) -> bool:
    """True if the run-time key has a fallback for operators without a kernel there."""
    return keys.runtime_key(key) in dispatcher.fallbacks()


def registrations_for_key(key: str) -> list[str]:
    """Return the operators that have a kernel registered directly at the key."""
    wanted = keys.key(key)
    return sorted(o.qualified_name for o in dispatcher.operators() if wanted in o.kernels)


def dangling_impls() -> list[str]:
    """Return the operators with kernels but no schema; `dump` shows the site of each kernel."""
    return sorted(o.qualified_name for o in dispatcher.operators() if not o.is_defined)


def check_invariants() -> None:
    """Raise AssertionError if a table does not match the registrations."""
    with dispatcher.lock:
        for operator in dispatcher.operators():
            table = operator.table
            assert dispatcher.get(operator.qualified_name) is operator, operator
            assert operator.is_defined or operator.kernels, operator
            assert table.kernels is operator.kernels, operator
            assert table.definition is operator.definition, operator
            assert table.fallbacks is dispatcher.fallbacks(), operator
            assert all(operator.kernels.values()), (operator, "empty stack")
            # Tables store native kernels unwrapped, except within `gt.fuse` (`operator.passing`).
            # Other kernels are stored in adapters. Two adapters are considered equal if they have
            # the same code.
            for key_set, entry in list(table.items()):
                fresh, key = table.resolve(key_set)
                if table._wrap is None and key_set not in passing:
                    assert fresh.__code__ is entry.__code__ if hasattr(entry,
                    "__code__") else fresh is entry, (
                        operator, key,
                    )  # fmt: skip
