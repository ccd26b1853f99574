"""The parts of a schema. They are compared by content and print as in PyTorch."""

from __future__ import annotations

from typing import Any

# Identifiers allowed as defaults, by the type of the argument.
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


class Frozen:
    """An immutable value. Its text determines equality and hash."""

    # This class is not a dataclass, because importing dataclasses takes too long.
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
    """An operator's full name, such as `aten::add.Tensor`. The namespace and the overload may be
    empty."""

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
    """An alias annotation. `(a)` means that the value is an alias, `(a!)` that it is written to,
    and `(a -> *)` that it may alias any value after the call. Other forms are `(a! -> a|b)` and
    `(*)`.

    before, after: names of the alias sets before and after the call. after is empty if it equals
    before.
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
    """A type: a name, or a container of other types.

    name: the base type's name, or one of "list", "optional", "tuple", "Dict" or "Future". parts:
    the types inside a container. size: N of `int[N]`. alias: the annotation of this type, if any.
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
        """The name of the innermost type, such as `Tensor` for `Tensor?[]`."""
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
        """True if arguments of this type contribute dispatch keys."""
        return self.name == "Tensor" or any(part.has_tensor for part in self.parts)

    @property
    def aliases(self) -> tuple[Alias, ...]:
        """All alias annotations in the type, outermost first."""
        inner = tuple(alias for part in self.parts for alias in part.aliases)
        return inner if self.alias is None else (self.alias, *inner)


class Argument(Frozen):
    """One argument. default_text: the text of the default ("None" for `=None`), or None if there is
    no default.

    default: the parsed value, which is a `Name` for an identifier. default_value: the value passed
    to a kernel.
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
        """The default that is passed to a kernel. Names are resolved, and `int[2] x=1` becomes (1,
        1)."""
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
    """A parsed schema. `str` returns its text."""

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
        """Return this schema with another operator name."""
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
        """torchgen's SchemaKind: "functional", "inplace", "out" or "mutable"."""
        base = self.name.base
        if self.out_arguments:
            return "out"
        dunder = base.startswith("__") and base.endswith("__")
        if base.startswith("__i") if dunder else base.endswith("_"):
            return "inplace"
        return "mutable" if any(argument.is_write for argument in self.arguments) else "functional"

    @property
    def is_view(self) -> bool:
        """True if a return value aliases an argument that is not written to."""
        aliases = [x for a in self.arguments for x in a.type.aliases if x.is_write]
        written = {name for x in aliases for name in x.before}
        shared = {name for r in self.returns for x in r.type.aliases for name in x.before}
        return bool(shared - written)

    def check_kind(self) -> str | None:
        """Return the rule of native_functions.yaml that this schema breaks, or None. Source:
        torchgen/model.py."""
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


class Name(str):
    """A default that is an identifier: `contiguous_format`, `long`, `Mean`."""

    __slots__ = ()


def _resolve(type_name: str, name: str) -> Any:
    """Return the object that an identifier names. The modules are imported here, because the parser
    does not need them."""
    if type_name == "MemoryFormat":
        from .. import memory_format

        return getattr(memory_format, name)
    if type_name == "ScalarType":
        from .. import dtype

        found = dtype.bool_ if name == "bool" else dtype.ALIASES.get(name)
        return getattr(dtype, name) if found is None else found
    return {"Mean": 1, "Sum": 2}[name]  # at::Reduction


def fits(type: Type, value: Any) -> bool:
    """True if the parsed `value` can be a default of `type`."""
    if type.is_optional:
        return value is None or fits(type.parts[0], value)
    if type.is_list:
        if isinstance(value, tuple):
            return all(fits(type.parts[0], item) for item in value)
        # for example, int[2] x=1 means [1, 1]
        return type.size is not None and fits(type.parts[0], value)
    if isinstance(value, Name):
        return value in _ENUM_DEFAULTS.get(type.name, ())
    if isinstance(value, str):
        return type.name in ("str", "Device")
    if isinstance(value, bool):
        return type.name in ("bool", "Scalar")
    return value is not None and isinstance(value, _NUMBERS.get(type.name, ()))
