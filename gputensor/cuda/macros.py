"""Expansion of macros that define kernels, such as `DEFINE_SCALE(scale_f32, float)`.

Only macros that define a `__global__` function are expanded, and only for reading declarations.
Each expansion is one line, so that the following words keep their line numbers. The compiler
expands all macros itself.
"""

from __future__ import annotations

import re

from ..runtime.emulator import source

_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)\((?P<parameters>[^()]*)\)(?P<body>(?:\\\n|[^\n])*)$",
    re.MULTILINE,
)


def expanded(text: str) -> str:
    """Return the text without comments, with each use of these macros expanded."""
    macros = {m["name"]: m for m in _DEFINE.finditer(text) if "__global__" in m["body"]}
    if not macros:
        return text
    text = _DEFINE.sub(lambda m: _blank(m[0]) if m["name"] in macros else m[0], text)
    names = "|".join(map(re.escape, macros))
    uses = re.compile(rf"\b(?P<name>{names})\s*\((?P<values>(?:[^()]|\([^()]*\))*)\)")
    return uses.sub(lambda m: _use(macros[m["name"]], m), text)


def _use(macro: re.Match[str], use: re.Match[str]) -> str:
    parameters = [p.strip() for p in macro["parameters"].split(",")]
    values = dict(zip(parameters, source.split_arguments(use["values"])))
    body = " ".join(macro["body"].replace("\\\n", " ").split())
    body = re.sub(r"\b\w+\b", lambda m: values.get(m[0], m[0]), body)
    return re.sub(r"\s*##\s*", "", body) + "\n" * use[0].count("\n")


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
