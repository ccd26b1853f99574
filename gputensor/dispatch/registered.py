"""What is registered for one operator: its definition and its kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..core import errors, lazy
from .keys import AliasKey, DispatchKey

if TYPE_CHECKING:
    from ..core.schema import FunctionSchema
    from .boxing.calling import Signature

Key = DispatchKey | AliasKey
# A snapshot of an operator's kernels: for each key a tuple, newest kernel first.
Kernels = Mapping[Key, tuple["Kernel", ...]]


class Kernel:
    """A registered function, its calling convention, and the site of its registration.

    convention: "native" takes (key_set, *all arguments positionally). "user" takes the schema's own
    signature; "keyset" takes the key set before that. "handler" takes (operator, *args, **kwargs)
    without the arguments that equal their defaults; "keyset_handler" takes the key set before that.
    "boxed" takes (operator, key_set, stack). "maker" takes (table, key_set) when the slot is first
    used and returns a native kernel for that operator. "fallthrough" is never called.
    """

    __slots__ = ("function", "convention", "site")
    function: Callable[..., Any] | None
    convention: str
    site: str

    def __init__(self, function: Callable[..., Any] | None, convention: str, site: str) -> None:
        self.function, self.convention, self.site = function, convention, site

    @property
    def is_fallthrough(self) -> bool:
        return self.convention == "fallthrough"

    @property
    def source(self) -> str:
        """Return the place of the function, or of its maker, as `gputensor/native/copy.py: clone`.
        Return an empty text for a fallthrough."""
        function = self.function
        if function is None:
            return ""
        module = getattr(function, "__module__", None) or type(function).__module__
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return f"{module.replace('.', '/')}.py: {name.partition('.<locals>')[0]}"

    def __repr__(self) -> str:
        return f"Kernel({self.convention}, {self.site})"


class Definition:
    """A schema's text with its registration site and tags. `schema` and `signature` are made on
    first use."""

    __slots__ = ("text", "site", "tags", "alias_analysis", "numbers", "_schema", "_signature")
    text: str
    site: str
    tags: tuple[str, ...]
    alias_analysis: str

    def __init__(
        self, text: str, site: str, tags: tuple[str, ...], alias_analysis: str,
        numbers: tuple[str, ...] = (), parsed: FunctionSchema | None = None,
    ) -> None:  # fmt: skip
        self.text, self.site, self.tags, self.alias_analysis = text, site, tags, alias_analysis
        # Names of tensor arguments for which Python numbers may be passed, as in PyTorch's
        # allow_numbers_as_tensors.
        self.numbers: tuple[str, ...] = numbers
        self._schema = parsed
        self._signature: Signature | None = None

    @property
    def schema(self) -> FunctionSchema:
        """The parsed schema. It is parsed on first use, because importing gputensor defines
        hundreds of schemas."""
        if self._schema is None:
            from ..core import schema

            self._schema = schema.parse(self.text)
        return self._schema

    @property
    def signature(self) -> Signature:
        """The schema prepared for boxed calls (boxing/calling.py)."""
        if self._signature is None:
            from .boxing.calling import Signature

            self._signature = Signature(self.schema, self.numbers, self.tags)
        return self._signature


class Registered:
    """One overload of an operator, such as `aten::add.Tensor`: its name, definition and kernels."""

    __slots__ = ("name", "overload", "kernels", "definition", "__weakref__")
    name: str
    overload: str

    def __init__(self, name: str, overload: str) -> None:
        self.name, self.overload = name, overload
        self.kernels: Kernels = {}
        self.definition: Definition | None = None

    @property
    def qualified_name(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def namespace(self) -> str:
        return self.name.partition("::")[0]

    @property
    def short_name(self) -> str:
        """The operator's name in errors, without the namespace `aten`."""
        return self.name.removeprefix("aten::")

    @property
    def _opname(self) -> str:
        return self.name.partition("::")[2]

    @property
    def _overloadname(self) -> str:
        return self.overload or "default"

    @property
    def __name__(self) -> str:
        return f"{self._opname}.{self._overloadname}"

    @property
    def overloadpacket(self) -> Any:
        """All overloads of the operator: `gt.ops.aten.add` for `aten::add.Tensor`."""
        return lazy.loaded("ops", "_packet")(self.name)

    _overloadpacket = overloadpacket

    @property
    def is_defined(self) -> bool:
        return self.definition is not None

    @property
    def schema(self) -> FunctionSchema:
        """The parsed schema. Raises: DispatchError if the operator has kernels but no schema."""
        if self.definition is None:
            raise errors.schema_missing(self)
        return self.definition.schema

    _schema = schema

    @property
    def tags(self) -> tuple[str, ...]:
        return () if self.definition is None else self.definition.tags

    @property
    def def_site(self) -> str | None:
        return None if self.definition is None else self.definition.site

    def __repr__(self) -> str:
        return f"<Operator {self.qualified_name}>"

    def __str__(self) -> str:
        return f"{self.name.replace('::', '.')}.{self.overload or 'default'}"
