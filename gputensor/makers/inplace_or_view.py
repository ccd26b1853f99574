"""The kernel at ADInplaceOrView: it increments the version of written tensors, and records the base
of views.

Composite implicit operators have no kernel at this key. The operators that they call have one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._generated import shapes
from ..autograd.inplace_or_view import bump_version, track_view, track_views
from ..core.schema import Argument, Type
from ..dispatch.keys import BELOW_ADINPLACEORVIEW
from ..dispatch.operator import Table

Function = Callable[..., Any]


def counts(table: Table, key_set: int) -> Function:
    """Make the kernel of an operator that writes: it increments the version after the write."""
    declared = table.signature.schema.arguments
    written = [n for n, a in enumerate(declared) if a.is_write]
    if len(written) == 1 and declared[written[0]].type.name == "Tensor":
        made = vars(shapes).get(f"counts_{written[0]}_of_{len(declared)}")
        return general(table, written) if made is None else made(table.operator)
    return general(table, written)


def tracks(table: Table, key_set: int) -> Function:
    """Make the kernel of an operator that returns views of its first operand."""
    schema = table.signature.schema
    which = "views" if schema.returns[0].type.required.is_list else "view"
    made = vars(shapes).get(f"tracks_{which}_{len(schema.arguments)}")
    return general(table, []) if made is None else made(table.operator)


def replays(table: Table, key_set: int) -> Function:
    """Make the kernel of a view that reinterprets elements. as_strided could not rebuild such a
    view, so the operator itself is replayed."""
    operator = table.operator

    def replay(key_set: int, x: Any) -> Any:
        key_set &= BELOW_ADINPLACEORVIEW
        return track_view(x, operator.redispatch_table[key_set](key_set, x), operator)

    return replay


def of_custom(table: Table, key_set: int) -> Function:
    """Make the kernel of a user's operator that writes to an argument or returns a view.

    The kernel checks that the operator does what its schema declares.
    """
    if any(a.is_write for a in table.signature.schema.arguments):
        return counts(table, key_set)
    return general(table, [])


def general(table: Table, written: list[int]) -> Function:
    """Make the kernel for any schema. For the schemas of our operators, shapes.py has faster
    kernels.
    """
    operator, schema = table.operator, table.signature.schema
    places = [argument_of(schema.arguments, r.type) for r in schema.returns]
    views = [(n, at) for n, at in enumerate(places) if at is not None and at not in written]
    is_one = len(places) == 1

    def kernel(key_set: int, *args: Any) -> Any:
        key_set &= BELOW_ADINPLACEORVIEW
        result = operator.redispatch_table[key_set](key_set, *args)
        for n in written:
            for x in args[n] if isinstance(args[n], (list, tuple)) else (args[n],):
                if x is not None:
                    bump_version(x)
        for n, place in views:
            _track(args[place], result if is_one else result[n])
        return result

    return kernel


def _track(source: Any, made: Any) -> None:
    if isinstance(made, (list, tuple)):
        track_views(source, made)
    elif made is not None:
        track_view(source, made)


def argument_of(arguments: tuple[Argument, ...], returned: Type) -> int | None:
    """Return the index of the argument that a result may alias, such as `Tensor(a) x` for `->
    Tensor(a)`."""
    names = {name for alias in returned.aliases for name in alias.before}
    sets = [{name for x in a.type.aliases for name in x.before} for a in arguments]
    return next((n for n, found in enumerate(sets) if names & found), None)
