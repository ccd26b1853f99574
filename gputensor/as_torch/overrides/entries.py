"""Functions that run no operator, such as `x.shape` and `torch.tensor`, call an active
TorchFunctionMode.

A mode sees an operator's call because the mode adds a dispatch key, see `Overridden`. A function
that runs no operator has no such hook, and a test of a flag in each attribute would slow down all
programs. So these functions get other code (`__code__`) while a mode is active in any thread. The
functions themselves stay the same objects, because programs compare them: `func is torch.tensor`.
When the last mode ends they have their first code again. From Python 3.13 on, the interpreter does
not specialise calls of such functions any more, so `x.shape` then takes 52 ns instead of 27.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import gputensor as gt

from ...dispatch import refusal
from ...dispatch.families import Later, LaterProperty
from ...tensor.tensor import Tensor

_PACKAGE = __name__.partition(".")[0]
# Methods of tensors that call no handler.
_NOT_OVERRIDDEN = {
    "__init__", "__new__", "__init_subclass__", "__hash__", "__iter__", "__getattribute__",
    "__setattr__", "__buffer__", "as_subclass",
}  # fmt: skip
# Methods that call a handler of the tensor's class, but no mode.
_NOT_OF_MODES = {"__reduce_ex__"}
# Functions of `torch` and methods of Tensor that need an Entry. Some are neither operators nor made
# by `refusal.declares`. Others are generated, but change their variables before they run the
# operator, so handlers would not get the arguments that the program passed. `contiguous` does not
# always run an operator.
_FUNCTIONS = (
    "tensor", "as_tensor", "asarray", "result_type", "can_cast", "promote_types",
    "empty", "zeros", "ones", "rand", "randn", "arange",
)  # fmt: skip
_METHODS = (
    "contiguous", "to", "new_empty", "new_zeros", "new_ones", "view", "reshape", "permute",
    "expand", "broadcast_to", "sum_to_size", "repeat", "tile", "flip", "resize_",
)  # fmt: skip
# The code of all functions that `refusal.declares` makes.
DECLARED = refusal.declares()(lambda: None).__code__
# Holds one pair of functions that call the modes: `enter(entry, args, kwargs)`, and the function
# for `refusal.entering`. __init__.py appends the pair.
hooks: list[tuple[Callable[..., Any], Callable[..., Any]]] = []


class Entry:
    """A Python function whose code is replaced while a mode is active. function: the function.
    public: the function that handlers get, such as `torch.Tensor.shape.__get__`. original: a copy
    of the function that keeps the original code. code: the replacement."""

    __slots__ = ("function", "public", "original", "code")

    def __init__(self, function: FunctionType, public: Callable[..., Any]) -> None:
        self.function, self.public = function, public
        self.original = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__,
            function.__closure__,
        )  # fmt: skip
        self.original.__kwdefaults__ = function.__kwdefaults__
        self.original.__annotations__ = function.__annotations__
        # The code that the function has while a mode is active.
        values = {"enter": hooks[0][0], "entry": self}
        template = _TEMPLATES[len(function.__code__.co_freevars)]
        constants = tuple(values.get(x, x) for x in template.co_consts)
        self.code = template.replace(co_consts=constants, co_name=function.__name__)

    def runs_an_operator(self) -> bool:
        return "_refuse" in self.original.__code__.co_names

    def begin(self) -> None:
        # `inspect.signature` reads the signature of `__wrapped__`.
        vars(self.function)["__wrapped__"] = self.original
        self.function.__code__ = self.code

    def end(self) -> None:
        self.function.__code__ = self.original.__code__
        vars(self.function).pop("__wrapped__", None)


def _template(*args: Any, **kwargs: Any) -> Any:
    enter: Any = "enter"
    entry: Any = "entry"
    return enter(entry, args, kwargs)


def _closed() -> Any:
    of_closure = None

    def template(*args: Any, **kwargs: Any) -> Any:
        enter: Any = "enter"
        entry: Any = "entry"
        of_closure  # noqa: B018
        return enter(entry, args, kwargs)

    return template


# Code objects that call `enter(entry, args, kwargs)`, indexed by the number of closure variables. A
# function's new code must have as many closure variables as its original code.
_TEMPLATES = (_template.__code__, _closed().__code__)


@functools.cache
def _entries() -> list[Entry]:
    functions = [(f, f) for f in (getattr(gt, name) for name in _FUNCTIONS)]
    found: dict[FunctionType, Entry] = {}
    for function, public in (*functions, *_members()):
        # a method with two names, such as `dim` and `ndimension`, keeps the first entry
        found.setdefault(function, Entry(function, public))
    return [*found.values()]


def _members() -> Iterator[tuple[FunctionType, Callable[..., Any]]]:
    for name, value in members().items():
        pairs = [(value, value)]
        if isinstance(value, property):
            getter, setter, deleter = value.__get__, value.__set__, value.__delete__
            pairs = [(value.fget, getter), (value.fset, setter), (value.fdel, deleter)]
        for function, public in pairs:
            if name not in _NOT_OF_MODES and _runs_no_operator(function):
                yield function, public
    for name in _METHODS:
        method: Any = getattr(Tensor, name)
        yield method, method


def members() -> dict[str, Any]:
    """Return the methods and properties of Tensor that call handlers. If an operator family is not
    loaded, its methods and properties are placeholders."""
    found: dict[str, Any] = {}
    for kind in reversed(Tensor.__mro__[:-1]):
        found |= vars(kind)
    return {name: value for name, value in found.items() if _calls_handlers(name, value)}


def _calls_handlers(name: str, value: Any) -> bool:
    if name in _NOT_OVERRIDDEN or name.startswith("__array") and name != "__array__":
        return False
    if isinstance(value, (property, LaterProperty)):
        return True
    is_method = isinstance(value, (FunctionType, Later))
    return is_method and (name.startswith("__") or not name.startswith("_"))


def _runs_no_operator(function: Any) -> bool:
    """True for our functions that are neither generated nor made by `refusal.declares`. Generated
    and declared functions call handlers when they fail."""
    if not isinstance(function, FunctionType) or not function.__module__.startswith(_PACKAGE):
        return False
    return function.__code__ is not DECLARED and "_refuse" not in function.__code__.co_names


_lock = threading.Lock()
_blocks = 0  # the number of active blocks of modes, in all threads


def begin() -> None:
    """Replace the functions' code, so that they call the modes. The last `end` restores the code,
    when `end` has been called as often as `begin`."""
    global _blocks
    with _lock:
        if not _blocks:
            try:
                refusal.entering[:] = [hooks[0][1]]
                for entry in _entries():
                    entry.begin()
            except BaseException:
                _end()
                raise
        _blocks += 1


def end() -> None:
    """Undo one `begin`."""
    global _blocks
    with _lock:
        _blocks -= 1
        if not _blocks:
            _end()


def _end() -> None:
    refusal.entering.clear()
    for entry in _entries():
        entry.end()
