"""Operators and the tables that calls go through. registered.py has definitions and kernels.

Note [Tables are swapped whole]
A `Table` is made from a snapshot of the registrations, and the snapshot never changes. A
registration builds a new table under the dispatcher's lock and stores it in the operator with one
attribute store. So a call takes no lock, and it uses either the state before a registration or the
state after it. All data derived from the registrations (key set -> kernel, and the iterator's
plans) is kept on the table, so it cannot outlive them. A kernel reads the table before it reads any
input of its plan, and stores the plan or short cut on that table. If the table was replaced in the
meantime, the entry is never read. Taking the snapshot costs nothing, because `Operator.kernels` and
the fallbacks are replaced, never changed in place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core import errors
from .boxing import adapters
from . import keys, tls
from .keys import DispatchKey
from .precedence import Slots
from .registered import Definition, Kernel, Kernels, Registered

if TYPE_CHECKING:
    from .boxing.calling import Signature

# The maximum number of plans in a table. See `Table.remember`.
PLANS_BOUND = 1 << 14
# The key of the set of hashes in `Table.remember_again`.
_ONCE = ("once",)

_state = tls.state
# The shared empty dicts of all tables without short cuts. They are never written to.
NONE: dict[Any, Callable[..., Any]] = {}
NOBODY: dict[str, Callable[..., Any]] = {}  # no learners
# Maps the key set of a plain call to a function that lets a table store short cuts, if it can have
# them. shortcuts.py sets it. These functions are not called while a trace wraps kernels.
opening: dict[int, Callable[[Table], None]] = {}
# Maps a key set to a function that wraps the kernel which a table stores for this key set. See
# fusion/record/quick.py. These functions are not used while a trace wraps kernels.
passing: dict[int, Callable[[Table, Callable[..., Any]], Callable[..., Any]]] = {}


# Operators whose table has computed a kernel or stored a plan. Only these operators need a new
# table when the promotion rules behind their plans change. Operators are never removed from the
# set.
called: set[Operator] = set()


class Table(dict[int, Callable[..., Any]], Slots):
    """The dispatch table of one operator: key set -> kernel. `__missing__` computes the entry of a
    new set.

    plans: the iterator's plans for this operator; all are dropped when their number reaches the
    maximum. prepared: the signature, made on first use. n_tensors: the number of arguments if all
    are plain tensors, otherwise -1; set with the signature. short: see Note [Short cuts]. learners:
    kernels that may add short cuts, by device type.
    """

    __slots__ = (
        "operator", "definition", "kernels", "fallbacks", "plans", "n_tensors", "prepared", "_wrap",
        "short", "learners",
    )  # fmt: skip
    operator: Operator
    definition: Definition | None
    kernels: Kernels
    fallbacks: Mapping[DispatchKey, Kernel]
    n_tensors: int
    learners: dict[str, Callable[..., Any]]

    def __init__(
        self, operator: Operator, fallbacks: Mapping[DispatchKey, Kernel],
        wrap: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        self.operator, self.fallbacks, self._wrap = operator, fallbacks, wrap
        self.definition, self.kernels = operator.definition, operator.kernels
        self.plans: dict[Any, Any] = {}
        self.short: dict[Any, Callable[..., Any]] = NONE
        self.learners = NOBODY
        self.n_tensors = -1
        self.prepared: Signature | None = None

    @property
    def signature(self) -> Signature:
        """The schema prepared for boxed calls (boxing/calling.py), made at the first call.

        Raises: DispatchError if the operator has kernels but no schema.
        """
        if self.definition is None:
            raise errors.schema_missing(self.operator)
        signature = self.prepared = self.definition.signature
        self.n_tensors = signature.n_tensors
        return signature

    def __missing__(self, key_set: int) -> Callable[..., Any]:
        called.add(self.operator)
        found, key = self.resolve(key_set)
        if self._wrap is not None:
            found = self._wrap(self, key, found)
        elif key_set in opening:
            opening[key_set](self)
        elif key_set in passing:
            found = passing[key_set](self, found)
        self[int(key_set)] = found
        return found

    def forget(self) -> None:
        """Drop the plans, and the short cuts made from them."""
        self.plans.clear()
        if self.learners:
            self.short = {}

    def settle(self) -> None:
        """Replace the operator's table by a complete table with all registrations."""

    def resolve(self, key_set: int) -> tuple[Callable[..., Any], DispatchKey]:
        """Return the kernel for a key set, and the key of that kernel's slot. Fallthroughs are
        skipped."""
        rest = key_set
        skipped: list[tuple[DispatchKey, Kernel]] = []
        while True:
            key = keys.highest(rest)
            kernel, _ = self.slot(key)
            if kernel is not None and not kernel.is_fallthrough:
                return adapters.table_entry(self, kernel, rest), key
            if key is keys.UNDEFINED:
                return _no_keys(self, skipped), key
            if kernel is None:
                return _missing(self, key), key
            if kernel is not self.fallbacks.get(key):
                skipped.append((key, kernel))
            rest = keys.without_highest(rest)

    def remember(self, key: Any, plan: Any) -> Any:
        """Store a plan in a plain dict, which is cleared when it is full. An LRU cache would take a
        lock in every call."""
        if not self.plans:
            called.add(self.operator)
        elif len(self.plans) >= PLANS_BOUND:
            self.forget()
        self.plans[key] = plan
        return plan

    def remember_again(self, key: Any, plan: Any) -> Any:
        """Store a plan only if its key occurs for the second time. This is for plans that are cheap
        to make: a plan that is used once would only make garbage collections slower. If two keys
        have the same hash, a plan is stored at its first use."""
        once: set[int] | None = self.plans.get(_ONCE)
        if once is None:
            once = self.remember(_ONCE, set())
        number = hash(key)
        if number in once:
            return self.remember(key, plan)
        if len(once) >= PLANS_BOUND:
            once.clear()
        once.add(number)
        return plan


class Pending(Table):
    """An operator's table before its first call. The first call loads the registrations and
    replaces this table.

    attribute: the name of the operator's attribute that holds this table. fill: a function that
    stores the complete table in that attribute.
    """

    __slots__ = ("attribute", "fill")
    attribute: str
    fill: Callable[[Operator], None]

    def __init__(
        self, operator: Operator, attribute: str, fill: Callable[[Operator], None]
    ) -> None:
        super().__init__(operator, {})
        self.attribute, self.fill = attribute, fill

    def settle(self) -> None:
        self.fill(self.operator)

    @property
    def settled(self) -> Table:
        """Return the operator's complete table, with all registrations."""
        self.settle()
        table: Table = getattr(self.operator, self.attribute)
        return table

    def __missing__(self, key_set: int) -> Callable[..., Any]:
        return self.settled[key_set]

    def slot(self, key: DispatchKey) -> tuple[Kernel | None, str]:
        return self.settled.slot(key)

    def resolve(self, key_set: int) -> tuple[Callable[..., Any], DispatchKey]:
        return self.settled.resolve(key_set)

    def masked(self, key_set: int) -> int:
        return self.settled.masked(key_set)


class Operator(Registered):
    """One overload of an operator, such as `aten::add.Tensor`; callable as `op(*args, **kwargs)`.

    table: the table for calls. redispatch_table: the table for kernels that redispatch; it is the
    same object unless a trace is on.
    """

    __slots__ = ("table", "redispatch_table")
    table: Table
    redispatch_table: Table

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call through the dispatcher with any mix of positional and keyword arguments."""
        table = self.table
        # All arguments are given and are tensors, so none needs conversion. Calls with one or two
        # tensors have their own code, because unpacking `*args` again costs 0.1 of 0.4 us (1.3x,
        # bench/host/dispatch.py).
        n = len(args)
        if n == table.n_tensors and not kwargs:
            include, keep = _state.get()
            try:
                if n == 2:
                    first, second = args
                    short = table.short.get((first._geometry, second._geometry))
                    if short is not None and (made := short(first, second)) is not None:
                        return made
                    key_set = (first._keys | second._keys | include) & keep
                elif n == 1:
                    (first,) = args
                    short = table.short.get(first._geometry)
                    if short is not None and (made := short(first)) is not None:
                        return made
                    key_set = (first._keys | include) & keep
                else:
                    key_set = include
                    for value in args:
                        key_set |= value._keys
                    key_set &= keep
            except AttributeError:
                pass
            else:
                if n == 2:
                    return table[key_set](key_set, first, second)
                if n == 1:
                    return table[key_set](key_set, first)
                return table[key_set](key_set, *args)
        return self.arranged(*(table.prepared or table.signature).arrange(self, args, kwargs))

    def arranged(self, arguments: Sequence[Any], key_set: int) -> Any:
        """Call through the dispatcher with all arguments in order. key_set: the tensors' keys."""
        table = self.table
        include, keep = _state.get()
        key_set = (key_set | include) & keep
        try:
            return table[key_set](key_set, *arguments)
        except (MemoryError, ValueError, TypeError) as error:
            from .refused_memory import refuse_memory

            names = (table.prepared or table.signature).names
            refuse_memory(error, self.short_name, self, dict(zip(names, arguments)))
            raise

    def redispatch(self, key_set: int, /, *args: Any, **kwargs: Any) -> Any:
        """Call with exactly this key set. Neither the arguments nor the thread's state change
        it."""
        table = self.redispatch_table
        key_set = int(key_set)
        if len(args) == table.n_tensors and not kwargs:
            try:
                for value in args:
                    value._keys  # noqa: B018 - what is no tensor has to be converted
            except AttributeError:
                pass
            else:
                return table[key_set](key_set, *args)
        arguments, _ = (table.prepared or table.signature).arrange(self, args, kwargs)
        return table[key_set](key_set, *arguments)

    def call_boxed(self, stack: list[Any]) -> None:
        """Take the arguments from the end of `stack` and leave the results there."""
        self._run_boxed(stack, self)

    def redispatch_boxed(self, key_set: int, stack: list[Any]) -> None:
        """Do the same as `call_boxed`, but with exactly this key set, for boxed kernels that
        redispatch."""
        self._run_boxed(stack, lambda *args, **kwargs: self.redispatch(key_set, *args, **kwargs))

    def _run_boxed(self, stack: list[Any], run: Callable[..., Any]) -> None:
        signature = self.table.signature
        start = len(stack) - len(signature.names)
        if start < 0:
            raise errors.wrong_stack(self, "call must find", len(signature.names), len(stack))
        given = stack[start:]
        result = run(*given[: signature.n_positional], **signature.keywords_of(given))
        del stack[start:]
        returns = len(signature.schema.returns)
        stack += [] if returns == 0 else [result] if returns == 1 else list(result)


def caller_site(depth: int = 2) -> str:
    """Return the file and line of the caller's caller, where a registration was made."""
    frame = sys._getframe(depth)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _missing(table: Table, key: DispatchKey) -> Callable[..., Any]:
    def missing(key_set: int, *args: Any) -> Any:
        from .backend_select import remedy, user_name

        operator = table.operator
        raise errors.no_kernel(operator, user_name(key), _dump(table), remedy(key, operator))

    return missing


def _no_keys(table: Table, skipped: list[tuple[DispatchKey, Kernel]]) -> Callable[..., Any]:
    def no_keys(key_set: int, *args: Any) -> Any:
        if skipped:
            raise errors.masked_by_fallthrough(table.operator, skipped, _dump(table))
        raise errors.no_dispatch_keys(table.operator, _dump(table))

    return no_keys


def _dump(table: Table) -> str:
    from . import table_text

    return table_text.lines_of(table, with_fallthroughs=False)
