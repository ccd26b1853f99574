"""The one parser of operator schemas: PyTorch's grammar to values, and back to the same text.

It knows no operator and no Tensor, and imports only the standard library and the error messages
beside it, so that codegen can load it by path while the package is broken. `parse` reads whatever
PyTorch's own registry prints; `FunctionSchema.check_kind` adds the rules for our YAML.

Source: torch/csrc/jit/frontend/function_schema_parser.cpp, torchgen/model.py.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from . import errors

# Source: c10::utils::bitset, aten/src/ATen/core/dispatch/DispatchKeyExtractor.h.
MAX_ARGUMENTS = 64


@functools.cache
def _token() -> re.Pattern[str]:
    # Compiled when first needed: every import would pay half a millisecond for it.
    return re.compile(
        r"""\s*(?: (?P<string>"(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*')
              | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?j?)
              | (?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
              | (?P<symbol>->|::|\.\.\.|[()\[\],*?!|=]) )""",
        re.VERBOSE,
    )


# What an identifier may stand for as a default, by the type it is given to.
_ENUM_DEFAULTS = {
    "int": ("Mean", "Sum"),
    "ScalarType": (
        "bool", "int", "long", "half", "float", "double", "uint8", "int8", "uint16", "int16",
        "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32", "float64",
        "complex64", "complex128",
    ),
    "MemoryFormat": ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"),
}  # fmt: skip
_NUMBERS: dict[str, tuple[type, ...]] = {
    "int": (int,), "SymInt": (int,), "float": (int, float), "complex": (int, float, complex),
    "number": (int, float, complex), "Scalar": (bool, int, float, complex), "ScalarType": (int,),
    "MemoryFormat": (int,), "Layout": (int,), "DeviceIndex": (int,), "QScheme": (int,),
}  # fmt: skip


# Types without parts; those with parts are _FORMS. What begins with a small letter beside these is
# a variable, as in `f(t x) -> t`. Source: torch/csrc/jit/frontend/schema_type_parser.cpp.
_TYPES = frozenset((
    "Tensor", "int", "SymInt", "float", "complex", "bool", "SymBool", "number", "Scalar", "str",
    "Device", "DeviceIndex", "Stream", "ScalarType", "Layout", "MemoryFormat", "Storage",
    "Generator", "Dimname", "QScheme", "Quantizer", "ConstQuantizerPtr", "Capsule", "None",
    "NoneType", "Any", "AnyClassType", "AnyEnumType",
))  # fmt: skip
_FORMS = ("Dict", "Future", "RRef", "Await", "Union")
_CLASSES = "__torch__."


class Frozen:
    """A value: its slots are set once by `__init__`, compared by content, hashed by its text."""

    # Why not a frozen dataclass: dataclasses cost import time that the package does not have.
    __slots__: tuple[str, ...] = ()

    def _set(self, *values: Any) -> None:
        for name, value in zip(self.__slots__, values):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is read-only")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), tuple(getattr(self, name) for name in self.__slots__))


class OperatorName(Frozen):
    """`aten::add.Tensor`: namespace may be empty, overload too."""

    __slots__ = ("namespace", "base", "overload")
    namespace: str
    base: str
    overload: str

    def __init__(self, namespace: str, base: str, overload: str) -> None:
        self._set(namespace, base, overload)

    def __str__(self) -> str:
        head = f"{self.namespace}::{self.base}" if self.namespace else self.base
        return f"{head}.{self.overload}" if self.overload else head


class Alias(Frozen):
    """`(a)` aliases, `(a!)` is written, `(a -> *)` ends up anywhere, `(a! -> a|b)`, `(*)`.

    before, after: names of the sets on entry and exit. after is empty where it equals before.
    """

    __slots__ = ("before", "is_write", "after")
    before: tuple[str, ...]
    is_write: bool
    after: tuple[str, ...]

    def __init__(self, before: tuple[str, ...], is_write: bool, after: tuple[str, ...]) -> None:
        self._set(before, is_write, after)

    def __str__(self) -> str:
        tail = f" -> {'|'.join(self.after)}" if self.after else ""
        return f"({'|'.join(self.before)}{'!' if self.is_write else ''}{tail})"


class Type(Frozen):
    """A type: a name, or a form over other types.

    name: the base type's name, or one of "list", "optional", "tuple", "Dict", "Future" and their
    like. parts: the types inside a form. size: N of `int[N]`. alias: where it was written here.
    """

    __slots__ = ("name", "parts", "size", "alias")
    name: str
    parts: tuple[Type, ...]
    size: int | None
    alias: Alias | None

    def __init__(
        self, name: str, parts: tuple[Type, ...] = (), size: int | None = None,
        alias: Alias | None = None,
    ) -> None:  # fmt: skip
        self._set(name, parts, size, alias)

    def __str__(self) -> str:
        inner = [str(part) for part in self.parts]
        if self.name == "list":
            text = f"{inner[0]}[{'' if self.size is None else self.size}]"
        elif self.name == "optional":
            text = f"{inner[0]}?"
        elif self.name == "tuple":
            text = f"({', '.join(inner)})"
        else:
            text = f"{self.name}({', '.join(inner)})" if inner else self.name
        return f"{text}{self.alias or ''}"

    @property
    def base(self) -> str:
        """The innermost name: `Tensor` of `Tensor?[]`."""
        return self.parts[0].base if self.is_optional or self.is_list else self.name

    @property
    def is_optional(self) -> bool:
        return self.name == "optional"

    @property
    def is_list(self) -> bool:
        return self.name == "list"

    @property
    def required(self) -> Type:
        """The type without an outer `?`."""
        return self.parts[0] if self.is_optional else self

    @property
    def has_tensor(self) -> bool:
        """True if arguments of this type bring dispatch keys."""
        return self.name == "Tensor" or any(part.has_tensor for part in self.parts)

    @property
    def aliases(self) -> tuple[Alias, ...]:
        """Every annotation in the type, outermost first."""
        inner = tuple(alias for part in self.parts for alias in part.aliases)
        return inner if self.alias is None else (self.alias, *inner)


class Argument(Frozen):
    """One argument. default_text is None where there is no default, so that `=None` is a default.

    default: as parsed, a bare identifier as a `Name`; `default_value` is what a kernel gets.
    """

    __slots__ = ("type", "name", "default_text", "default", "is_keyword_only")
    type: Type
    name: str
    default_text: str | None
    default: Any
    is_keyword_only: bool

    def __init__(
        self, type: Type, name: str, default_text: str | None = None, default: Any = None,
        is_keyword_only: bool = False,
    ) -> None:  # fmt: skip
        self._set(type, name, default_text, default, is_keyword_only)

    def __str__(self) -> str:
        tail = "" if self.default_text is None else f"={self.default_text}"
        return f"{self.type} {self.name}{tail}"

    @property
    def has_default(self) -> bool:
        return self.default_text is not None

    @property
    def default_value(self) -> Any:
        """The default as a kernel gets it: names resolved, `int[2] x=1` spread to (1, 1)."""
        if isinstance(self.default, Name):
            return _resolve(self.type.required.name, self.default)
        form = self.type.required
        if form.size is None or self.default is None or isinstance(self.default, tuple):
            return self.default
        return (self.default,) * form.size

    @property
    def is_write(self) -> bool:
        return any(alias.is_write for alias in self.type.aliases)


class Return(Frozen):
    """One return value; most have no name."""

    __slots__ = ("type", "name")
    type: Type
    name: str

    def __init__(self, type: Type, name: str = "") -> None:
        self._set(type, name)

    def __str__(self) -> str:
        return f"{self.type} {self.name}" if self.name else str(self.type)

    @property
    def is_write(self) -> bool:
        return any(alias.is_write for alias in self.type.aliases)


class FunctionSchema(Frozen):
    """A parsed schema; `str` gives the text back."""

    __slots__ = ("name", "arguments", "returns", "is_vararg", "is_varret", "has_one_tuple")
    name: OperatorName
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]
    is_vararg: bool
    is_varret: bool
    has_one_tuple: bool

    def __init__(
        self, name: OperatorName, arguments: tuple[Argument, ...], returns: tuple[Return, ...],
        is_vararg: bool = False, is_varret: bool = False, has_one_tuple: bool = False,
    ) -> None:  # fmt: skip
        self._set(name, arguments, returns, is_vararg, is_varret, has_one_tuple)

    def __str__(self) -> str:
        shown = [str(argument) for argument in self.arguments if not argument.is_keyword_only]
        named = [str(argument) for argument in self.arguments if argument.is_keyword_only]
        if self.is_vararg:
            shown.append("...")
        if named:
            shown += ["*", *named]
        returned = ", ".join([str(value) for value in self.returns] + ["..."] * self.is_varret)
        if self.is_varret or (len(self.returns) == 1 and not self.has_one_tuple):
            return f"{self.name}({', '.join(shown)}) -> {returned}"
        return f"{self.name}({', '.join(shown)}) -> ({returned})"

    def named(self, name: OperatorName) -> FunctionSchema:
        """The same schema of an operator of another name."""
        rest = self.is_vararg, self.is_varret, self.has_one_tuple
        return FunctionSchema(name, self.arguments, self.returns, *rest)

    @property
    def positional(self) -> tuple[Argument, ...]:
        return tuple(argument for argument in self.arguments if not argument.is_keyword_only)

    @property
    def keyword_only(self) -> tuple[Argument, ...]:
        return tuple(argument for argument in self.arguments if argument.is_keyword_only)

    @property
    def out_arguments(self) -> tuple[Argument, ...]:
        return tuple(argument for argument in self.keyword_only if argument.is_write)

    @property
    def kind(self) -> str:
        """ "functional", "inplace", "out" or "mutable" (torchgen's SchemaKind)."""
        base = self.name.base
        if self.out_arguments:
            return "out"
        dunder = base.startswith("__") and base.endswith("__")
        if base.startswith("__i") if dunder else base.endswith("_"):
            return "inplace"
        return "mutable" if any(argument.is_write for argument in self.arguments) else "functional"

    @property
    def is_view(self) -> bool:
        """True if a return value aliases an argument that is not written."""
        aliases = [x for a in self.arguments for x in a.type.aliases if x.is_write]
        written = {name for x in aliases for name in x.before}
        shared = {name for r in self.returns for x in r.type.aliases for name in x.before}
        return bool(shared - written)

    def check_kind(self) -> str | None:
        """What breaks the rules for operators of our YAML, or None. Source: torchgen/model.py."""
        kind, outs = self.kind, self.out_arguments
        writes = [value.is_write for value in self.returns]
        if any(writes) and not all(writes):
            return "must return all of its written arguments or none"
        if kind == "out":
            returned = [str(value.type) for value in self.returns]
            if returned not in ([], [str(argument.type) for argument in outs]):
                return "must return its out arguments in their order"
        if kind == "inplace":
            first = self.arguments[0] if self.arguments else None
            if first is None or first.name != "self" or not first.is_write:
                return "must be in-place on 'Tensor(a!) self', as its name ends in '_'"
            if [str(value.type) for value in self.returns] not in ([], [str(first.type)]):
                return "must return 'self'"
        return None


def parse(text: str) -> FunctionSchema:
    """The schema that `text` spells.

    Raises: SchemaError naming the column and the text; among others for two arguments of one
    name and for a default that its type cannot take, which PyTorch lets through.
    """
    return _Reader(text).schema()


def parse_type(text: str) -> Type:
    """The type that `text` spells, as `Tensor?[]`."""
    return _Reader(text).type()


class _Reader:
    """Tokens of one text and a position in them."""

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
        if self.peek("?", "[", "("):  # a form over a tuple: `(int, Tensor)[]`
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
        """A default's value: Python's for literals and lists, `Name` for a bare identifier."""
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
    """The rule that a misspelt type breaks, with the type that is nearest."""
    from difflib import get_close_matches

    known = sorted((*_TYPES, *_FORMS))
    lower = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), lower, 1)
    meant = f"such as {lower[near[0]]}" if near else f"one of {', '.join(known)}"
    return f"be a type, {meant}"


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}


class Name(str):
    """A default that is an identifier: `contiguous_format`, `long`, `Mean`."""

    __slots__ = ()


def _resolve(type_name: str, name: str) -> Any:
    """The object that an identifier stands for. Imports here: parsing itself needs none of them."""
    if type_name == "MemoryFormat":
        from . import memory_format

        return getattr(memory_format, name)
    if type_name == "ScalarType":
        from . import dtype

        found = dtype.bool_ if name == "bool" else dtype.ALIASES.get(name)
        return getattr(dtype, name) if found is None else found
    return {"Mean": 1, "Sum": 2}[name]  # at::Reduction


def fits(type: Type, value: Any) -> bool:
    """True if `value`, as `parse` reads it, can be a default of `type`."""
    if type.is_optional:
        return value is None or fits(type.parts[0], value)
    if type.is_list:
        if isinstance(value, tuple):
            return all(fits(type.parts[0], item) for item in value)
        return type.size is not None and fits(type.parts[0], value)  # int[2] x=1 means [1, 1]
    if isinstance(value, Name):
        return value in _ENUM_DEFAULTS.get(type.name, ())
    if isinstance(value, str):
        return type.name in ("str", "Device")
    if isinstance(value, bool):
        return type.name in ("bool", "Scalar")
    return value is not None and isinstance(value, _NUMBERS.get(type.name, ()))
