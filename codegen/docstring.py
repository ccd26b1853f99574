"""Docstrings of public functions, written from the YAML: what, arguments, gradient, where it lies."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from . import paths
from .merge import Merge
from .model import DTYPES, NUMBER_FAMILIES, Op, parameter
from .text import WIDTH

# How a schema's type reads; [] of a type reads as its plural.
_WORDS = {
    "Tensor": "Tensor", "int": "int", "SymInt": "int", "float": "float", "bool": "bool",
    "str": "str", "Scalar": "number", "ScalarType": "dtype", "Layout": "layout", "Device": "device",
    "MemoryFormat": "memory format", "Generator": "generator", "Storage": "storage",
}  # fmt: skip


def lines(ops: Sequence[Op], *, is_method: bool, merge: Merge | None, has_out: bool) -> list[str]:
    """The docstring's lines. A method that has a function points there."""
    first = ops[0]
    summary, _, more = first.doc.partition("\n")
    if is_method and "function" in first.variants:
        short = f'"""{summary} See gt.{first.base}."""'
        return [short] if len(short) <= WIDTH - 8 else _wrapped(f'"""{summary}', [f"See gt.{first.base}."])
    tail = ["Args:", *_arguments(ops, has_out)] if _arguments(ops, has_out) else []
    tail += [f"Returns: {_returns(first)}."] if _returns(first) else []
    tail += _gradient(ops)
    tail += _places(ops, first)
    tail += ["", *more.strip().split("\n")] if more.strip() else []
    return _wrapped(f'"""{summary}', tail)


def _wrapped(summary: str, tail: list[str]) -> list[str]:
    head = textwrap.wrap(summary, WIDTH - 8)
    return [*head, "", *tail, '"""']


def _arguments(ops: Sequence[Op], has_out: bool) -> list[str]:
    """`name: type, default`, once for each name among the overloads."""
    seen: dict[str, list[Any]] = {}
    for op in ops:
        for argument in op.arguments:
            seen.setdefault(argument.name, []).append((op, argument))
    found = []
    for name, uses in seen.items():
        op, argument = uses[0]
        words = list(dict.fromkeys(_type(use) for _, use in uses))
        text = " or ".join(words)
        if argument.type.base == "Tensor":
            text = _operand(op, argument)
        missing = len(uses) < len(ops)
        if argument.has_default and argument.default is not None and argument.default != ():
            text += f", default {argument.default}"
        elif missing or argument.default is None and argument.has_default or argument.type.is_optional:
            text += ", may be left out" if missing or argument.has_default else ", may be None"
        found.append(f"    {parameter(name)}: {text}.")
    if any(op.has_options for op in ops) and ops[0].base != "to":
        found.append("    requires_grad: bool, default False.")
    if has_out:
        found.append("    out: Tensor that takes the result, may be left out.")
    return found


def _operand(op: Op, argument: Any) -> str:
    if argument.type.required.is_list:
        return "Tensors"
    if op.family in NUMBER_FAMILIES and argument.name == "condition":
        return "(*), bool"
    text = "(*)"
    if argument.name in op.numbers:
        text = "(*) or number, broadcast with the others"
    elif argument.name == "self" and op.dtypes:
        text += f", {DTYPES[op.dtypes]}"
    return text


def _type(argument: Any) -> str:
    form = argument.type.required
    word = _WORDS[form.base]
    if form.is_list:
        return f"{word} or {word}s" if form.size == 1 else f"{word}s"
    return word


def _returns(op: Op) -> str:
    returned = [str(value.type) for value in op.schema.returns]
    if op.kind == "inplace":
        return "self"
    if returned == ["Scalar"]:
        return "a Python number"
    if returned == ["Tensor(a)[]"]:
        return "a list of views"
    return "a view of self" if returned == ["Tensor(a)"] and op.family == "view" else ""


def _gradient(ops: Sequence[Op]) -> list[str]:
    """Of the overload that has most arguments: it says the most."""
    with_gradient = [op for op in ops if op.derivatives]
    if not with_gradient:
        return []
    op = max(with_gradient, key=lambda op: len(op.arguments))
    if list(op.derivatives) == ["self"]:
        return [f"Gradient: {op.derivatives['self']}"]
    return ["Gradient:", *(f"    {name}: {text}" for name, text in op.derivatives.items())]


def _places(ops: Sequence[Op], first: Op) -> list[str]:
    family = first.family
    if any(op.needed_loops for op in ops):
        cpu = paths.shown(paths.cpu_kernels(family)).removeprefix("gputensor/")
        cuda = paths.shown(paths.cuda_kernels(family)).removeprefix("gputensor/")
        where = f"Kernels: {cpu}, {cuda}."
    else:
        where = f"Native: {paths.shown(paths.native(family)).removeprefix('gputensor/')}."
    on = "torch" if "function" in first.variants else "torch.Tensor"
    return [f"{where} Matches {on}.{first.base}."]
