"""Adapters that let a dispatch table call kernels of any calling convention as kernel(key_set, *all
arguments).

An adapter is made when a slot of the table is computed; a native kernel needs none. The adapter
also contains the names of keyword-only arguments, the masked key set and the check of the result,
so that calls need not compute them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...core import errors
from .. import keys, precedence, tls
from ..keys import KeySet
from ..precedence import Slots
from ..registered import Kernel


_AD_INPLACE_OR_VIEW = keys.runtime_key("ADInplaceOrView")
_SEEN_TO = tls.AUTOGRAD | tls.AD_INPLACE_OR_VIEW


def table_entry(table: Slots, kernel: Kernel, key_set: int) -> Callable[..., Any]:
    """Return the table's entry for `key_set`: a function that calls `kernel` by the kernel's
    calling convention.
    """
    convention = kernel.convention
    if convention == "native":
        assert kernel.function is not None
        return kernel.function
    if convention == "ambiguous":
        return _ambiguous(table)
    if convention == "maker":
        assert kernel.function is not None
        made: Callable[..., Any] = kernel.function(table, key_set)
        return made
    # As in PyTorch, users' kernels get the key set without the keys that fall through. Native
    # kernels get the whole set, because they mask it with `keys.below` before they redispatch.
    visible = KeySet(table.masked(key_set))
    if table.definition is None:
        return _without_schema(kernel, visible)
    if convention == "boxed":
        entry = _boxed(table, kernel, visible)
    elif convention in ("handler", "keyset_handler"):
        entry = _handler(table, kernel, visible)
    else:
        entry = _user(table, kernel, visible)
    return _below(entry) if _has_been_recorded(table, kernel, key_set) else entry


def _has_been_recorded(table: Slots, kernel: Kernel, key_set: int) -> bool:
    """True if `kernel` is a user's backend kernel, and our kernel at ADInplaceOrView has already
    handled the operator's writes and views."""
    key = keys.highest(key_set)
    if key.functionality != "Dense" or kernel is table.fallbacks.get(key):
        return False
    above = table.kernels.get(_AD_INPLACE_OR_VIEW, ())
    return bool(above) and above[0].convention in ("native", "maker")


def _below(entry: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an entry so that the autograd and ADInplaceOrView keys are excluded while the entry
    runs. Otherwise a write would be counted again by the operators that the entry calls."""
    get, put = tls.state.get, tls.state.set

    def below(key_set: int, *args: Any) -> Any:
        before = get()
        try:
            put((before[0], before[1] & ~_SEEN_TO))
            return entry(key_set, *args)
        finally:
            put(before)

    return below


def _user(table: Slots, kernel: Kernel, visible: KeySet) -> Callable[..., Any]:
    function, operator = kernel.function, table.operator
    assert function is not None and table.definition is not None
    signature = table.definition.signature
    if signature.is_simple:
        called = function if kernel.convention == "user" else partial(function, visible)
        return _simple(table, kernel, called)
    head = (visible,) if kernel.convention == "keyset" else ()
    positional, keywords = signature.n_positional, signature.names[signature.n_positional :]
    one_keyword = keywords[0] if len(keywords) == 1 else None
    fits, form = signature.returns_fit, signature.returns_form
    shown = signature.for_users if signature.is_converted else None

    def user(key_set: int, *args: Any) -> Any:
        given = args if shown is None else shown(args)
        if one_keyword is not None:
            result = function(*head, *given[:-1], **{one_keyword: given[-1]})
        elif keywords:
            result = function(*head, *given[:positional], **dict(zip(keywords, given[positional:])))
        else:
            result = function(*head, *given)
        if not fits(result):
            raise errors.wrong_return(operator, kernel.site, result)
        return result if form is None else form(result)

    return user


def _simple(table: Slots, kernel: Kernel, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the adapter for a simple signature (`Signature.is_simple`). Most users' kernels have a
    simple signature."""
    assert table.definition is not None
    operator, signature = table.operator, table.definition.signature
    shown = signature.for_users if signature.is_converted else None

    def simple(key_set: int, *args: Any) -> Any:
        result = function(*args) if shown is None else function(*shown(args))
        try:
            result._keys  # noqa: B018 - cheaper than hasattr, and this is every call
        except AttributeError:
            raise errors.wrong_return(operator, kernel.site, result) from None
        return result

    # Calls with two operands have their own code, because unpacking `*args` twice costs 60 of 370
    # ns (bench/host/dispatch.py).
    def simple_of_two(key_set: int, x: Any, y: Any) -> Any:
        result = function(x, y)
        try:
            result._keys  # noqa: B018
        except AttributeError:
            raise errors.wrong_return(operator, kernel.site, result) from None
        return result

    return simple_of_two if len(signature.names) == 2 and shown is None else simple


def _handler(table: Slots, kernel: Kernel, visible: KeySet) -> Callable[..., Any]:
    function, operator = kernel.function, table.operator
    assert function is not None and table.definition is not None
    signature = table.definition.signature
    head = (visible, operator) if kernel.convention == "keyset_handler" else (operator,)

    def handler(key_set: int, *args: Any) -> Any:
        shown, keywords = signature.without_defaults(signature.for_users(args))
        result = function(*head, *shown, **keywords)
        if not signature.returns_fit(result):
            raise errors.wrong_return(operator, kernel.site, result)
        return result if signature.returns_form is None else signature.returns_form(result)

    return handler


def _boxed(table: Slots, kernel: Kernel, visible: KeySet) -> Callable[..., Any]:
    function, operator = kernel.function, table.operator
    assert function is not None and table.definition is not None
    signature = table.definition.signature
    returns, fits, form = (
        len(signature.schema.returns), signature.returns_fit, signature.returns_form,
    )  # fmt: skip
    shown = signature.for_users if signature.is_converted else None

    def boxed(key_set: int, *args: Any) -> Any:
        stack = list(args if shown is None else shown(args))
        function(operator, visible, stack)
        if len(stack) != returns:
            raise errors.wrong_stack(operator, "kernel must leave", returns, len(stack))
        result = stack[0] if returns == 1 else None if returns == 0 else tuple(stack)
        if not fits(result):
            raise errors.wrong_return(operator, kernel.site, result)
        return result if form is None else form(result)

    return boxed


def _without_schema(kernel: Kernel, visible: KeySet) -> Callable[..., Any]:
    # An operator without a schema cannot be looked up. So only callers that already have the
    # operator's table can reach this entry.
    function = kernel.function
    assert function is not None
    if kernel.convention == "keyset":
        return lambda key_set, *args: function(visible, *args)
    return lambda key_set, *args: function(*args)


def _ambiguous(table: Slots) -> Callable[..., Any]:
    def ambiguous(key_set: int, *args: Any) -> Any:
        raise errors.ambiguous_autograd_other(
            table.operator,
            keys.CompositeImplicitAutograd,
            precedence.claimants_of_autograd_other(table.kernels),
        )

    return ambiguous
