"""Turns the text of a `.cu` file into one C++ translation unit with every variant in it.

The text is left as it is where possible, line for line, so that messages point into it. Changed
are the words g++ does not know in that place: `extern "C"` goes (two variants may not share a C
name), a `__global__` function is announced to the shim, and `extern __shared__` becomes a pointer.
It is no parser: it looks for words, and takes a kernel for one with barriers when in doubt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gputensor.core import errors

BODY_MARK = re.compile(r"^[ \t]*//[ \t]*----[ \t]*body[ \t]*----[ \t]*$", re.MULTILINE)
COLLECTIVES = re.compile(
    r"__syncthreads\w*|__syncwarp|__shfl\w*_sync|__(?:ballot|any|all|match_any)_sync|__activemask"
)

_C_LINKAGE_BLOCK = re.compile(r'\bextern\s*"C"\s*\{')
_C_LINKAGE = re.compile(r'\bextern\s*"C"\s*')
_BOUNDS = r"__launch_bounds__\s*\((?P<{}>(?:[^()]|\([^()]*\))*)\)\s*"
_ENTRY = re.compile(
    r"\b(?:static\s+)?__global__\s+(?:"
    + _BOUNDS.format("before")
    + r")?void\s+(?:"
    + _BOUNDS.format("after")
    + r")?(?P<name>\w+)\s*\((?P<parameters>[^()]*)\)\s*\{"
)
_DYNAMIC_SHARED = re.compile(
    r"\bextern\s+__shared__\s+(?:__align__\s*\(\s*\w+\s*\)\s+|alignas\s*\(\s*\w+\s*\)\s+)?"
    r"(?P<type>[\w:][\w:\s<>]*?)\s*(?P<name>\w+|##\s*\w+)\s*\[\s*\]"
)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_LINE_MARK = re.compile(r'^[ \t]*#[ \t]*line[ \t]+(\d+)(?:[ \t]+"([^"]*)")?', re.MULTILINE)
_SYSTEM_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>]+)>[^\n]*$", re.MULTILINE)
_PRAGMA_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*$", re.MULTILINE)

# What the shim has words for already; NVRTC knows them without a header, or has no use for them.
COVERED_HEADERS = frozenset(
    "math.h cmath stdio.h cstdio assert.h cassert cuda_runtime.h device_launch_parameters.h "
    "cuda.h vector_types.h vector_functions.h math_constants.h".split()
)


def translation_unit(
    text: str, variants: Sequence[Mapping[str, object]], title: str = "kernel.cu"
) -> str:
    """C++ text in which variant `i` is the text after the body mark, in a namespace `v<i>`."""
    mark = BODY_MARK.search(text)
    once, body = (text[: mark.start()], text[mark.end() :]) if mark else ("", text)
    fibers = entries_with_collectives(text)
    system: list[str] = []
    once = _adapt(once, fibers, system)
    adapted = _adapt(body, fibers, system)
    file, line = _place(text[: mark.end()] if mark else "", title)
    begin = f'#line {line} "{file}"' + ("" if mark else "\n")
    undefine = "".join(f"#undef {name}\n" for name in sorted(set(_DEFINED.findall(body))))
    parts = [
        *(f"#include <{name}>\n" for name in dict.fromkeys(system)),
        '#include "cuda_on_cpu.h"\n',
    ]
    if once.strip():
        parts += [f'#line 1 "{title}"\n', once, "\n"]
    for number, defines in enumerate(variants):
        parts += [
            '#line 1 "variant"\n',
            f"#define GPUTENSOR_VARIANT {number}\n",
            f'#define GPUTENSOR_SHARED "gts{number}"\n',
            f"#define GPUTENSOR_SHARED_BEGIN __start_gts{number}\n",
            f"#define GPUTENSOR_SHARED_END __stop_gts{number}\n",
            *(
                f'extern "C" unsigned char {edge}_gts{number}[] '
                '__attribute__((weak, visibility("hidden")));\n'
                for edge in ("__start", "__stop")
            ),
            *(f"#define {name} {value}\n" for name, value in defines.items()),
            f"namespace {{ namespace v{number} {{\n",
            begin,
            adapted,
            '\n#line 1 "variant"\n}}\n',
            undefine,
            *(f"#undef {name}\n" for name in defines),
            "#undef GPUTENSOR_VARIANT\n#undef GPUTENSOR_SHARED\n"
            "#undef GPUTENSOR_SHARED_BEGIN\n#undef GPUTENSOR_SHARED_END\n",
        ]
    return "".join(parts)


def _adapt(text: str, fibers: set[str], system: list[str]) -> str:
    """The text in g++'s words, with as many lines as before; its headers are added to `system`."""

    def keep_lines(new: str, match: re.Match[str]) -> str:
        return new + "\n" * match.group().count("\n")

    def include(match: re.Match[str]) -> str:
        if match[1] not in COVERED_HEADERS:
            system.append(match[1])
        return ""

    def entry(match: re.Match[str]) -> str:
        name, parameters = match["name"], " ".join(match["parameters"].split())
        if not parameters or "," in parameters:
            raise errors.cannot_launch(
                name, "parameters", "be one struct by value", parameters or "none"
            )
        bound = match["before"] or match["after"] or "1024"
        new = (
            f"static void {name}({parameters}); "
            f"GPUTENSOR_ENTRY({name}, {int(name in fibers)}, {' '.join(bound.split())}) "
            f"static void {name}({parameters}) {{"
        )
        return keep_lines(new, match)

    text = _PRAGMA_ONCE.sub("", text)
    text = _SYSTEM_INCLUDE.sub(include, text)
    text = _C_LINKAGE_BLOCK.sub(lambda m: keep_lines("inline namespace c_linkage {", m), text)
    text = _C_LINKAGE.sub(lambda m: keep_lines("", m), text)
    text = _DYNAMIC_SHARED.sub(
        lambda m: keep_lines(
            f"{m['type']}* {m['name']} = ({m['type']}*)::gputensor::dynamic_shared", m
        ),
        text,
    )
    return _ENTRY.sub(entry, text)


def _place(before: str, title: str) -> tuple[str, int]:
    """File and line of the line after `before`, as the compiler would count them."""
    if not before:
        return title, 1
    marks = list(_LINE_MARK.finditer(before))
    if not marks:
        return title, before.count("\n") + 2
    file = next((m[2] for m in reversed(marks) if m[2] is not None), title)
    return file, int(marks[-1][1]) + before.count("\n", marks[-1].end())


# --- which kernels need fibers ------------------------------------------------------------------

_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)$", re.MULTILINE)
_OPENS_SCOPE = re.compile(r"(?:\bnamespace\b[\w:\s]*|\bextern\s*)\{$")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NAME = re.compile(r"([A-Za-z_]\w*)\s*\(|\b(?:struct|class|union)\s+(?:\w+\s*\([^)]*\)\s*)?(\w+)")
_NO_NAMES = frozenset("__launch_bounds__ __align__ alignas decltype noexcept __attribute__".split())


def entries_with_collectives(text: str) -> set[str]:
    """Names whose definition mentions a barrier, a shuffle or a vote, or a name that does."""
    text = _COMMENT_OR_STRING.sub(" ", text)
    if not COLLECTIVES.search(text):
        return set()
    mentions: dict[str, set[str]] = {}
    for macro in _MACRO.finditer(text):
        mentions.setdefault(macro[1], set()).update(_WORD.findall(macro[2]))
    for names, words in _definitions(_MACRO.sub("", text)):
        for name in names:
            mentions.setdefault(name, set()).update(words)
    found = {name for name, words in mentions.items() if any(map(COLLECTIVES.fullmatch, words))}
    # braces that only the preprocessor balances can hide a definition
    found.update(m["name"] for m in _ENTRY.finditer(text) if m["name"] not in mentions)
    grew = True
    while grew:
        more = {name for name, words in mentions.items() if name not in found and words & found}
        found |= more
        grew = bool(more)
    return found


def _definitions(text: str) -> list[tuple[set[str], set[str]]]:
    """Each brace block outside of functions and structs: the names before it, the words in it."""
    result = []
    depth, start, head_start = 0, 0, 0
    for brace in re.finditer(r"[{};]", text):
        at = brace.start()
        if brace[0] == "{":
            if depth == 0:
                if _OPENS_SCOPE.search(text[head_start : at + 1]):
                    head_start = at + 1
                    continue
                start = at
            depth += 1
        elif brace[0] == "}":
            if depth == 0:  # closes a namespace
                head_start = at + 1
                continue
            depth -= 1
            if depth == 0:
                head = text[head_start:start]
                names = {a or b for a, b in _NAME.findall(head)} - _NO_NAMES
                result.append((names, set(_WORD.findall(text[start:at]))))
                head_start = at + 1
        elif depth == 0:
            head_start = at + 1
    return result
