"""The parser of schemas: text to tokens, and tokens to values.

Source: torch/csrc/jit/frontend/function_schema_parser.cpp.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from .. import errors
from .values import Alias, Argument, FunctionSchema, Name, OperatorName, Return, Type, fits

# PyTorch's limit on the number of arguments, which is the width of a bitset. Source:
# c10::utils::bitset, aten/src/ATen/core/dispatch/DispatchKeyExtractor.h.
MAX_ARGUMENTS = 64


@functools.cache
def _token() -> re.Pattern[str]:
    # The pattern is compiled on first use, because compiling it takes half a millisecond.
    return re.compile(
        r"""\s*(?: (?P<string>"(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*')
              | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?j?)
              | (?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
              | (?P<symbol>->|::|\.\.\.|[()\[\],*?!|=]) )""",
        re.VERBOSE,
    )


# Types without parameters. Types with parameters, such as `Dict(str, int)`, are in _FORMS. Other
# names that begin with a lower-case letter are type variables, as in `f(t x) -> t`. Source:
# torch/csrc/jit/frontend/schema_type_parser.cpp.
_TYPES = frozenset((
    "Tensor", "int", "SymInt", "float", "complex", "bool", "SymBool", "number", "Scalar", "str",
    "Device", "DeviceIndex", "Stream", "ScalarType", "Layout", "MemoryFormat", "Storage",
    "Generator", "Dimname", "QScheme", "Quantizer", "ConstQuantizerPtr", "Capsule", "None",
    "NoneType", "Any", "AnyClassType", "AnyEnumType",
))  # fmt: skip
_FORMS = ("Dict", "Future", "RRef", "Await", "Union")
_CLASSES = "__torch__."


def parse(text: str) -> FunctionSchema:
    """Parse a schema.

    Raises: SchemaError with the column and the text. Unlike PyTorch's parser, this one also rejects
    two arguments of the same name, and a default that does not fit its type.
    """
    return _Reader(text).schema()


def parse_type(text: str) -> Type:
    """Parse the text of a type, such as `Tensor?[]`."""
    return _Reader(text).type()


class _Reader:
    """The tokens of one text, and the current position."""

    __slots__ = ("text", "tokens", "next")

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        token, at, end = _token(), 0, len(text.rstrip())
        while at < end:
            match = token.match(text, at)
            if match is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                raise errors.bad_schema(text, at, "be a name, number, string or mark", text[at])
            kind = str(match.lastgroup)
            self.tokens.append((kind, match[kind], match.start(kind)))
            at = match.end()
        self.tokens.append(("end", "", end))
        self.next = 0

    # -- tokens ---------------------------------------------------------------------------------

    def peek(self, *values: str) -> bool:
        kind, value, _ = self.tokens[self.next]
        return kind in ("symbol", "name") and value in values

    def accept(self, value: str) -> bool:
        if self.peek(value):
            self.next += 1
            return True
        return False

    def take(self, kind: str, rule: str) -> str:
        if self.tokens[self.next][0] != kind:
            raise self.fault(rule)
        self.next += 1
        return self.tokens[self.next - 1][1]

    def expect(self, value: str) -> None:
        if not self.accept(value):
            raise self.fault(f"be '{value}'")

    def fault(self, rule: str, at: int | None = None) -> errors.SchemaError:
        kind, value, here = self.tokens[self.next if at is None else at]
        return errors.bad_schema(self.text, here, rule, "the end" if kind == "end" else value)

    # -- grammar --------------------------------------------------------------------------------

    def schema(self) -> FunctionSchema:
        name = self.operator_name()
        self.expect("(")
        arguments, is_vararg = self.arguments()
        self.expect("->")
        returns, is_varret, has_one_tuple = self.returns()
        if self.tokens[self.next][0] != "end":
            raise self.fault("end here")
        return FunctionSchema(name, arguments, returns, is_vararg, is_varret, has_one_tuple)

    def operator_name(self) -> OperatorName:
        namespace, start = "", self.next
        name = self.take("name", "be an operator's name")
        if self.accept("::"):
            namespace, start = name, self.next
            name = self.take("name", "be an operator's name")
        base, _, overload = name.partition(".")
        if "." in namespace or "." in overload:
            raise self.fault("have one overload name at most", start)
        if overload == "default":
            raise self.fault("not name an overload 'default', which means none", start)
        return OperatorName(namespace, base, overload)

    def arguments(self) -> tuple[tuple[Argument, ...], bool]:
        found: list[Argument] = []
        names: set[str] = set()
        keyword_only = is_vararg = False
        while not self.peek(")"):
            if found or keyword_only or is_vararg:
                self.expect(",")
            if is_vararg:
                raise self.fault("end the arguments after '...'")
            if self.accept("..."):
                is_vararg = True
            elif self.peek("*"):
                if keyword_only:
                    raise self.fault("be an argument, as there was a '*' before")
                keyword_only = bool(self.accept("*"))
                if self.peek(")"):
                    raise self.fault("be an argument after '*'")
            else:
                start = self.next
                argument = self.argument(keyword_only)
                if argument.name in names:
                    raise self.fault(f"be an argument of a new name, not '{argument.name}'", start)
                needs_default = bool(found) and found[-1].has_default and not keyword_only
                if needs_default and not argument.has_default:
                    raise self.fault("have a default, as the argument before it has one", start)
                names.add(argument.name)
                found.append(argument)
        self.expect(")")
        if len(found) > MAX_ARGUMENTS:
            raise self.fault(f"be one of at most {MAX_ARGUMENTS} arguments")
        return tuple(found), is_vararg

    def argument(self, keyword_only: bool) -> Argument:
        type = self.type()
        name = self.take("name", "be an argument's name")
        if not self.accept("="):
            return Argument(type, name, None, None, keyword_only)
        start = self.next
        value = self.value()
        if not fits(type, value):
            raise self.fault(f"be a default of type {type} for '{name}'", start)
        begin, last = self.tokens[start][2], self.tokens[self.next - 1]
        return Argument(type, name, self.text[begin : last[2] + len(last[1])], value, keyword_only)

    def returns(self) -> tuple[tuple[Return, ...], bool, bool]:
        if self.accept("..."):
            return (), True, False
        start = self.next
        if not self.accept("("):
            return (self.returned(),), False, False
        found: list[Return] = []
        while not self.peek(")"):
            if found:
                self.expect(",")
            found.append(self.returned())
        self.expect(")")
        if self.peek("?", "[", "("):  # a list of tuples: `(int, Tensor)[]`
            self.next = start
            return (self.returned(),), False, False
        return tuple(found), False, len(found) == 1

    def returned(self) -> Return:
        type = self.type()
        return Return(type, self.take("name", "") if self.tokens[self.next][0] == "name" else "")

    def type(self) -> Type:
        if self.accept("("):
            type = Type("tuple", self.types_until_close())
        else:
            name = self.take("name", "be a type")
            if name in _FORMS:
                self.expect("(")
                type = Type(name, self.types_until_close())
            elif not (name in _TYPES or name[0].islower() or name.startswith(_CLASSES)):
                raise self.fault(_known_type(name), self.next - 1)
            else:
                type = Type(name)
        type = self.aliased(type)
        while self.peek("?", "["):
            if self.accept("?"):
                type = Type("optional", (type,))
            else:
                self.expect("[")
                size = None if self.peek("]") else self.list_size()
                self.expect("]")
                type = Type("list", (type,), size)
            type = self.aliased(type)
        return type

    def types_until_close(self) -> tuple[Type, ...]:
        found: list[Type] = []
        while not self.peek(")"):
            if found:
                self.expect(",")
            found.append(self.type())
        self.expect(")")
        return tuple(found)

    def list_size(self) -> int:
        text = self.take("number", "be the size of a list")
        if not text.isdigit() or text == "0":
            raise self.fault("be the size of a list", self.next - 1)
        return int(text)

    def aliased(self, type: Type) -> Type:
        if not self.accept("("):
            return type
        start = self.next
        before = self.alias_set()
        is_write = self.accept("!")
        after = self.alias_set() if self.accept("->") else ()
        self.expect(")")
        if is_write and len(before) != 1:
            raise self.fault("write one alias set", start)
        return Type(type.name, type.parts, type.size, Alias(before, is_write, after))

    def alias_set(self) -> tuple[str, ...]:
        if self.accept("*"):
            return ("*",)
        found = [self.take("name", "be an alias set")]
        while self.accept("|"):
            found.append(self.take("name", "be an alias set"))
        return tuple(found)

    # -- defaults -------------------------------------------------------------------------------

    def value(self) -> Any:
        """Parse a default. Return a Python value for literals and lists, and a `Name` for an
        identifier."""
        if self.accept("["):
            items: list[Any] = []
            while not self.peek("]"):
                if items:
                    self.expect(",")
                items.append(self.value())
            self.expect("]")
            return tuple(items)
        kind, text, _ = self.tokens[self.next]
        if kind not in ("string", "number", "name"):
            raise self.fault("be a default")
        self.next += 1
        if kind == "name":
            return {"None": None, "True": True, "False": False}.get(text, Name(text))
        if kind == "string":
            return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1])
        try:
            return int(text)
        except ValueError:
            return complex(text) if text.endswith("j") else float(text)


def _known_type(name: str) -> str:
    """Return the rule that an unknown type breaks, for an error message. The rule names the most
    similar known type, or all known types if none is similar."""
    from difflib import get_close_matches

    known = sorted((*_TYPES, *_FORMS))
    lower = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), lower, 1)
    meant = f"such as {lower[near[0]]}" if near else f"one of {', '.join(known)}"
    return f"be a type, {meant}"


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
