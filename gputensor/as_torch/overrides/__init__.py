"""`__torch_function__`: classes and modes that replace functions of tensors.

Calls of plain tensors are not slower. A function that fails on an argument of another class calls
the handler of that class (dispatch/refusal.py). A tensor of a subclass with a handler has the
dispatch key PythonDispatcher. The kernel at this key raises `Overridden`; so the public function
that the program called fails too, and calls the handler. `Overridable` (subclasses.py) replaces the
methods and attributes of these tensors, because not all of them call an operator. A
TorchFunctionMode adds the key to every operator call of its block; functions that run no operator
are in entries.py.

Source: torch/overrides.py, torch/_tensor.py, and torch/csrc/utils/python_arg_parser.cpp for the
order of the classes.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

import gputensor as gt

from ...dispatch import dispatcher, keys
from ...dispatch.keys import OVERRIDES
from ...dispatch.operator import Operator, Table
from ...nn import init
from ...ops import OperatorPacket
from ...tensor.tensor import Tensor
from . import entries, modes
from .entries import DECLARED, Entry
from .modes import DisableTorchFunctionSubclass, Outer, active, is_enabled
from .sources import (
    OF_PARSER, OF_PYTHON, OF_SELF, PACKAGE, is_in, is_of_python, rule_of, signature,
)  # fmt: skip

# The names of Python's binary operators, and their methods.
NAMES = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
BINARY = {f"__{way}{name}__" for name in NAMES for way in ("", "r", "i")}
# Maps a method of a Python operator to the name of the method that handlers get instead.
PUBLIC = {
    "__add__": "add", "__sub__": "sub", "__mul__": "mul", "__truediv__": "div",
    "__mod__": "remainder", "__matmul__": "matmul", "__eq__": "__eq__",
    "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
    "__neg__": "neg", "__pos__": "positive", "__abs__": "abs", "__iadd__": "add_",
    "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_", "__imod__": "remainder_", "__radd__": "add",
    "__rmul__": "mul", "__rand__": "bitwise_and", "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor", "__div__": "div", "__idiv__": "div_", "__rdiv__": "__rtruediv__",
}  # fmt: skip


class Overridden(Exception):
    """Exception that makes a public function fail, so that the function's error path calls the
    handler."""


def disabled(func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
    """Run `func` without handlers. This is the `__torch_function__` of classes whose tensors behave
    like plain tensors."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def default(
    cls: type, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    """Run `func` and convert its results to the class `cls`. This is the `__torch_function__` of
    Tensor."""
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


def has_handler(x: Any) -> bool:
    """True for an object whose class has a handler `__torch_function__`. For tensors, Tensor's
    default and `disabled` are not handlers."""
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


def overloaded(values: Iterable[Any], rule: str = OF_PARSER) -> list[Any]:
    """Return one argument of each class that has a handler. They are in the order of the arguments,
    but subclasses come before their bases."""
    found: list[Any] = []
    if not is_enabled():
        return found
    for x in _given(values):
        kind = type(x)
        is_one = has_handler(x) or (rule == OF_PYTHON and kind is Tensor)
        if not is_one or any([kind is type(other) for other in found]):
            continue
        at = next((n for n, other in enumerate(found) if isinstance(x, type(other))), len(found))
        found.insert(at, x)
    return found


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return True if an argument or a mode has `__torch_function__`."""
    return bool(active() or overloaded(relevant_args))


def is_tensor_like(inp: Any) -> bool:
    """Return True for a tensor and for an object with `__torch_function__`."""
    return isinstance(inp, Tensor) or has_handler(inp)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Call the handlers of the innermost mode and of the arguments, until one of them returns a
    result other than NotImplemented. Return this result. Functions that are written in Python call
    this.
    """
    return call_handlers(OF_PYTHON, public_api, relevant_args, args, kwargs)


def call_handlers(
    rule: str, public_api: Callable[..., Any], relevant_args: Iterable[Any], args: Any, kwargs: Any
) -> Any:
    """Call the handlers of the innermost mode and of the arguments, until one of them returns a
    result other than NotImplemented. rule: OF_PARSER, OF_PYTHON or OF_SELF. It selects the types
    that the handlers get; see sources.py."""
    relevant_args, args = [*relevant_args], tuple(args)
    found = overloaded(relevant_args)
    seen = args[:1] if rule == OF_SELF else overloaded(relevant_args, rule)
    types = tuple([type(x) for x in seen])
    modes = active()
    if modes:
        with Outer(modes[:-1]):
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


# --- functions ------------------------------------------------------------------------------------


def override(function: Any, given: Mapping[str, Any]) -> tuple[Any] | None:
    """Call the handler of an argument or mode. Return None if there is no handler, or if an outer
    function of gputensor will call the handler.

    given: the function's arguments by name, with the defaults of omitted arguments. Called by
    dispatch/refusal.py, three calls inside of the function.
    """
    if not has_torch_function(given.values()):
        return None
    caller = sys._getframe(3).f_back
    found = boundary(caller)
    is_property = isinstance(function, property)
    if found == "caught":
        if isinstance(error := sys.exception(), Overridden):
            raise error  # so that refusal.py does not search for a wrong argument
        return None
    if not overloaded(given.values()) and (
        found or not (is_property or _is_overridable(function, caller))
    ):
        return None
    if is_property:
        x = given["self"]
        return (call_handlers(OF_SELF, function.__get__, (x,), (x,), {}),)
    return _handled(_called_name(function), given, _keywords(caller))


def _called_name(function: Any) -> Any:
    """Return the function with the name that the program used, because a function may have several
    names. The name is read from a frame at a fixed depth, so only `override` may call this."""
    code = sys._getframe(4).f_code
    found = function.__globals__.get(code.co_name)
    return found if getattr(found, "__code__", None) is code else function


def _enter_declared(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any] | None:
    """Call the mode for a function that `refusal.declares` made, before the function runs."""
    caller = sys._getframe(2)
    if not (active() and _is_overridable(function, caller)):
        return None
    if not _reaches_program(caller):
        return None
    try:
        bound = signature(function).bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    return _handled(function, bound.arguments, kwargs)


def _enter(entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the handlers of the innermost mode and of the arguments for a function with an Entry.
    Without a handler, call the function itself. Modes are called for attributes that the program
    reads, but not for attributes that our functions read."""
    relevant = (*args, *kwargs.values())
    if has_torch_function(relevant):
        caller = sys._getframe(2)
        ours = _is_ours(caller)
        if not ours or (active() and entry.runs_an_operator() and _reaches_program(caller)):
            return call_handlers(rule_of(entry.public), entry.public, relevant, args, kwargs)
    return entry.original(*args, **kwargs)


def _reaches_program(caller: FrameType) -> bool:
    """Return True if the mode must be called when this frame calls an operator or function. Raises:
    Overridden if a public function that is still running will call the mode."""
    found = boundary(caller)
    if found == "caught":
        raise Overridden
    return not found


def _handled(
    function: Callable[..., Any], given: Mapping[str, Any], named: Collection[str]
) -> tuple[Any]:
    """Call the handler. named: the names of arguments that were given by keyword."""
    args: Iterable[Any] = ()
    kwargs = dict(given)
    if function in OF_INIT:
        pass  # PyTorch passes all arguments of these functions by keyword
    elif is_of_python(function):
        args, kwargs = _with_defaults(function, given)
    else:
        args, kwargs = _as_given(function, given, named)
    relevant = [*args, *kwargs.values()]
    name = function.__qualname__.rpartition(".")[2] if _is_method(function) else ""
    is_operator = name in PUBLIC or name in BINARY
    func = getattr(Tensor, PUBLIC.get(name, name)) if is_operator else function
    try:
        return (call_handlers(rule_of(func), func, relevant, args, kwargs),)
    except TypeError:
        if is_operator:
            return (NotImplemented,)
        raise


# Functions of these modules call no mode in PyTorch. A mode gets only the operators that the
# functions run.
_NOT_OVERRIDABLE = (
    "nn.utils", "nn.modules", "nn.init", "optim", "utils", "cuda", "func", "tensor.printing",
    "autograd.gradcheck",
)  # fmt: skip
_INIT = f"{PACKAGE}.nn.init"
OF_INIT = {init.uniform_, init.normal_, init.constant_, init.kaiming_uniform_}
_OTHERS = {
    "upsample", "upsample_nearest", "upsample_bilinear", "broadcast_shapes", "frombuffer",
}  # fmt: skip


def _is_overridable(function: Any, caller: FrameType | None) -> bool:
    """True if a mode is called when the frame `caller` calls this function."""
    if function in OF_INIT:
        return caller is None or caller.f_globals.get("__name__") != _INIT
    return not is_in(function.__module__, _NOT_OVERRIDABLE) and function.__name__ not in _OTHERS


def _is_ours(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] == PACKAGE


def _is_method(function: Callable[..., Any]) -> bool:
    return getattr(function, "__qualname__", "").startswith("GeneratedMethods.")


def _with_defaults(
    function: Callable[..., Any], given: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, parameter in signature(function).parameters.items():
        value = given[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs |= value
        elif parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
            args.append(value)
        else:
            kwargs[name] = value
    return args, kwargs


def _as_given(
    function: Callable[..., Any], given: Mapping[str, Any], named: Collection[str]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments that differ from their defaults. named: the names of arguments that were
    given by keyword."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    behind: list[Any] = []  # defaults, passed only if a later argument is passed by position
    for name, parameter in signature(function).parameters.items():
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
    return () if caller is None else _keywords_at(caller.f_code, caller.f_lasti)


@functools.lru_cache(4096)
def _keywords_at(code: CodeType, last: int) -> tuple[str, ...]:
    names: Any = ()
    before, previous = "", None
    for instruction in dis.get_instructions(code):
        if instruction.offset > last:
            break
        if instruction.opname == "KW_NAMES":  # up to Python 3.12
            names = code.co_consts[instruction.arg or 0]
        elif instruction.opname == "CALL_KW" and previous is not None:
            names = previous.argval
        elif before.startswith("CALL"):
            names = ()
        before, previous = instruction.opname, instruction
    return names if before in ("CALL", "CALL_KW") and isinstance(names, tuple) else ()


# Modes do not get the operators that these modules call. In PyTorch, the modules are compiled or
# disable modes.
_INTERNAL = ("autograd", "func", "nn.parameter")


def boundary(frame: FrameType | None) -> str:
    """Return the reason why an operator that `frame` calls must not call the handler, or "" if
    there is no reason. "caught": a public function that is still running will call the handler.
    "internal": modes do not get the operator. "engine": no handler gets the operator."""
    found = ""
    while frame is not None and _is_ours(frame):
        name = frame.f_globals["__name__"]
        if name == f"{PACKAGE}.autograd.engine":
            return "engine"
        if frame.f_code is DECLARED:
            function, args, kwargs = (frame.f_locals[n] for n in ("declared", "args", "kwargs"))
            if function.__name__ != "__init__" and (
                overloaded((*args, *kwargs.values()))
                or (active() and _is_overridable(function, frame.f_back))
            ):
                found = "caught"
        elif "_refuse" in frame.f_code.co_names and has_torch_function(frame.f_locals.values()):
            found = "caught"
        elif is_in(name, _INTERNAL):
            found = "internal"
        frame = frame.f_back
    return found


def _make(table: Table, key_set: int) -> Callable[..., Any]:
    """Return the kernel of one operator for the key PythonDispatcher. The kernel calls handlers."""
    operator, signature = table.operator, table.signature
    places = [n for n, a in enumerate(signature.schema.arguments) if a.type.has_tensor]

    def ask(key_set: int, *args: Any) -> Any:
        values = [args[place] for place in places]
        # a view that a kernel makes of a subclass's tensor is a plain Tensor without a handler, but
        # keeps the dispatch key
        found = boundary(sys._getframe(1)) if has_torch_function(values) else "engine"
        if found == "internal" and overloaded(values):
            found = ""
        if found == "caught":
            raise Overridden
        if not found:
            shown, keywords = signature.without_defaults(signature.for_users(args))
            func = _called_operator(sys._getframe(1)) or _function(operator) or operator
            return call_handlers(rule_of(func), func, values, shown, keywords)
        key_set &= ~OVERRIDES
        return operator.redispatch_table[key_set](key_set, *args)

    return ask


_CALLS = tuple(
    [x.__code__ for x in (Operator.__call__, Operator.arranged, OperatorPacket.__call__)]
)


def _called_operator(frame: FrameType) -> Any:
    """Return the operator or packet of `gt.ops` that the program called, or None."""
    found = None
    inner: FrameType | None = frame
    while inner is not None and inner.f_code in _CALLS:
        found, inner = inner.f_locals["self"], inner.f_back
    return None if inner is None or _is_ours(inner) else found


def _function(operator: Operator) -> Any:
    """Return the public function of an operator, or None."""
    name = operator.short_name.partition(".")[0]
    for home in (gt.nn.functional, gt, Tensor):
        if (found := getattr(home, name, None)) is not None:
            return found
    return None


dispatcher.register_fallback(keys.key("PythonDispatcher"), _make, "maker")

OF_OVERRIDES: dict[str, Any] = {
    "has_torch_function": has_torch_function, "handle_torch_function": handle_torch_function,
    "has_torch_function_unary": lambda x: has_torch_function((x,)),
    "has_torch_function_variadic": lambda *args: has_torch_function(args),
    "is_tensor_like": is_tensor_like, "get_default_nowrap_functions": nowrap_functions,
    **modes.OF_OVERRIDES,
}  # fmt: skip
entries.hooks.append((_enter, _enter_declared))
