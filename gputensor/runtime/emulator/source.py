"""Conversion of the text of a `.cu` file to one C++ translation unit that contains every variant.

The text keeps its lines where possible, so that messages have the right line numbers. Only words
that g++ does not accept are changed: `extern "C"` is removed (two variants cannot share a C name),
a `__global__` function is declared to the shim, and `extern __shared__` becomes a pointer. There is
no parser, only searches for words. If a search cannot tell whether a kernel has barriers, the
kernel is treated as if it had barriers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from gputensor.core import errors

BODY_MARK = re.compile(r"^[ \t]*//[ \t]*----[ \t]*body[ \t]*----[ \t]*$", re.MULTILINE)
COLLECTIVES = re.compile(
    r"__syncthreads\w*|__syncwarp|__barrier_sync|__shfl\w*_sync|__reduce_\w+_sync|"
    r"__(?:ballot|any|all|match_any|match_all)_sync|__activemask"
)

_C_LINKAGE_BLOCK = re.compile(r'\bextern\s*"C"\s*\{')
_C_LINKAGE = re.compile(r'\bextern\s*"C"\s*')
_INSIDE = r"(?:[^()]|\([^()]*\))*"
_BOUNDS = re.compile(rf"__launch_bounds__\s*\(({_INSIDE})\)")
_CLUSTER = re.compile(rf"__cluster_dims__\s*\({_INSIDE}\)|__cluster_dims__\b")
_ATTRIBUTE = rf"(?:__(?:launch_bounds|maxnreg|cluster_dims|block_size)__\s*\({_INSIDE}\)\s*)"
# Patterns: the text before a kernel's name, and the name with its parameters.
_HEAD = (
    rf"(?P<head>\b(?:{_ATTRIBUTE}|(?:static|inline)\s+)*\b__global__\s+"
    rf"(?:{_ATTRIBUTE}|(?:static|inline)\s+)*void\s+{_ATTRIBUTE}*)(?P<name>\w+(?:\s*##\s*\w+)*)\s*"
)
_PARAMETERS = rf"\((?P<parameters>{_INSIDE})\)\s*"
ENTRY = re.compile(
    rf"(?P<template>\btemplate\s*<(?P<arguments>[^;{{}}()]*)>\s*)?{_HEAD}{_PARAMETERS}\{{"
)
# Pattern of a kernel's forward declaration, or of a template's explicit instantiation.
_DECLARED = re.compile(
    rf"(?P<template>\btemplate\b\s*(?P<list><[^;{{}}()]*>\s*)?)?{_HEAD}"
    rf"(?P<values><[^;{{}}()]*>\s*)?{_PARAMETERS};"
)
_GLOBAL = re.compile(r"\b__global__\b([^;{]*)([;{])")
_ALIGNED = r"(?:__align__\s*\(\s*\w+\s*\)\s+|alignas\s*\(\s*\w+\s*\)\s+)?"
_DYNAMIC_SHARED = re.compile(
    rf"\b(?:volatile\s+)?extern\s+(?:volatile\s+)?{_ALIGNED}__shared__\s+{_ALIGNED}"
    r"(?P<type>[\w:][\w:\s<>,]*?)\s*(?P<name>\w+|##\s*\w+)\s*\[\s*\]"
)
_STATIC_SHARED = re.compile(
    r"\bstatic\s+(?=__shared__)|"
    r"(?P<kept>\b__shared__\s+(?:(?:__align__\s*\([^()]*\)|volatile|const)\s+)*)static\b"
)
_SYMBOL = re.compile(
    r"\b(?:__constant__|__device__)\s(?P<type>(?:[^;{}()=]|__align__\s*\(\s*\w+\s*\))*?)"
    r"\b(?P<name>[A-Za-z_]\w*)\s*(?:\[[^\];{}]*\]\s*)*(?=[=;])"
)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_LINE_MARK = re.compile(r'^[ \t]*#[ \t]*line[ \t]+(\d+)(?:[ \t]+"([^"]*)")?', re.MULTILINE)
_SYSTEM_INCLUDE = re.compile(r'(?m)^[ \t]*#[ \t]*include[ \t]*(?:<([^>]+)>|"([^"]+)")[^\n]*$')
_PRAGMA_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*$", re.MULTILINE)

# Headers that the shim replaces. NVRTC has them built in, or does not need them.
COVERED_HEADERS = frozenset(
    "math.h cmath stdio.h cstdio assert.h cassert cuda_runtime.h device_launch_parameters.h "
    "cuda.h vector_types.h vector_functions.h math_constants.h cuda_runtime_api.h "
    "sm_20_intrinsics.h device_functions.h device_atomic_functions.h".split()
)
# Headers of the C library that a kernel may include. They are replaced by our own versions, for
# NVRTC too.
C_HEADERS = frozenset(
    "stdint.h cstdint stddef.h cstddef stdlib.h cstdlib float.h cfloat limits.h climits".split()
)
STANDARD = "gputensor/standard.h"
# Our own versions of headers, which are included after the shim.
OUR_HEADERS = frozenset(
    "cuda_fp16.h cuda_bf16.h cooperative_groups.h cooperative_groups/reduce.h "
    "cooperative_groups/scan.h gputensor/layout.cuh gputensor/standard.h".split()
)
KNOWN_HEADERS = COVERED_HEADERS | C_HEADERS | OUR_HEADERS


def translation_unit(
    text: str, variants: Sequence[Mapping[str, object]], title: str = "kernel.cu",
    entries: Sequence[str] | None = None,
) -> str:  # fmt: skip
    """Return the C++ text. The text after the body mark is repeated for each variant `i`, in a
    namespace `v<i>`.

    entries: for a user's text, the requested kernels and template instances. Such a text is
    compiled as for compute capability 8.0.
    """
    adapt, once, adapted = _adapted(text, title, entries is not None)
    instances = "".join(adapt.instance(number, name) for number, name in enumerate(entries or ()))
    undefine = "".join(f"#undef {name}\n" for name in sorted(set(_DEFINED.findall(adapted))))
    parts = [*adapt.includes(ours=False)]
    if entries is not None:
        parts.append("#define GPUTENSOR_USERS 1\n")
    parts.append('#include "cuda_on_cpu.h"\n')
    # This header takes a tenth of g++'s time for a family's kernel, so it is included only if
    # needed.
    if entries is not None or adapt.headers or "atomic" in text:
        parts.append('#include "atomics.h"\n')
    if entries is not None:
        parts.append('#include "users_functions.h"\n')
    parts += adapt.includes(ours=True)
    if entries is not None:
        parts.append('#include "not_covered.h"\n')
    if once.strip():
        parts += [f'#line 1 "{title}"\n', once, "\n"]
    for number, defines in enumerate(variants):
        defines = defines if entries is None else {**USERS_DEFINES, **defines}
        parts += [
            f'#line 1 "variant"\n#define GPUTENSOR_VARIANT {number}\n',
            f'#define GPUTENSOR_SHARED "gts{number}"\n',
            f"#define GPUTENSOR_SHARED_BEGIN __start_gts{number}\n",
            f"#define GPUTENSOR_SHARED_END __stop_gts{number}\n",
            *(
                f'extern "C" unsigned char {edge}_gts{number}[] '
                '__attribute__((weak, visibility("hidden")));\n'
                for edge in ("__start", "__stop")
            ),
            *(f"#define {name} {value}\n" for name, value in defines.items()),
            f"namespace {{ namespace v{number} {{\n{adapted}\n",
            f'#line 1 "variant"\n{instances}}}}}\n{undefine}',
            *(f"#undef {name}\n" for name in defines),
            "#undef GPUTENSOR_VARIANT\n#undef GPUTENSOR_SHARED\n"
            "#undef GPUTENSOR_SHARED_BEGIN\n#undef GPUTENSOR_SHARED_END\n",
        ]
    return "".join(parts)


@lru_cache(maxsize=16)
def _adapted(text: str, title: str, is_users: bool) -> tuple[_Adapter, str, str]:
    """Return the adapter, and the adapted text before and after the body mark. The result is
    cached, because a family's text is compiled for many variants."""
    mark = None if is_users else BODY_MARK.search(text)
    before, body = (text[: mark.start()], text[mark.end() :]) if mark else ("", text)
    adapt = _Adapter(entries_with_collectives(text), title, is_users)
    once = adapt(before)
    file, line = _place(text[: mark.end()] if mark else "", title)
    adapted = adapt(body, line, file)
    return adapt, once, f'#line {line} "{file}"' + ("" if mark else "\n") + adapted


# Macros that are predefined as in NVRTC, so that host code is excluded.
USERS_DEFINES = {"__CUDA_ARCH__": 800, "__CUDACC__": 1, "__CUDACC_RTC__": 1}


class _Adapter:
    """An adapter of sources for g++. It keeps the number of lines, and collects the included
    headers."""

    def __init__(self, fibers: set[str], title: str, is_users: bool) -> None:
        self.fibers, self.title, self.is_users = fibers, title, is_users
        self.file, self.first_line, self.text = title, 1, ""
        self.headers: list[tuple[str, str, int]] = []
        self.templates: dict[str, re.Match[str]] = {}

    def __call__(self, text: str, first_line: int = 1, file: str = "") -> str:
        self.first_line, self.file = first_line, file or self.title
        self.text = text = without_comments(text)
        text = _PRAGMA_ONCE.sub("", text)
        text = _SYSTEM_INCLUDE.sub(self._include, text)
        # Search only for words that the text contains, because the searches are slow and most
        # headers contain none of the words.
        if "extern" in text:
            text = _C_LINKAGE_BLOCK.sub(lambda m: _keep("inline namespace c_linkage {", m), text)
            text = _C_LINKAGE.sub(lambda m: _keep("", m), text)
        if "__shared__" in text:
            pointer = r"\g<type>* \g<name> = (\g<type>*)::gputensor::dynamic_shared"
            text = _DYNAMIC_SHARED.sub(lambda m: _keep(m.expand(pointer), m), text)
            text = _STATIC_SHARED.sub(lambda m: m["kept"] or "", text)
        if self.is_users:
            self._check_all_readable(text)
            text = _with_symbols(text)
        text = _replaced(_DECLARED, self._declared, text)
        return _replaced(ENTRY, self._entry, text)

    def includes(self, ours: bool) -> Iterator[str]:
        for name, file, line in dict.fromkeys(self.headers):
            if (name in OUR_HEADERS) == ours:
                yield f'#line {line} "{file}"\n#include <{name}>\n'

    def instance(self, number: int, entry: str) -> str:
        """Return a text that names an instance of a template, such as `scale<float, 4>`, so that
        the instance is compiled and can be found."""
        base, bracket, given = entry.partition("<")
        template = self.templates.get(base.rpartition("::")[2].strip())
        if template is None:
            return ""
        if not bracket:
            rule = f"say what its template arguments are: {base}<{template['arguments'].strip()}>"
            raise errors.cannot_launch(base, "entry", rule, entry)
        values = split_arguments(given.rstrip().removesuffix(">"))
        values += template_defaults(template["arguments"])[len(values) :]
        bound = _bound(template)
        for name, value in zip(template_names(template["arguments"]), values):
            bound = re.sub(rf"\b{name}\b", f"({value})", bound)
        bound = split_arguments(bound)[0]
        fibers = int(template["name"] in self.fibers)
        return f'GPUTENSOR_INSTANCE({number}, "{entry}", {fibers}, {bound}, {entry})\n'

    def _include(self, match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name in COVERED_HEADERS:
            return ""
        if self.is_users and name in C_HEADERS:
            name = STANDARD
        if match[2] and name not in OUR_HEADERS:
            return match[0]
        self.headers.append((name, *self._at(self.text, match.start())))
        return ""

    def _entry(self, match: re.Match[str]) -> str:
        name, parameters = match["name"], " ".join(match["parameters"].split())
        if match["template"]:
            self.templates[name] = match
            static = f"{match['template']} {_cluster(match)} static void"
            return _keep(f"{static} {name}({parameters}) {{", match)
        if not self.is_users and (not parameters or "," in parameters):
            rule = "be one struct by value"
            raise errors.cannot_launch(name, "parameters", rule, parameters or "none")
        return _keep(
            f"{_cluster(match)}static void {name}({parameters}); "
            f"GPUTENSOR_ENTRY({name}, {int(name in self.fibers)}, {_bound(match)}) "
            f"static void {name}({parameters}) {{",
            match,
        )

    def _declared(self, match: re.Match[str]) -> str:
        template, parameters = match["template"] or "", " ".join(match["parameters"].split())
        static = "" if template and not match["list"] else "static "
        name = f"{match['name']}{match['values'] or ''}"
        return _keep(f"{template}{static}void {name}({parameters});", match)

    def _check_all_readable(self, text: str) -> None:
        read = [m.span() for m in ENTRY.finditer(text)]
        for match in _GLOBAL.finditer(text):
            at = match.start()
            if match[2] == ";" or any(begin <= at < end for begin, end in read):
                continue
            if text[text.rfind("\n", 0, at) + 1 : at].lstrip().startswith("#"):
                continue
            file, line = self._at(text, at)
            declaration = " ".join(match[1].split())
            why = f"the emulator cannot read this declaration of a kernel: {declaration}"
            raise errors.kernel_not_compiled(self.title, {}, f"{file}:{line}: {why}")

    def _at(self, text: str, position: int) -> tuple[str, int]:
        """Return the file and line of a position, as the compiler counts them."""
        before = text[:position]
        file, line = _place(before, self.file)
        if _LINE_MARK.search(before):
            return file, line - 1
        return self.file, self.first_line + before.count("\n")


def _bound(entry: re.Match[str]) -> str:
    """Return the arguments of `__launch_bounds__`. Without them, return the maximum number of
    threads."""
    given = _BOUNDS.search(entry["head"])
    return " ".join(given[1].split()) if given else "1024"


def _cluster(entry: re.Match[str]) -> str:
    """Return the kernel's `__cluster_dims__` attribute, such as `__cluster_dims__(2)`, or "". The
    attribute is unchanged, so that g++ rejects it."""
    given = _CLUSTER.search(entry["head"])
    return f"{given[0]} " if given else ""


def kernels(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern that contains `__global__`, as `pattern.finditer(text)` does.
    The pattern is slow, so each search begins at a statement that contains `__global__`."""
    at = 0
    while (word := text.find("__global__", at)) >= 0:
        begin = max(at, *(text.rfind(end, at, word) + 1 for end in ";{}"))
        match = pattern.search(text, begin)
        if match is None:
            return
        yield match
        at = match.end()


def _replaced(pattern: re.Pattern[str], new: Callable[[re.Match[str]], str], text: str) -> str:
    """Replace the matches of a pattern that contains `__global__`, as `pattern.sub(new, text)`
    does."""
    parts, at = [], 0
    for match in kernels(pattern, text):
        parts += [text[at : match.start()], new(match)]
        at = match.end()
    return "".join(parts) + text[at:]


def _keep(new: str, match: re.Match[str]) -> str:
    """Append line breaks to `new`, so that it has as many line breaks as the replaced text."""
    return new + "\n" * (match.group().count("\n") - new.count("\n"))


def _with_symbols(text: str) -> str:
    """Return the text with a statement after each device variable, which registers the variable
    with the runtime. Each variable also gets `__constinit`, so that g++ rejects a variable that
    needs code for its initial value. A GPU cannot run that code, and the emulator would run it at
    load."""
    parts, at = [], 0
    for number, match in enumerate(_SYMBOL.finditer(text)):
        end, depth = match.end(), 0
        while end < len(text) and (depth or text[end] != ";"):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if "extern" in text[match.start() - 20 : match.start()].split() or end >= len(text):
            continue
        name = match["name"]
        parts += [
            text[at : match.start()],
            "__constinit ",
            text[match.start() : end + 1],
            f' static ::gputensor::registered_symbol gputensor_symbol_{number}("{name}", '
            f"(const void*)&{name}, sizeof {name});",
        ]
        at = end + 1
    return "".join(parts) + text[at:]


_COMMENTS = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)


def without_comments(text: str) -> str:
    """Return the text with blanks in place of comments. Every word keeps its line and column."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return re.sub(r"[^\n]", " ", found) if found.startswith("/") else found

    return _COMMENTS.sub(blank, text)


def split_arguments(text: str) -> list[str]:
    """Split a list at its commas, except for commas inside brackets."""
    parts, depth, begin = [], 0, 0
    for at, c in enumerate(text):
        depth += (c in "(<[{") - (c in ")>]}")
        if c == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    last = text[begin:].strip()
    return [*parts, last] if last or parts else []


def template_defaults(arguments: str) -> list[str]:
    """Return the default values of template parameters: "" and "4" for `typename T, int N = 4`."""
    return [part.partition("=")[2].strip() for part in split_arguments(arguments)]


def template_names(arguments: str) -> list[str]:
    """Return the names of template parameters: "T" and "N" for `typename T, int N = 4`."""
    return [re.findall(r"\w+", part.partition("=")[0])[-1] for part in split_arguments(arguments)]


def _place(before: str, title: str) -> tuple[str, int]:
    """Return the file and number of the line after `before`, as the compiler counts them."""
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
    """Return the names of functions that contain a barrier, a shuffle, a vote or another collective
    operation, or that call such a function."""
    text = _COMMENT_OR_STRING.sub(" ", text)
    # Methods of cooperative groups may synchronise, and their names are too common to search for.
    # So every kernel of such a text counts as collective.
    if "cooperative_groups" in text:
        return {m["name"] for m in kernels(ENTRY, text)}
    if not COLLECTIVES.search(text):
        return set()
    known = mentions(text)
    found = {name for name, words in known.items() if any(map(COLLECTIVES.fullmatch, words))}
    # A brace in a preprocessor branch can hide a definition. A hidden kernel counts as collective.
    found.update(m["name"] for m in kernels(ENTRY, text) if m["name"] not in known)
    grew = True
    while grew:
        more = {name for name, words in known.items() if name not in found and words & found}
        found |= more
        grew = bool(more)
    return found


def mentions(text: str) -> dict[str, set[str]]:
    """Return, for each function, type and macro, the words in its definition."""
    text = _COMMENT_OR_STRING.sub(" ", text)
    found: dict[str, set[str]] = {}
    for macro in _MACRO.finditer(text):
        found.setdefault(macro[1], set()).update(_WORD.findall(macro[2]))
    for names, words in _definitions(_MACRO.sub("", text)):
        for name in names:
            found.setdefault(name, set()).update(words)
    return found


def _definitions(text: str) -> list[tuple[set[str], set[str]]]:
    """Return, for each brace block outside of functions and structs, the names before the block and
    the words in it."""
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
            if depth == 0:  # The brace closes a namespace.
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
