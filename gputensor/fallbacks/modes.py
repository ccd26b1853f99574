"""Replacement of operators by Python code: in a block (`DispatchMode`), or for a class of tensors.

    class Counting(gt.DispatchMode):
        def __gputensor_dispatch__(self, op, types, args=(), kwargs=None):
            count[op] += 1
            return op(*args, **(kwargs or {}))

    with Counting():
        x + 1

Modes and subclasses use the dispatch key Python. A mode adds the key to the thread's state, and a
subclass of Tensor adds the key to its tensors' key sets. So all other calls have no extra cost. A
handler runs below autograd, with the innermost mode removed from the stack. Source:
torch/csrc/autograd/python_fallback.cpp and torch/utils/_python_dispatch.py. Unlike in PyTorch,
conjugates stay lazy within a handler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from ..autograd.modes import DEFAULT
from ..core import errors
from ..dispatch import dispatcher, keys, tls
from ..dispatch.keys import PYTHON
from ..dispatch.operator import Operator, Table
from ..dispatch.tls import ExcludeDispatchKeys, unrecorded

# The modes of this thread or task, innermost last.
_modes: ContextVar[tuple[DispatchMode, ...]] = ContextVar("gputensor_modes", default=())
# The keys of a call that no mode and no class handles: the keys below Python, and the keys of lazy
# views. With the keys of lazy views, `clone` computes the values of a lazy conjugate or negative.
_BELOW = keys.below("Python") | keys.LAZY
# Keys whose kernels run before a handler. The keys of lazy views are not among them, because a
# handler may make views.
_ABOVE = tls.AD_INPLACE_OR_VIEW | tls.AUTOGRAD | tls.AUTOCAST


class DispatchMode(tls.Mode):
    """Base class of modes. Within `with Mode():`, the mode is the first handler of every operator
    call of this thread or task.

    The object is also a decorator of functions. Blocks may end in any order.
    """

    _mode_stack, _mode_bit = _modes, PYTHON

    def __gputensor_dispatch__(
        self,
        op: Operator,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Handle a call of `op`. If the result is NotImplemented, the handlers of the operands'
        classes are called next.

        types: the operands' classes that have a handler. args, kwargs: the arguments, without
        trailing arguments that equal their defaults. Calls made by this method go to the next outer
        mode.
        """
        raise errors.must(
            "DispatchMode", "__gputensor_dispatch__", "be defined", errors.Got(type(self).__name__)
        )

    def _enter(self) -> None:
        (include, keep), modes = tls.state.get(), _modes.get()
        unrecorded.append(DEFAULT)
        try:
            _modes.set((*modes, self))
            tls.state.set((include | PYTHON, keep))
        except BaseException:
            self._put_back(modes)
            raise

    def _count(self, found: Any) -> None:
        if unrecorded:
            unrecorded.pop()


def current_modes() -> tuple[DispatchMode, ...]:
    """Return the modes of this thread or task, innermost last."""
    return _modes.get()


class no_dispatch(ExcludeDispatchKeys):
    """Disable modes and the handlers of tensor classes within the block."""

    def __init__(self) -> None:
        super().__init__("Python")


def install() -> None:
    """Register the fallback of the key Python."""
    dispatcher.register_fallback(keys.key("Python"), _make, "maker")


def _make(table: Table, key_set: int) -> Callable[..., Any]:
    """Return an operator's kernel at the key Python."""
    operator, signature = table.operator, table.signature
    places = [n for n, a in enumerate(signature.schema.arguments) if a.type.has_tensor]

    def ask(key_set: int, *args: Any) -> Any:
        modes, handlers = _modes.get(), _handlers(args, places)
        # Native kernels pass on the keys of their operands, even if the thread excludes some of
        # these keys. So this kernel may also get a view that a native kernel made of a subclass's
        # tensor.
        if not (modes or handlers) or not tls.state.get()[1] & PYTHON:
            key_set &= _BELOW
            return operator.redispatch_table[key_set](key_set, *args)
        shown, keywords = signature.without_defaults(signature.for_users(args))
        given = (operator, tuple(handlers), tuple(shown), keywords)
        outer = modes[:-1]
        for who in (*modes[-1:], *handlers):
            result = _call(who, outer, given)
            if result is not NotImplemented:
                if not signature.returns_fit(result):
                    raise errors.wrong_return(
                        operator, f"{_name(who)}.__gputensor_dispatch__", result
                    )
                return result
        raise errors.not_handled(operator, [_name(who) for who in (*modes[-1:], *handlers)])

    return ask


def _handlers(args: Sequence[Any], places: Sequence[int]) -> list[type]:
    """Return the operands' classes that have a handler, in the order of the operands, but with
    subclasses before their bases.

    Source: torch/csrc/utils/python_arg_parser.cpp, append_overloaded_arg.
    """
    found: list[type] = []
    for place in places:
        value = args[place]
        for x in value if isinstance(value, (list, tuple)) else (value,):
            kind = type(x)
            if getattr(kind, "_has_handler", False) and kind not in found:
                at = next(
                    (n for n, other in enumerate(found) if issubclass(kind, other)), len(found)
                )
                found.insert(at, kind)
    return found


def _call(who: Any, outer: tuple[DispatchMode, ...], given: tuple[Any, ...]) -> Any:
    """Call a handler below autograd. The modes in `outer` are active during the call."""
    include, keep = tls.state.get()
    include = include | PYTHON if outer else include & ~PYTHON
    modes, state = _modes.get(), tls.state.get()
    try:
        try:
            _modes.set(outer)
            tls.state.set((include, keep & ~_ABOVE))
            return who.__gputensor_dispatch__(*given)
        finally:
            tls.state.set(state)
    finally:
        _modes.set(modes)


def _name(who: Any) -> str:
    return who.__name__ if isinstance(who, type) else type(who).__name__
