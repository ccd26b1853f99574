"""`__torch_function__`: classes and modes that replace functions of tensors.

Calls of plain tensors are not slower. A function that fails on an argument of another class calls
the handler of that class (dispatch/refusal.py). A tensor of a subclass with a handler has the
dispatch key PythonDispatcher. The kernel at this key raises `Overridden`; so the public function
that the program called fails too, and calls the handler. `Overridable` replaces the methods and
attributes of these tensors, because not all of them call an operator. A TorchFunctionMode adds the
key to every operator call of its block.

Source: torch/overrides.py, torch/_tensor.py, and torch/csrc/utils/python_arg_parser.cpp for the
order of the classes.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from types import FrameType, FunctionType
from typing import Any

import gputensor as gt

from ..core.guard import Guard
from ..dispatch import dispatcher, keys, refusal, tls
from ..dispatch.families import Later, LaterProperty
from ..dispatch.keys import OVERRIDES
from ..dispatch.operator import Table
from ..tensor.tensor import Tensor

_PACKAGE = __name__.partition(".")[0]
# The modes of this thread or task, innermost last.
_modes: ContextVar[tuple[TorchFunctionMode, ...]] = ContextVar("gputensor_overrides", default=())


# The code objects of all functions that `declares` makes.
_DECLARED = refusal.declares()(lambda: None).__code__


class Overridden(Exception):
    """Raised to make a public function fail. The function's error path then calls the handler."""


class DisableTorchFunctionSubclass(tls.ExcludeDispatchKeys):
    """A block in which no handler is called."""

    def __init__(self) -> None:
        super().__init__(OVERRIDES)


class TorchFunctionMode(Guard):
    """A block in which the mode's `__torch_function__` is called for every function that runs an
    operator."""

    def __init__(self) -> None:
        pass

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError

    def _enter(self) -> None:
        (include, keep), modes = tls.state.get(), _modes.get()
        _modes.set((*modes, self))
        tls.state.set((include | OVERRIDES, keep))

    def _found(self) -> Any:
        modes = _modes.get()
        at = len(modes) - 1 - modes[::-1].index(self)
        return modes[:at] + modes[at + 1 :]

    def _put_back(self, found: Any) -> None:
        _modes.set(found)
        if not found:
            include, keep = tls.state.get()
            tls.state.set(tls.same((include & ~OVERRIDES, keep)))


def disabled(func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
    """A `__torch_function__` for classes whose tensors behave like plain tensors."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def default(
    cls: type, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    """The `__torch_function__` of Tensor: converts results to the class `cls`."""
    if not all([issubclass(cls, kind) for kind in types]):
        return NotImplemented
    result = disabled(func, types, args, kwargs)
    return result if func in nowrap_functions() else _converted(result, cls)


def _converted(result: Any, cls: Any) -> Any:
    if isinstance(result, Tensor) and not isinstance(result, cls):
        with DisableTorchFunctionSubclass():
            return result.as_subclass(cls)
    if isinstance(result, (list, tuple)) and not isinstance(result, gt.Size):
        parts = [_converted(x, cls) for x in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


def nowrap_functions() -> set[Any]:
    """Return the functions whose results stay plain tensors."""
    return {vars(_home(name))[name].__get__ for name in ("grad", "_base") if _home(name)}


def _home(name: str) -> Any:
    return next((kind for kind in Tensor.__mro__ if name in vars(kind)), None)


# --- the arguments that have a handler --------------------------------------------------------


def is_enabled() -> bool:
    """Return False in a block of DisableTorchFunctionSubclass."""
    return bool(tls.state.get()[1] & OVERRIDES)


def has_handler(x: Any) -> bool:
    """True for an object whose class has a `__torch_function__` of its own."""
    kind = type(x)
    if issubclass(kind, Tensor):
        return bool(kind._class_keys & OVERRIDES)
    return hasattr(kind, "__torch_function__") and not isinstance(x, type)


def is_overriding(cls: type) -> bool:
    """True if a class that derives from Tensor has a handler other than `disabled`."""
    home = next((kind for kind in cls.__mro__ if "__torch_function__" in vars(kind)), Tensor)
    return home is not Tensor and getattr(cls, "__torch_function__", None) is not disabled


def _given(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield from value if isinstance(value, (list, tuple)) else (value,)


def overloaded(values: Iterable[Any]) -> list[Any]:
    """Return one argument of each class that has a handler. They are in the order of the arguments,
    but subclasses come before their bases."""
    found: list[Any] = []
    if not is_enabled():
        return found
    for x in _given(values):
        kind = type(x)
        if not has_handler(x) or any([kind is type(other) for other in found]):
            continue
        at = next((n for n, other in enumerate(found) if isinstance(x, type(other))), len(found))
        found.insert(at, x)
    return found


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return True if an argument or a mode has `__torch_function__`."""
    return bool(overloaded(relevant_args)) or bool(_modes.get() and is_enabled())


def is_tensor_like(inp: Any) -> bool:
    """Return True for a tensor and for an object with `__torch_function__`."""
    return isinstance(inp, Tensor) or has_handler(inp)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Return the result of the first handler among the modes and arguments that does not return
    NotImplemented."""
    found = overloaded(relevant_args)
    types = tuple([type(x) for x in found])
    modes = _modes.get() if is_enabled() else ()
    if modes:
        with _Outer(modes[:-1]):
            result = modes[-1].__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for x in found:
        result = x.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    module, name = (getattr(public_api, of, "") for of in ("__module__", "__name__"))
    raise TypeError(
        f"no implementation found for '{module}.{name}' on types that implement "
        f"__torch_function__: {[type(x) for x in (*modes[-1:], *found)]}"
    )


class _Outer:
    """A block in which all modes except the innermost one are active."""

    def __init__(self, outer: tuple[TorchFunctionMode, ...]) -> None:
        self.outer = outer

    def __enter__(self) -> None:
        self.found = _modes.get(), tls.state.get()
        include, keep = self.found[1]
        _modes.set(self.outer)
        if not self.outer:
            tls.state.set(tls.same((include & ~OVERRIDES, keep)))

    def __exit__(self, *error: object) -> None:
        modes, state = self.found
        _modes.set(modes)
        tls.state.set(state)


# --- functions ------------------------------------------------------------------------------------


def override(function: Any, given: Mapping[str, Any]) -> tuple[Any] | None:
    """Call the handler of an argument or mode. Return None if there is no handler, or if an outer
    function of gputensor will call it.

    given: the function's arguments by name, with the defaults of those that were left out. Called
    by dispatch/refusal.py, three calls inside of the function.
    """
    if not has_torch_function(given.values()):
        return None
    caller = sys._getframe(3).f_back
    if _boundary(caller) == "caught":
        return None
    if isinstance(function, property):
        x = given["self"]
        return (handle_torch_function(function.__get__, (x,), x),)
    if function.__module__.startswith(_LAYERS) and function.__name__ not in _NATIVE:
        args, kwargs = _with_defaults(function, given)
    else:
        args, kwargs = _as_given(function, given, _keywords(caller))
    public = _PUBLIC.get(function.__name__) if _is_method(function) else None
    relevant = [*args, *kwargs.values()]
    try:
        func = getattr(Tensor, public) if public else function
        return (handle_torch_function(func, relevant, *args, **kwargs),)
    except TypeError:
        if public is None:
            raise
        return (NotImplemented,)


def _is_method(function: Callable[..., Any]) -> bool:
    return getattr(function, "__qualname__", "").startswith("GeneratedMethods.")


# The functions of torch.nn.functional that pass their arguments as they were given. The other
# functions pass arguments with a default by keyword, because they are written in Python in PyTorch.
_LAYERS = f"{_PACKAGE}.nn.functional"
_NATIVE = {
    "linear", "logsigmoid", "softplus", "softshrink", "gelu", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "one_hot", "scaled_dot_product_attention", "elu_", "hardtanh_", "leaky_relu_",
    "rrelu_",
}  # fmt: skip


def _with_defaults(
    function: Callable[..., Any], given: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    parameters = inspect.signature(function).parameters.values()
    named = {x.name for x in parameters if x.default is not x.empty or x.kind is x.KEYWORD_ONLY}
    args = [given[x.name] for x in parameters if x.name not in named]
    return args, {name: given[name] for name in given if name in named}


def _as_given(
    function: Callable[..., Any], given: Mapping[str, Any], named: Iterable[str]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments, but leave out those that equal their defaults. named: the names of
    arguments that were given by keyword."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    behind: list[Any] = []  # defaults that are passed only if a later argument is passed
    for name, parameter in inspect.signature(function).parameters.items():
        value = given[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs |= value
        elif name in named or parameter.kind is parameter.KEYWORD_ONLY:
            if value is not parameter.default:
                kwargs[name] = value
        elif value is parameter.default:
            behind.append(value)
        elif kwargs:  # a positional argument cannot follow a keyword argument
            kwargs[name] = value
        else:
            args += [*behind, value]
            behind = []
    return args, kwargs


def _keywords(caller: FrameType | None) -> tuple[str, ...]:
    """Return the names of the keyword arguments of the call that a frame executes. Return () if the
    bytecode does not contain the names, as for `f(*args, **kwargs)`."""
    if caller is None:
        return ()
    names: Any = ()
    before, last = "", None
    for instruction in dis.get_instructions(caller.f_code):
        if instruction.offset > caller.f_lasti:
            break
        if instruction.opname == "KW_NAMES":  # up to Python 3.12
            names = caller.f_code.co_consts[instruction.arg or 0]
        elif instruction.opname == "CALL_KW" and last is not None:
            names = last.argval
        elif before.startswith("CALL"):
            names = ()
        before, last = instruction.opname, instruction
    return names if before in ("CALL", "CALL_KW") and isinstance(names, tuple) else ()


def _boundary(frame: FrameType | None) -> str:
    """Return "caught" if a public function that is still running will call the handler of an
    operator, "internal" if autograd's engine runs the operator, and otherwise ""."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.partition(".")[0] != _PACKAGE:
            break
        if name == f"{_PACKAGE}.autograd.engine":
            return "internal"
        if frame.f_code is _DECLARED:
            function, args, kwargs = (frame.f_locals[n] for n in ("declared", "args", "kwargs"))
            if function.__name__ != "__init__" and has_torch_function((*args, *kwargs.values())):
                return "caught"
        elif "_refuse" in frame.f_code.co_names and has_torch_function(frame.f_locals.values()):
            return "caught"
        frame = frame.f_back
    return ""


def _make(table: Table, key_set: int) -> Callable[..., Any]:
    """Make the kernel of one operator at the key PythonDispatcher."""
    operator, signature = table.operator, table.signature
    places = [n for n, a in enumerate(signature.schema.arguments) if a.type.has_tensor]

    def ask(key_set: int, *args: Any) -> Any:
        values = [args[place] for place in places]
        # a view that a kernel made of a subclass's tensor has the key, but is a plain Tensor
        if has_torch_function(values) and (found := _boundary(sys._getframe(1))) != "internal":
            if found:
                raise Overridden
            shown, keywords = signature.without_defaults(signature.for_users(args))
            func = _function(operator.short_name.partition(".")[0])
            return handle_torch_function(func or operator, values, *shown, **keywords)
        key_set &= ~OVERRIDES
        return operator.redispatch_table[key_set](key_set, *args)

    return ask


def _function(name: str) -> Any:
    """Return the public function of an operator, or None."""
    for home in (gt.nn.functional, gt, Tensor):
        if (found := getattr(home, name, None)) is not None:
            return found
    return None


# --- methods and attributes of subclasses ---------------------------------------------------------

# Operator methods of Python -> the name of the method that a handler gets instead.
_PUBLIC = {
    "__add__": "add", "__sub__": "sub", "__mul__": "mul", "__truediv__": "div",
    "__mod__": "remainder", "__pow__": "pow", "__matmul__": "matmul", "__eq__": "eq",
    "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
    "__neg__": "neg", "__pos__": "positive", "__abs__": "abs", "__iadd__": "add_",
    "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_", "__ipow__": "pow_",
    "__ifloordiv__": "floor_divide_", "__imod__": "remainder_",
}  # fmt: skip
# Reflected operators -> the operator that is called with swapped operands if the other operand is a
# tensor.
_SWAPPED = {
    f"__r{name}__": f"__{name}__"
    for name in "add sub mul truediv floordiv mod pow matmul and or xor".split()
}
# Reflected operators -> the function that a handler gets if the other operand is a number. Other
# reflected operators reach the handler unchanged.
_OF_NUMBERS = {
    "__radd__": "add", "__rmul__": "mul", "__rand__": "bitwise_and", "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
}  # fmt: skip
_NOT_OVERRIDDEN = {
    "__init__", "__new__", "__init_subclass__", "__hash__", "__iter__", "__getattribute__",
    "__setattr__", "__buffer__", "as_subclass",
}  # fmt: skip


def _called(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the handler for a method. Within a public function, let that function call the
    handler."""
    caller = sys._getframe(2)
    relevant = (*args, *kwargs.values())
    if has_torch_function(relevant):
        if caller.f_globals.get("__name__", "").partition(".")[0] != _PACKAGE:
            return handle_torch_function(func, relevant, *args, **kwargs)
        if _boundary(caller) == "caught":
            raise Overridden
    return func(*args, **kwargs)


def _method(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _called(getattr(Tensor, name), (self, *args), kwargs)

    method.__name__ = name
    return method


def _operator(name: str) -> Any:
    def method(self: Any, *others: Any) -> Any:
        given, used = (self, *others), name
        if all([isinstance(x, (Tensor, int, float, complex)) for x in others]):
            if name in _SWAPPED and isinstance(others[0], Tensor):
                given, used = (*others, self), _SWAPPED[name]
            else:
                used = _OF_NUMBERS.get(name, name)
            used = used if used == "__eq__" else _PUBLIC.get(used, used)
        try:
            return _called(getattr(Tensor, used), given, {})
        except TypeError:
            return NotImplemented

    method.__name__ = name
    return method


def _attribute(name: str) -> property:
    def get(self: Any) -> Any:
        return _called(getattr(Tensor, name).__get__, (self,), {})

    def put(self: Any, value: Any) -> None:
        _called(getattr(Tensor, name).__set__, (self, value), {})

    return property(get, put)


def _members() -> dict[str, Any]:
    """Return the methods and attributes of Tensor in a form that calls handlers."""
    found: dict[str, Any] = {}
    for name in {name: None for kind in Tensor.__mro__[:-1] for name in vars(kind)}:
        value = vars(_home(name))[name]
        if name in _NOT_OVERRIDDEN or name.startswith("__array"):
            continue
        if isinstance(value, (property, LaterProperty)):
            found[name] = _attribute(name)
        elif name in _PUBLIC or name in _SWAPPED:
            found[name] = _operator(name)
        elif isinstance(value, (FunctionType, Later)) and (
            name.startswith("__") or not name.startswith("_")
        ):
            found[name] = _method(name)
    return found


class Overridable:
    """The first base of a program's subclass of Tensor."""

    __slots__ = ()
    __hash__ = object.__hash__
    vars().update(_members())
    __torch_function__: Any = classmethod(default)
    is_overriding = staticmethod(is_overriding)


dispatcher.register_fallback(keys.key("PythonDispatcher"), _make, "maker")

OF_OVERRIDES: dict[str, Any] = {
    "has_torch_function": has_torch_function, "handle_torch_function": handle_torch_function,
    "has_torch_function_unary": lambda x: has_torch_function((x,)),
    "has_torch_function_variadic": lambda *args: has_torch_function(args),
    "is_tensor_like": is_tensor_like, "TorchFunctionMode": TorchFunctionMode,
    "get_default_nowrap_functions": nowrap_functions,
}  # fmt: skip
