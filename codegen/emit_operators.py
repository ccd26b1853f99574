"""_generated/operators.py and _generated/calls.py: the Operator objects, and calls without
parsing."""

from __future__ import annotations

from collections.abc import Sequence

from . import gather
from .emit_functions import default
from .model import Model, Op, parameter
from .text import WIDTH, indent, module, wrap

OPERATORS_DOC = """The Operator object of every overload, in the order of native_functions.yaml.

Schemas are text here and are parsed when somebody asks."""

CALLS_DOC = """Calls for native code: all arguments positional, nothing parsed or checked."""


def operators(model: Model) -> str:
    lines = []
    for op in model.ops:
        given = [repr_of(op.full_schema)]
        given += [tuple_of(op.tags)] if op.tags else []
        numbers = op.kernel_numbers
        given += [f"numbers={tuple_of(numbers)}"] if numbers else []
        line = f"{op.identifier} = _define({', '.join(given)})"
        if len(line) > WIDTH:
            line = "\n".join([f"{op.identifier} = _define(", *[f"    {x}," for x in given], ")"])
        lines.append(line)
    return module(
        OPERATORS_DOC, "from ..dispatch.dispatcher import define as _define\n\n" + "\n".join(lines)
    )


def repr_of(text: str) -> str:
    return f'"{text}"'


def tuple_of(texts: Sequence[str]) -> str:
    return f"({', '.join(map(repr_of, texts))},)"


def calls(model: Model) -> str:
    imports = """from ..core.arguments import NUMBERS
from ..core.arguments import keys_of_list as _keys_of_list
from ..core.memory_format import contiguous_format as _contiguous_format
from ..dispatch.tls import state as _state
from . import operators as _ops"""
    return module(CALLS_DOC, imports, *("\n".join(_call(op)) for op in model.ops))


def _call(op: Op) -> list[str]:
    given = []
    may_default = (
        True  # keyword-only arguments without a default follow defaults: `*, alpha=1, out`
    )
    for argument in reversed(op.arguments):
        name = parameter(argument.name)
        may_default = may_default and argument.has_default
        given.append(f"{name}={default(argument)}" if may_default else name)
    keys = gather.expression(op)
    body = ["include, keep = _state.get()"]
    if not keys:
        body.append("key_set = include & keep")
    elif gather.is_conditional(keys):
        body += [f"key_set = {keys}", "key_set = (key_set | include) & keep"]
    else:
        body += gather.assigned(f"{keys} | include", "({}) & keep")
    head = wrap(f"def {op.identifier}(", given[::-1], "):")
    return [*head, *indent([*body, *gather.call(op, {})])]
