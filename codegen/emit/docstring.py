"""Docstrings of public functions, made from the YAML: summary, arguments, gradient, files."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from .. import paths
from ..model import DTYPES, OPTIONS, Op, parameter
from ..text import ROOM, WIDTH

# The maximum width of a summary. It is indented by 4 columns, and becomes longer if `input`
# replaces `self`.
SUMMARY = WIDTH - 6
# The words for the types of a schema. A list `[]` uses the plural.
_WORDS = {
    "Tensor": "Tensor", "int": "int", "SymInt": "int", "float": "float", "bool": "bool",
    "str": "str", "Scalar": "number", "ScalarType": "dtype", "Layout": "layout", "Device": "device",
    "MemoryFormat": "memory format", "Generator": "generator", "Storage": "storage",
}  # fmt: skip


def lines(ops: Sequence[Op], parameters: Sequence[str], *, is_method: bool) -> list[str]:
    """Return the docstring's lines. The docstring of a method only refers to the function of the
    same name, if there is one. The docstring of an in-place form refers in the same way to the
    function of the functional form.

    ops: the overloads of one name; the `doc` of the first one is used. parameters: as in the
    signature, with defaults.
    """
    first = ops[0]
    summary, _, more = first.doc.partition("\n")
    named = (first.source or first).public_name
    is_second = is_method or first.kind == "inplace" and first.source is not None
    if is_second and "function" in (first.source or first).variants and first.is_public:
        return textwrap.wrap(f'"""{summary} See gt.{named}."""', SUMMARY)
    tail = ["Args:", *_arguments(ops, parameters)]
    tail += [f"Returns: {_returns(first)}."] if _returns(first) else []
    tail += _gradient(ops)
    tail += _places(ops, first)
    tail += ["", *more.strip().split("\n")] if more.strip() else []
    return _wrapped(f'"""{summary}', tail)


def of_nn(op: Op, name: str, parameters: Sequence[str]) -> list[str]:
    """Return the docstring's lines of a function of gt.nn.functional."""
    summary, _, more = op.doc.partition("\n")
    tail = [*_arguments([op], parameters), f"Matches torch.nn.functional.{name}."]
    tail += ["", *more.strip().split("\n")] if more.strip() else []
    return _wrapped(f'"""{"In place: " * name.endswith("_")}{summary}', ["Args:", *tail])


def _wrapped(summary: str, tail: list[str]) -> list[str]:
    head = textwrap.wrap(summary, SUMMARY)
    tail = [part for line in tail for part in _broken(line)]
    if tail[-1].endswith('"'):
        return [*head, "", *tail, '"""']
    return [*head, "", *tail[:-1], f'{tail[-1]}"""']


def _broken(line: str) -> list[str]:
    """Return the line, wrapped so that closing quotes fit after the last part."""
    if len(line) <= WIDTH - 7 or line.startswith(">>>"):
        return [line]
    margin = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(line, WIDTH - 7, subsequent_indent=f"{margin}    ", break_on_hyphens=False)


def _arguments(ops: Sequence[Op], parameters: Sequence[str]) -> list[str]:
    """Return lines `name: type, default`. Adjacent parameters with the same text share a line.
    `out` and NumPy's names are omitted, because docs/operators.md explains them for all
    operators."""
    found: list[tuple[str, list[str]]] = []
    takes_args = "*args" in parameters
    options = {*OPTIONS, "requires_grad"} if all(op.has_options for op in ops) else set()
    for written in parameters:
        name, _, default = written.partition("=")
        uses = [(op, a) for op in ops for a in op.arguments if parameter(a.name) == name]
        if name in options and default in ("None", "False"):
            text, default = "of the new tensor", "None"
        elif name == "requires_grad":
            text = "bool"
        elif not uses or name == "out":
            continue
        elif name == "reduction" and default.startswith("'"):
            text = '"none", "mean" or "sum"'
        elif uses[0][1].type.base == "Tensor" and len(uses) == len(ops):
            text = _operand(*uses[0])
        else:
            text = " or ".join(dict.fromkeys(_type(argument) for _, argument in uses))
        if takes_args and text == "ints":
            text, default = "ints, or one sequence of them", ""
        if default in ("None", "..."):
            text += ", optional"
        elif default and default != "()":
            text += f", default {default.removeprefix('_')}"
        if not found or found[-1][0] != text:
            found.append((text, []))
        found[-1][1].append(name)
    return [f"    {', '.join(names)}: {text}." for text, names in found]


def _operand(op: Op, argument: Any) -> str:
    if argument.type.required.is_list:
        return "Tensors"
    if argument.name == "condition":
        return "(*), bool"
    text = "(*)"
    if argument.name in op.numbers:
        text = "(*) or number, broadcast with the others"
    elif argument.name == "self" and op.dtypes:
        text += f", {DTYPES[op.dtypes].text}"
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
    if op.named_results:
        return f"{', '.join(op.named_results.split())}, by place or by name"
    if returned == ["Scalar"]:
        return "a Python number"
    if returned == ["Tensor(a)[]"]:
        return "a list of views"
    return "a view of self" if returned == ["Tensor(a)"] and not op.is_implicit else ""


def _gradient(ops: Sequence[Op]) -> list[str]:
    """Return the docstring's lines about the gradient. They describe the differentiable overload
    with the most arguments."""
    with_gradient = [op for op in ops if op.derivatives]
    if not with_gradient:
        return []
    op = max(with_gradient, key=lambda op: len(op.arguments))
    if list(op.derivatives) == ["self"]:
        return [f"Gradient: {op.derivatives['self']}"]
    names: dict[str, list[str]] = {}
    for name, text in op.derivatives.items():
        names.setdefault(text, []).append(name)
    if len(names) < len(op.derivatives) and not op.has_joint_formula:
        names = {f"{name}: {text}": [] for name, text in op.derivatives.items()}
    lines = [f"{', '.join(of)}: {text}" if of else text for text, of in names.items()]
    short = f"Gradient: {'; '.join(lines)}"
    return [short] if len(short) <= ROOM else ["Gradient:", *[f"    {line}" for line in lines]]


def _places(ops: Sequence[Op], first: Op) -> list[str]:
    family = first.family
    if any(op.needed_loops for op in ops):
        cpu = paths.shown(paths.cpu_kernels(family)).removeprefix("gputensor/")
        cuda = paths.shown(paths.cuda_kernels(family)).removeprefix("gputensor/")
        where = f"Kernels: {cpu}, {cuda}."
    else:
        where = f"Native: {paths.shown(paths.native(family)).removeprefix('gputensor/')}."
    on = "torch" if "function" in first.variants else "torch.Tensor"
    return [f"{where} Matches {on}.{first.public_name}."]
