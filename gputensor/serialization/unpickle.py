"""Reader of pickles. It runs no code of a pickle, and interprets only the opcodes that saved
weights use.

A pickle names the functions that build its objects. Only names in the caller's table are allowed,
so no code from the file runs and no module is imported. The memory used for reading is limited by
the length of the pickle.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from . import allowed, numpy_values

# The maximum number of bytes of a pickle. It limits the number of objects, so that a small file
# cannot fill the memory.
MOST_BYTES = 64 << 20


class Refused(Exception):
    """Error for a pickle that contains a name that is not allowed. The text of the exception is
    "module.name"."""


class Damaged(Exception):
    """Error for a damaged file. `load` catches it and raises a public error with this text."""


def read(
    data: bytes, names: Mapping[str, Any], persistent: Callable[[Any], Any], begin: int = 0
) -> tuple[Any, int]:
    """Return the value of the pickle at position `begin`, and the position after the pickle.

    names: "module name" -> object; objects that the pickle calls must be callable. persistent:
    returns the object for a persistent id. Raises: Refused, Damaged, and for a damaged pickle also
    ValueError and LookupError.
    """
    stream = io.BytesIO(data)
    stream.seek(begin)
    machine = _Machine(names, persistent)
    while True:
        opcode = _opcodes().get(stream.read(1).decode("latin1"))
        if opcode is None:
            raise Damaged("its pickle is truncated or has an unknown opcode")
        if opcode.name == "STOP":
            return machine.pop(), stream.tell()
        step = _STEPS.get(opcode.name)
        if step is None:
            raise Damaged(f"its pickle has the opcode {opcode.name}, which weights do not need")
        if opcode.name == "GLOBAL":  # pickletools would decode escapes in the name
            step(machine, (_line(stream), _line(stream)))
        else:
            step(machine, None if opcode.arg is None else opcode.arg.reader(stream))


@cache
def _opcodes() -> dict[str, Any]:
    import pickletools

    return {opcode.code: opcode for opcode in pickletools.opcodes}


def _line(stream: io.BytesIO) -> str:
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise Damaged("its pickle is cut short")
    return line[:-1].decode("utf-8")


class _Machine:
    """The state of a pickle machine: a stack, the stacks below marks, and the memo."""

    def __init__(self, names: Mapping[str, Any], persistent: Callable[[Any], Any]) -> None:
        self.names, self.persistent = names, persistent
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        return self.stack.pop()

    def mark(self, _: Any) -> None:
        self.below.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[Any]:
        found, self.stack = self.stack, self.below.pop()
        return found

    def find(self, module: Any, name: Any) -> None:
        key = f"{module} {name}"
        if key not in self.names:
            raise Refused(f"{module}.{name}")
        self.push(self.names[key])

    def reduce(self, _: Any) -> None:
        arguments, function = self.pop(), self.pop()
        if type(arguments) is not tuple or not callable(function):
            raise Damaged("its pickle calls an object that is not a function")
        self.push(function(*arguments))

    def new(self, _: Any) -> None:
        arguments, kind = self.pop(), self.pop()
        if type(arguments) is not tuple or not isinstance(kind, type) or not allowed.has(kind):
            raise Damaged("its pickle makes an object of something that is not a class")
        self.push(kind.__new__(kind, *arguments))

    def build(self, _: Any) -> None:
        """Set the state of an object of an allowed class, or the attributes of an OrderedDict, such
        as a result of `Module.state_dict`."""
        state, made = self.pop(), self.stack[-1]
        if allowed.has(type(made)):
            allowed.built(made, state)
            return
        if isinstance(made, (np.ndarray, np.dtype)):
            numpy_values.build(made, state)
            return
        if type(made) is not OrderedDict or type(state) is not dict:
            raise Damaged("its pickle sets the state of an object that has none")
        if not all(type(name) is str for name in state):
            raise Damaged("its pickle names an attribute without a string")
        vars(made).update(state)

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise Damaged("its pickle appends to an object that is not a list")
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in (dict, OrderedDict) or len(items) % 2:
            raise Damaged("its pickle sets items of an object that is not a dict")
        for key, value in zip(items[::2], items[1::2]):
            target[key] = value

    def add(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not set:
            raise Damaged("its pickle adds to an object that is not a set")
        target.update(items)

    def last(self, count: int) -> tuple[Any, ...]:
        if len(self.stack) < count:
            raise Damaged("its pickle reads beyond the end of its stack")
        found = tuple(self.stack[-count:])
        del self.stack[-count:]
        return found


def _constant(value: Any) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.push(value)


def _put(machine: _Machine, number: Any) -> None:
    machine.memo[len(machine.memo) if number is None else int(number)] = machine.stack[-1]


def _get(machine: _Machine, number: Any) -> None:
    machine.push(machine.memo[int(number)])


_Step = Callable[[_Machine, Any], None]
_STEPS: dict[str, _Step] = {
    "PROTO": lambda machine, _: None, "FRAME": lambda machine, _: None,
    "MARK": _Machine.mark, "POP": lambda machine, _: (machine.pop(), None)[1],
    "NONE": _constant(None), "NEWTRUE": _constant(True), "NEWFALSE": _constant(False),
    "EMPTY_TUPLE": _constant(()), "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_SET": lambda machine, _: machine.push(set()),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.since_mark())),
    "TUPLE1": lambda machine, _: machine.push(machine.last(1)),
    "TUPLE2": lambda machine, _: machine.push(machine.last(2)),
    "TUPLE3": lambda machine, _: machine.push(machine.last(3)),
    "APPEND": lambda machine, _: machine.append([machine.pop()]),
    "APPENDS": lambda machine, _: machine.append(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.set_items(list(machine.last(2))),
    "SETITEMS": lambda machine, _: machine.set_items(machine.since_mark()),
    "ADDITEMS": lambda machine, _: machine.add(machine.since_mark()),
    "FROZENSET": lambda machine, _: machine.push(frozenset(machine.since_mark())),
    "GLOBAL": lambda machine, names: machine.find(*names),
    "STACK_GLOBAL": lambda machine, _: machine.find(*machine.last(2)),
    "REDUCE": _Machine.reduce, "NEWOBJ": _Machine.new, "BUILD": _Machine.build,
    "BINPERSID": lambda machine, _: machine.push(machine.persistent(machine.pop())),
    "MEMOIZE": _put, "BINPUT": _put, "LONG_BINPUT": _put, "BINGET": _get, "LONG_BINGET": _get,
    **dict.fromkeys(
        ("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE",
         "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
         "BINSTRING", "SHORT_BINSTRING"), _Machine.push,
    ),
}  # fmt: skip
