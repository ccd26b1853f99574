"""Analysis of a function's bytecode: does it allow calls that skip the function's Python?

Note [What is replayed]
A call is replayed if running the function's Python could have no other effect. Two analyses decide
it. This module reads the bytecode: the function uses only tensors, numbers, strings, and tuples and
lists of these; it applies only Python's operators, methods with names of our operators or layout
properties, our functions, a few builtins, and functions that satisfy the same rules. It stores only
to local variables. A value read from outside (global, cell, module attribute, default) is either a
tensor, which is one more input, or is compared by identity in every call. Any unknown instruction
rejects the function, so on a Python version with new instructions, fewer functions are replayed,
but none wrongly. `is` and `in` are rejected, because the identity of operands is not part of a
replay's key. `%` on a string is rejected too, because it may print a tensor.

trace.py watches the operators of one call: each was recorded, or its result depends only on its
operands; Python read no element, every operand is an input or was made in the call, and no existing
memory was written. Then branches depend only on the replay's key: geometries, dtypes, devices, and
the values of all non-tensors.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import math
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from ...core.device import device
from ...core.dtype import dtype
from ...core.geometry import Size
from ...core.memory_format import memory_format
from ...dispatch import dispatcher
from ...structured.generator import Generator
from ...tensor.base import patched
from ...tensor.tensor import Conversions, Tensor

# Allowed instructions of Python 3.11 to 3.14: they begin or end a call, apply an operator, build a
# list, tuple or slice, move values, or jump.
_HARMLESS = frozenset(
    """BINARY_OP BINARY_SLICE BINARY_SUBSCR BUILD_CONST_KEY_MAP BUILD_LIST BUILD_SLICE BUILD_TUPLE
    CACHE CALL CALL_KW COMPARE_OP COPY COPY_FREE_VARS END_FOR EXTENDED_ARG FOR_ITER GET_ITER
    JUMP_BACKWARD JUMP_FORWARD JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP KW_NAMES LIST_APPEND
    LIST_EXTEND LOAD_CONST LOAD_FAST LOAD_FAST_AND_CLEAR LOAD_FAST_BORROW
    LOAD_FAST_BORROW_LOAD_FAST_BORROW LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST LOAD_SMALL_INT NOP
    NOT_TAKEN POP_ITER POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_NONE
    POP_JUMP_BACKWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE
    POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_FORWARD_IF_TRUE
    POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_IF_TRUE POP_TOP PRECALL
    PUSH_NULL RESUME RETURN_CONST RETURN_VALUE STORE_FAST STORE_FAST_LOAD_FAST
    STORE_FAST_STORE_FAST SWAP TO_BOOL UNARY_INVERT UNARY_NEGATIVE UNARY_NOT UNARY_POSITIVE
    UNPACK_SEQUENCE""".split()
)
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
# Allowed attributes of a tensor: layout properties, which depend only on its geometry, dtype and
# device, and methods that convert the tensor.
_LAYOUT = frozenset(
    """T device dim dtype element_size is_complex is_contiguous is_cpu is_cuda is_floating_point
    itemsize mT nbytes ndim ndimension nelement numel shape size stride to type_as""".split()
    + ["values", "indices"]  # names of the fields of operators' results
) | {name for name in vars(Conversions) if not name.startswith("_")}
_CALLED: tuple[Any, ...] = (
    abs, bool, enumerate, float, int, isinstance, len, list, max, min, range, reversed, sum, tuple,
    zip, Tensor,
)  # fmt: skip
CONSTANTS = (
    bool, int, float, str, type(None), dtype, device, memory_format, Size, type(Ellipsis),
    Generator,  # allowed, because only operators draw from a generator, and operators are traced
)  # fmt: skip
# Flags of functions that are rejected, because they return an object whose code runs after the
# call.
LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
MISSING = object()
_NEVER = object()
_PACKAGE = __name__.partition(".")[0]


class Impure(Exception):
    """Raised if a function cannot be replayed. The message is a clause whose subject is the
    function."""


class Outside:
    """Values that a function reads from outside. code: the function's code. tensors: (where, name)
    of each tensor; `where` is a dict or a cell. others: (where, name, value) of each value that is
    not a tensor; `where` may also be a function."""

    def __init__(self, function: FunctionType) -> None:
        self.formats = False  # True if the function may format a value into a string
        self.tensors: list[tuple[Any, str]] = []
        self.others: list[tuple[Any, str, Any]] = []
        self._functions: set[FunctionType] = set()
        self.code = function.__code__
        self._read(function)
        for name in patched:
            if _is_replaced(name) and (patched[name] is not None or _inherited(name) is not None):
                raise Impure(f"may use Tensor.{name}, which was replaced")
        read = [value for _, _, value in self.others]
        texts = [x for one in self._functions for x in (*one.__code__.co_consts, one.__defaults__)]
        if self.formats and any([_has_text(x) for x in (*read, *texts)]):
            raise Impure("may format a text")

    def is_as_it_was(self) -> bool:
        return all([found_in(where, name) is value for where, name, value in self.others])

    def given(self) -> tuple[Any, ...]:
        """Return the current values of the outside variables in which `tensors` were found."""
        return tuple([found_in(where, name) for where, name in self.tensors])

    def _read(self, function: FunctionType) -> None:
        if function in self._functions:
            return
        self._functions.add(function)
        code = function.__code__
        if code.co_flags & LATER:
            raise Impure("is a generator or a coroutine")
        defaults, named = function.__defaults__, function.__kwdefaults__
        self.others += [
            (function, "__code__", code), (function, "__defaults__", defaults),
            (function, "__kwdefaults__", named),
        ]  # fmt: skip
        for value in defaults or ():
            if not is_constant(value):
                raise Impure("has a default that may change")
        for name, value in (named or {}).items():
            self._take(code.co_firstlineno, named, name, value, name)
        self._walk(function, code)

    def _walk(self, function: FunctionType, code: CodeType) -> None:
        line = code.co_firstlineno
        module: ModuleType | None = None  # the module that the last instruction pushed on the stack
        called = ""
        cells = dict(zip(code.co_freevars, function.__closure__ or ()))
        for step in dis.get_instructions(code):
            line = step.starts_line if type(step.starts_line) is int else line
            line = getattr(step, "line_number", line) or line
            name = step.opname
            if name in ("CACHE", "EXTENDED_ARG"):
                continue
            if module is not None:
                if name == "PUSH_NULL":
                    continue
                if name in _ATTRIBUTES:
                    # Read the attribute before `vars(module)`, because this may import a lazy
                    # module.
                    getattr(module, step.argval, None)
                if name not in _ATTRIBUTES or step.argval not in vars(module):
                    raise Impure(f"reads {called} in line {line}")
                called = f"{called}.{step.argval}"
                found = vars(module)[step.argval]
                module = self._take(line, vars(module), step.argval, found, called)
            elif name == "LOAD_GLOBAL":
                called, where = step.argval, function.__globals__
                if called not in where:
                    self.others.append((where, called, MISSING))
                    where = vars(builtins)
                found = where.get(called, MISSING)
                module = self._take(line, where, called, found, called)
            elif name == "LOAD_DEREF":
                called = step.argval
                cell = cells.get(called)
                found = found_in(cell, "cell_contents")
                module = self._take(line, cell, "cell_contents", found, called)
            elif name in _ATTRIBUTES:
                known = step.argval in _LAYOUT or _is_operator(step.argval)
                if not known or _is_replaced(step.argval):
                    raise Impure(f"uses .{step.argval} in line {line}")
            elif name == "BINARY_OP" and "%" in step.argrepr:
                self.formats = True
            elif name not in _HARMLESS:
                raise Impure(f"has {_SAID.get(name, name)} in line {line}")

    def _take(self, line: int, where: Any, name: str, found: Any, called: str) -> ModuleType | None:
        """Record the place and the value of a read. Return the value if it is a module, because the
        next instruction reads an attribute of it."""
        if type(found) is Tensor:
            if not any([x is where and said == name for x, said in self.tensors]):
                self.tensors.append((where, name))
            return None
        self.others.append((where, name, found))
        if isinstance(found, ModuleType):
            return found
        if isinstance(found, FunctionType):
            if (found.__module__ or "").partition(".")[0] != _PACKAGE:
                self._read(found)
                return None
            if _is_operator(found.__name__):
                return None
        elif is_constant(found) or isinstance(found, BuiltinFunctionType) and (
            found.__module__ == math.__name__
        ) or any([found is x for x in _CALLED]):  # fmt: skip
            return None
        raise Impure(f"reads {called} in line {line}")


def found_in(where: Any, name: str) -> Any:
    """Return an item of a dict or an attribute of an object, or MISSING if it does not exist."""
    try:
        return where.get(name, MISSING) if type(where) is dict else getattr(where, name, MISSING)
    except ValueError:  # the cell is empty: its variable was deleted
        return MISSING


def _is_replaced(name: str) -> bool:
    """True if a user has replaced this attribute of Tensor."""
    if name not in patched:
        return False
    now = vars(Tensor).get(name)
    return now is not patched[name] and now is not _inherited(name)


def _inherited(name: str) -> Any:
    return next((vars(base)[name] for base in Tensor.__mro__[1:] if name in vars(base)), None)


# Maps an instruction to its description in messages.
_SAID = {
    "STORE_ATTR": "a write to an attribute", "STORE_SUBSCR": "a write to an item",
    "STORE_GLOBAL": "a write to a global", "STORE_DEREF": "a variable that a function shares",
    "LOAD_CLOSURE": "a variable that a function shares", "MAKE_CELL": "a variable that a function "
    "shares", "MAKE_FUNCTION": "a function", "BEFORE_WITH": "a with block", "IS_OP": "`is`",
    "CONTAINS_OP": "`in`", "RAISE_VARARGS": "a raise", "IMPORT_NAME": "an import",
    "FORMAT_VALUE": "a formatted string", "FORMAT_SIMPLE": "a formatted string",
    "CALL_FUNCTION_EX": "a call with * or **",
}  # fmt: skip


def is_constant(value: Any) -> bool:
    """True for an immutable value, which a replay can compare."""
    return type(value) in CONSTANTS or type(value) is tuple and all([is_constant(x) for x in value])


def key_of(value: Any) -> Any:
    """Return a value's part of a replay's key. The key of a tensor is its geometry. Equal constants
    have equal keys. A mutable value gets `_NEVER`, which is in no plan's key."""
    kind = type(value)
    if kind is Tensor:
        return value._geometry
    if kind is float and not value:
        return str(value)  # a string distinguishes 0.0 from -0.0, which are equal
    if kind is tuple:
        return (kind, *[key_of(x) for x in value])
    return (kind, value) if kind in CONSTANTS else _NEVER


def _has_text(value: Any) -> bool:
    return type(value) is str or type(value) is tuple and any([_has_text(x) for x in value])


# Tags of in-place operators that write elements of their operand and have no other effect.
_WRITES = frozenset(("pointwise", "nondeterministic_seeded"))


@cache
def _is_operator(name: str) -> bool:
    """True if gputensor's function of this name only calls operators and has no other effects."""
    named = dispatcher.overloads(f"aten::{name}")
    return bool(named) and (
        not name.endswith("_") or any([not _WRITES.isdisjoint(x.tags) for x in named])
    )
