"""The types of a kernel's parameters, read from its CUDA C declaration.

This is not a C++ parser: it replaces object-like macros, typedefs and template arguments word by
word. Pass `signature=` for declarations that it cannot read, such as a struct by value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..core import dtype as dtypes, errors
from ..runtime.emulator import source
from . import macros

POINTER, NUMBER, VECTOR, STRUCT, LAYOUT = "pointer", "number", "vector", "struct", "Layout"

# Maps a C type to (our dtype, format character of the module struct). _canonical maps synonyms to
# one name.
_NUMBERS = {
    "bool": (dtypes.bool_, "?"), "char": (dtypes.int8, "b"), "signed char": (dtypes.int8, "b"),
    "unsigned char": (dtypes.uint8, "B"), "short": (dtypes.int16, "h"),
    "unsigned short": (dtypes.uint16, "H"), "int": (dtypes.int32, "i"),
    "unsigned": (dtypes.uint32, "I"), "long": (dtypes.int64, "q"),
    "unsigned long": (dtypes.uint64, "Q"), "long long": (dtypes.int64, "q"),
    "unsigned long long": (dtypes.uint64, "Q"), "float": (dtypes.float32, "f"),
    "double": (dtypes.float64, "d"), "__half": (dtypes.float16, "e"),
    "__nv_bfloat16": (dtypes.bfloat16, "H"),
}  # fmt: skip
_SYNONYMS = {
    "half": "__half", "nv_bfloat16": "__nv_bfloat16", "__half2": "half2", "size_t": "unsigned long",
    "__nv_bfloat162": "nv_bfloat162", "ptrdiff_t": "long", "intptr_t": "long",
    "uintptr_t": "unsigned long", "uint": "unsigned", "uchar": "unsigned char",
    "int8_t": "signed char", "uint8_t": "unsigned char", "int16_t": "short",
    "uint16_t": "unsigned short", "int32_t": "int", "uint32_t": "unsigned", "int64_t": "long",
    "uint64_t": "unsigned long",
}  # fmt: skip
_VECTOR_BASES = {
    "char": "signed char", "uchar": "unsigned char", "short": "short", "ushort": "unsigned short",
    "int": "int", "uint": "unsigned", "long": "long", "ulong": "unsigned long",
    "longlong": "long long", "ulonglong": "unsigned long long", "float": "float",
    "double": "double",
}  # fmt: skip
_VECTOR = re.compile(r"(u?(?:char|short|int|long|longlong)|float|double)([1234])")
_HALF_PAIRS = {"half2": "__half", "nv_bfloat162": "__nv_bfloat16"}
_INTEGER_WORDS = frozenset("signed unsigned char short int long".split())
_QUALIFIERS = re.compile(
    r"\b(?:__restrict__|__restrict|__grid_constant__|volatile|struct|typename|register)\b"
)
_LAYOUT_NAMES = ("Layout", "gputensor::Layout")


class Element:
    """A number or vector type: the type of a parameter, or of the elements of a pointer parameter.

    dtype: the dtype of one component; None if it is unknown (void, a struct). lanes: the number of
    components.
    """

    __slots__ = ("alignment", "dtype", "format", "lanes", "name", "size")
    dtype: Any
    format: str
    lanes: int
    name: str

    def __init__(self, name: str, element: Any, code: str, lanes: int, alignment: int) -> None:
        self.name, self.dtype, self.format, self.lanes = name, element, code, lanes
        self.alignment: int = alignment
        self.size = element.itemsize * lanes if element is not None else 1


class Parameter:
    """One parameter of a kernel.

    kind: POINTER, NUMBER, VECTOR, STRUCT or LAYOUT. element: see Element; None for structs.
    is_const: True for a pointer to read-only memory. of: for a Layout, the index of its pointer
    parameter. offset, size: position and number of its bytes; 0 if the size of a struct is unknown.
    """

    __slots__ = ("alignment", "element", "is_const", "kind", "name", "of", "offset", "size", "text")
    alignment: int
    kind: str
    name: str
    offset: int
    size: int
    text: str

    def __init__(self, name: str, kind: str, text: str) -> None:
        self.name, self.kind, self.text = name, kind, text
        self.element: Element | None = None
        self.is_const: bool = False
        self.of: int = -1
        self.offset = self.size = self.alignment = 0

    def __repr__(self) -> str:
        return f"{self.text} {self.name}"


class Declaration:
    """Declaration of a kernel.

    entry: the name passed to the compiler, such as `scale<float>`."""

    __slots__ = ("bound", "entry", "has_c_name", "line", "name", "parameters", "taken", "written")
    entry: str
    has_c_name: bool
    line: int
    name: str

    def __init__(
        self, entry: str, name: str, has_c_name: bool, line: int, parameters: Sequence[Parameter]
    ) -> None:
        self.entry, self.name, self.has_c_name, self.line = entry, name, has_c_name, line
        self.parameters: tuple[Parameter, ...] = tuple(parameters)
        # arguments that the caller passes; the launch computes the Layouts itself
        self.taken: tuple[Parameter, ...] = tuple(p for p in parameters if p.kind != LAYOUT)
        # indices of the pointers that have a Layout, and of the pointers that are not const
        self.bound: frozenset[int] = frozenset(p.of for p in parameters if p.kind == LAYOUT)
        written = [p.kind == POINTER and not p.is_const for p in parameters]
        self.written: frozenset[int] = frozenset(
            n for n, is_written in enumerate(written) if is_written
        )

    def __repr__(self) -> str:
        return f"{self.entry}({', '.join(map(repr, self.parameters))})"


LAYOUT_DIMS = 8
LAYOUT_SIZE = 8 + 8 * LAYOUT_DIMS + 8 * LAYOUT_DIMS  # see include/layout.cuh


def kernels_of(text: str) -> list[tuple[str, int]]:
    """Return the name and the line of each kernel in a text."""
    bare = macros.expanded(source.without_comments(text))
    return [(m["name"], _line(bare, m.start("head"))) for m in source.ENTRY.finditer(bare)]


def read(
    text: str, entry: str, defines: Mapping[str, object], signature: str | None = None
) -> Declaration:
    """Return the declaration of `entry`. Raises: KernelError that lists the kernels of the text.

    signature: a parameter list to use instead of the text's, such as `const float*, float*, int`.
    """
    bare = macros.expanded(source.without_comments(text))
    base, _, given = entry.partition("<")
    name = base.rpartition("::")[2].strip()
    match = next((m for m in source.ENTRY.finditer(bare) if m["name"] == name), None)
    if match is None:
        _check_readable(bare, entry, name)
        known = ", ".join(found for found, _ in kernels_of(text)) or "none"
        rule = f"be a __global__ function of the text ({known})"
        raise errors.cannot_launch(entry, "entry", rule, entry)
    words = _names_in(bare, defines)
    if match["template"]:
        words |= _template_arguments(match["arguments"], given.rstrip().removesuffix(">"), entry)
    has_layout = re.search(r'#[ \t]*include[ \t]*[<"]gputensor/layout\.cuh[>"]', bare) is not None
    sizes = _Structs(bare, words)
    parameters = []
    list_text = match["parameters"] if signature is None else signature
    parts = source.split_arguments(" ".join(list_text.split()))
    parts = [p for p in parts if p not in ("", "void")]
    for number, part in enumerate(parts):
        parameters.append(_parameter(part, number, words, has_layout, sizes, entry))
    _bind_layouts(parameters, entry)
    _place(parameters)
    before = bare[max(0, match.start() - 40) : match.start()]
    has_c_name = bool(re.search(r'extern\s*"C"\s*$', before)) or _in_c_block(bare, match.start())
    has_c_name = has_c_name and not match["template"]
    return Declaration(entry, name, has_c_name, _line(bare, match.start()), parameters)


def _check_readable(text: str, entry: str, name: str) -> None:
    """Raise if the text contains the kernel's name but no readable declaration of it."""
    found = re.search(rf"\b__global__\b[^;{{}}]*\b{re.escape(name)}\s*\([^{{}}]*\{{", text)
    if found is not None:
        rule = f"be declared in words that can be read, __global__ void {name}(…)"
        raise errors.cannot_launch(entry, "entry", rule, " ".join(found[0].split()).rstrip("{ "))


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _in_c_block(text: str, position: int) -> bool:
    """True if a position is inside `extern "C" { … }`."""
    for match in re.finditer(r'extern\s*"C"\s*\{', text[:position]):
        inside = text[match.end() : position]
        if inside.count("{") >= inside.count("}"):
            return True
    return False


# --- words --------------------------------------------------------------------------------------


def _names_in(text: str, defines: Mapping[str, object]) -> dict[str, str]:
    """Return a dict of word replacements: simple macros, typedefs, and the given defines."""
    words = {
        m[1]: m[2].strip()
        for m in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n(][^\n]*)$", text, re.M)
    }
    for m in re.finditer(r"\btypedef\s+([\w\s:]+?)\s+(\w+)\s*;", text):
        words[m[2]] = m[1]
    for m in re.finditer(r"\busing\s+(\w+)\s*=\s*([\w\s:]+?)\s*;", text):
        words[m[1]] = m[2]
    return words | {name: str(value) for name, value in defines.items()}


def _template_arguments(declared: str, given: str, entry: str) -> dict[str, str]:
    names = source.template_names(declared)
    values = source.split_arguments(given)
    values += source.template_defaults(declared)[len(values) :]
    if len(values) != len(names) or not all(values):
        rule = f"say its template arguments: {entry.partition('<')[0]}<{declared.strip()}>"
        raise errors.cannot_launch(entry, "entry", rule, entry)
    return dict(zip(names, values))


def _resolved(text: str, words: Mapping[str, str]) -> str:
    for _ in range(8):
        new = re.sub(r"[A-Za-z_]\w*", lambda m: words.get(m[0], m[0]), text)
        if new == text:
            break
        text = new
    return text


def _canonical(name: str) -> str:
    """Return the canonical name of a C type: `unsigned` for `unsigned int` and `uint32_t`."""
    name = " ".join(name.replace("std::", "").split())
    name = _SYNONYMS.get(name, name)
    parts = name.split()
    if not parts or not set(parts) <= _INTEGER_WORDS:
        return name
    if "char" in parts:
        return next((f"{w} char" for w in ("unsigned", "signed") if w in parts), "char")
    size = " ".join(w for w in parts if w in ("long", "short"))
    if "unsigned" in parts:
        return f"unsigned {size}".strip()
    return size or "int"


def element_of(name: str) -> Element | None:
    """Return the Element of the C type `name`. Return None for types that are not built in."""
    name = _canonical(name)
    if name in _NUMBERS:
        element, code = _NUMBERS[name]
        return Element(name, element, code, 1, element.itemsize)
    pair = _HALF_PAIRS.get(name)
    if pair is not None:
        element, code = _NUMBERS[pair]
        return Element(name, element, code, 2, 4)
    if name == "dim3":
        return Element(name, dtypes.uint32, "I", 3, 4)
    vector = _VECTOR.fullmatch(name)
    if vector is None:
        return None
    element, code = _NUMBERS[_VECTOR_BASES[vector[1]]]
    lanes = int(vector[2])
    alignment = element.itemsize if lanes in (1, 3) else min(16, element.itemsize * lanes)
    return Element(name, element, code, lanes, alignment)


# --- parameters ---------------------------------------------------------------------------------


def _parameter(
    part: str, number: int, words: Mapping[str, str], has_layout: bool, structs: _Structs,
    entry: str,
) -> Parameter:  # fmt: skip
    text = _QUALIFIERS.sub(" ", part)
    text = re.sub(r"__align__\s*\(\s*\w+\s*\)", " ", text)
    named = re.search(r"([A-Za-z_]\w*)\s*((?:\[[^\]]*\]\s*)*)$", text)
    head, name = text, f"argument {number}"
    if named is not None:
        before = text[: named.start()].strip()
        if (
            before
            and before not in ("const", "unsigned", "signed", "long", "long long", "short")
            or (before and element_of(_resolved(f"{before} {named[1]}", words)) is None)
        ):
            head, name = before, named[1]
        if named[2]:
            head += "*"
    if "&" in head or "(" in head:
        raise errors.cannot_launch(entry, name, "be a pointer or a value", part)
    # a `const` may also come from a macro or a typedef
    head = _QUALIFIERS.sub(" ", _resolved(head, words))
    stars = head.count("*")
    base = re.sub(r"\bconst\b", " ", head.partition("*")[0]).strip()
    result = Parameter(name, STRUCT, " ".join(part.split()))
    result.text = " ".join(head.split())
    if stars:
        result.kind, result.size, result.alignment = POINTER, 8, 8
        result.is_const = "const" in head.partition("*")[0].split()
        found = element_of(base) if stars == 1 else Element("a pointer", dtypes.uint64, "Q", 1, 8)
        result.element = found or Element(base, None, "", 1, structs.of(base)[1] or 1)
        return result
    found = element_of(base)
    if found is not None:
        result.kind = NUMBER if found.lanes == 1 else VECTOR
        result.element, result.size, result.alignment = found, found.size, found.alignment
    elif has_layout and base in _LAYOUT_NAMES:
        result.kind, result.size, result.alignment = LAYOUT, LAYOUT_SIZE, 8
    else:
        result.size, result.alignment = structs.of(base)
    return result


def _bind_layouts(parameters: list[Parameter], entry: str) -> None:
    """Assign the pointer `x` to the Layout `x_layout`. If no pointer has that name, assign the last
    pointer before the Layout."""
    free = []
    for number, parameter in enumerate(parameters):
        if parameter.kind == POINTER:
            free.append(number)
        elif parameter.kind == LAYOUT:
            named = [n for n in free if parameter.name == f"{parameters[n].name}_layout"]
            if not free:
                rule = "come after the pointer whose layout it is"
                raise errors.cannot_launch(entry, parameter.name, rule, repr(parameter))
            parameter.of = named[0] if named else free[-1]
            free.remove(parameter.of)


def _place(parameters: list[Parameter]) -> None:
    offset = 0
    for parameter in parameters:
        alignment = parameter.alignment or 1
        offset = -(-offset // alignment) * alignment
        parameter.offset = offset
        offset += parameter.size


class _Structs:
    """Size and alignment of the plain structs that a text defines."""

    def __init__(self, text: str, words: Mapping[str, str]) -> None:
        self.text, self.words = text, words

    def of(self, name: str) -> tuple[int, int]:
        """Return (size, alignment); zeros if they cannot be read from the text."""
        match = re.search(
            r"\bstruct\s+(?:__align__\s*\((\d+)\)\s*|alignas\s*\((\d+)\)\s*)?"
            rf"{re.escape(name)}\s*\{{([^{{}}]*)\}}",
            self.text,
        )
        if match is None:
            return 0, 0
        size, most = 0, int(match[1] or match[2] or 1)
        for field in match[3].split(";"):
            field = " ".join(_resolved(_QUALIFIERS.sub(" ", field), self.words).split())
            if not field:
                continue
            if "(" in field:
                return 0, 0
            kind = re.match(
                r"(?:const\s+)?((?:unsigned |signed |long |short "
                r")*\w+)\s+(?=[\w*])|(?:const\s+)?(\w+)\s*(?=\*)",
                field,
            )
            if kind is None:
                return 0, 0
            for item in field[kind.end() :].split(","):
                element = element_of(kind[1] or kind[2])
                if "*" in item:
                    inner = (8, 8)
                elif element:
                    inner = (element.size, element.alignment)
                else:
                    inner = self.of(kind[1] or kind[2])
                if not inner[0]:
                    return 0, 0
                count = 1
                for n in re.findall(r"\[\s*(\w*)\s*\]", item):
                    if not n.isdigit():
                        return 0, 0
                    count *= int(n)
                size = -(-size // inner[1]) * inner[1] + inner[0] * count
                most = max(most, inner[1])
        return -(-size // most) * most, most
