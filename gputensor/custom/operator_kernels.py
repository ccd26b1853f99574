"""Makers of the kernels that call the functions registered with `custom_op`.

`backend` makes kernels that call the function and check that its results are new memory.
`without_fake` makes the Meta kernel if no shape function is registered. makers/ makes the kernels
at other keys, as for built-in operators. A maker runs once, when a slot of a dispatch table is
computed, and chooses a kernel that has few decisions left for each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import errors
from ..core.schema import Argument
from ..dispatch import keys
from ..dispatch.dispatcher import Handle
from ..dispatch.operator import Operator, Table
from ..makers.inplace_or_view import argument_of
from ..tensor.base import tensors_of

Function = Callable[..., Any]
Maker = Callable[[Table, int], Function]


# --- the function ---------------------------------------------------------------------------------


def backend(choose: Callable[[], Function], site: str) -> Maker:
    """Return the kernel maker for a backend's key. choose: returns the function that the kernel
    calls. `choose` is called when a slot of a dispatch table is computed."""

    def make(table: Table, key_set: int) -> Function:
        operator, signature, function = table.operator, table.signature, choose()
        schema = signature.schema
        kinds = [a.type.name for a in schema.arguments]
        if signature.is_simple and schema.returns[0].type.alias is None:
            if kinds == ["Tensor"]:
                return _unary(operator, site, function)
            return _simple(operator, site, function, schema.arguments)
        return _general(table, site, function)

    return make


def _unary(operator: Operator, site: str, function: Function) -> Function:
    def unary(key_set: int, x: Any) -> Any:
        result = function(x)
        try:
            storage = result._storage
        except AttributeError:
            raise errors.wrong_return(operator, site, result) from None
        if result is x or storage is not None and storage is x._storage:
            _refuse_alias(operator, site, (x,), (result,))
        return result

    return unary


def _simple(
    operator: Operator, site: str, function: Function, arguments: tuple[Argument, ...]
) -> Function:
    """Return the kernel for the most frequent case: positional arguments without lists, and one new
    tensor as the result."""
    places = tuple([n for n, a in enumerate(arguments) if a.type.has_tensor])

    def simple(key_set: int, *args: Any) -> Any:
        result = function(*args)
        try:
            storage = result._storage
        except AttributeError:
            raise errors.wrong_return(operator, site, result) from None
        for n in places:
            x = args[n]
            if x is result or storage is not None and getattr(x, "_storage", None) is storage:
                _refuse_alias(operator, site, args, (result,))
        return result

    return simple


def _general(table: Table, site: str, function: Function) -> Function:
    operator, signature = table.operator, table.signature
    schema = signature.schema
    positional, fits, form = signature.n_positional, signature.returns_fit, signature.returns_form
    keywords = signature.names[positional:]
    returns = [r.type for r in schema.returns]
    handed_back = [argument_of(schema.arguments, t) for t in returns]
    is_handed_back = any(place is not None for place in handed_back)
    places = [n for n, a in enumerate(schema.arguments) if a.type.has_tensor]
    outputs = [n for n, t in enumerate(returns) if t.has_tensor]

    def general(key_set: int, *args: Any) -> Any:
        given = signature.for_users(args)
        result = function(*given[:positional], **dict(zip(keywords, given[positional:])))
        if not fits(result):
            raise errors.wrong_return(operator, site, result)
        if outputs:
            values = (result,) if len(returns) == 1 else result
            if is_handed_back:
                for number, (place, value) in enumerate(zip(handed_back, values)):
                    if (
                        place is not None
                        and schema.arguments[place].is_write
                        and value is not args[place]
                    ):
                        name = schema.arguments[place].name
                        raise errors.result_is_not_argument(operator, site, name, number)
            if _may_alias([args[n] for n in places], [values[n] for n in outputs]):
                _refuse_alias(operator, site, args, values, handed_back)
        return result if form is None else form(result)

    return general


def _may_alias(arguments: list[Any], results: list[Any]) -> bool:
    """Return True if any two of the arguments and results share a storage. Nearly all calls return
    False."""
    seen: set[int] = set()
    for value in (*arguments, *results):
        for x in value if isinstance(value, (list, tuple)) else (value,):
            storage = getattr(x, "_storage", None)
            if x is not None and storage is None:
                storage = x
            if storage is not None:
                if id(storage) in seen:
                    return True
                seen.add(id(storage))
    return False


def _refuse_alias(
    operator: Operator, site: str, args: tuple[Any, ...], results: Any,
    handed_back: list[int | None] | None = None,
) -> None:  # fmt: skip
    """Raise an error if a result is an argument, or shares the storage of an argument or of another
    result.

    Only `opcheck` finds two storages over the same bytes, such as `from_numpy(x.numpy())`.
    """
    seen: list[tuple[Any, str, int | None]] = []
    arguments = operator.schema.arguments
    for number, value in enumerate(args):
        seen += [(x, f"'{arguments[number].name}'", number) for x in tensors_of(value)]
    for number, value in enumerate(results):
        allowed = None if handed_back is None else handed_back[number]
        for result in tensors_of(value):
            for x, what, place in seen:
                if place is not None and place == allowed:
                    continue
                if x is result:
                    raise errors.result_is_alias(
                        operator, site, f"{what} itself as result {number}"
                    )
                if result._storage is not None and x._storage is result._storage:
                    raise errors.result_is_alias(
                        operator, site, f"result {number} in the memory of {what}"
                    )
            if allowed is None:
                seen.append((result, f"result {number}", None))


# --- shapes ---------------------------------------------------------------------------------------


def without_fake(table: Table, key_set: int) -> Function:
    """Make the Meta kernel that is used until `register_fake` is called.

    Only an operator that returns nothing, or only arguments that it writes to, works without a
    shape function.
    """
    operator, schema = table.operator, table.signature.schema
    places = [argument_of(schema.arguments, r.type) for r in schema.returns]
    is_trivial = any(a.is_write for a in schema.arguments) and all(
        n is not None and schema.arguments[n].is_write for n in places
    )

    def fake(key_set: int, *args: Any) -> Any:
        if not is_trivial:
            raise errors.no_fake(operator)
        written = tuple([args[n] for n in places if n is not None])
        return None if not written else written[0] if len(written) == 1 else written

    return fake


META, AUTOGRAD, AD_INPLACE_OR_VIEW, BACKEND_SELECT = map(
    keys.key, ("Meta", "Autograd", "ADInplaceOrView", "BackendSelect")
)


# Operator -> the function registered by `register_vmap`: function(info, in_dims, *args). gt.func
# reads this dict.
vmap_rules: dict[Operator, Callable[..., Any]] = {}


def register_vmap(operator: Operator, function: Callable[..., Any]) -> Handle:
    """Register a vmap rule for an operator. The returned handle restores the previous rule."""
    before = vmap_rules.get(operator)
    vmap_rules[operator] = function

    def undo() -> None:
        if vmap_rules.get(operator) is function:
            if before is None:
                del vmap_rules[operator]
            else:
                vmap_rules[operator] = before

    return Handle(undo)
