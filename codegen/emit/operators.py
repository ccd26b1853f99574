"""Text of an overload's Operator object, and of the function that calls it without argument
parsing."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import default, Op, parameter
from ..text import indent, wrap
from . import gather


def operator(op: Op) -> list[str]:
    """Return the line that defines an operator. Its schema is a string, which is parsed on first
    use."""
    given = [tuple_of(op.tags)] if op.tags else []
    given += [f"numbers={tuple_of(op.kernel_numbers)}"] if op.kernel_numbers else []
    schema = repr_of(op.full_schema)
    return wrap(f"op_{op.identifier} = _define(", [schema, *given], ")")


def repr_of(text: str) -> str:
    return f'"{text}"' if '"' not in text else repr(text)


def tuple_of(texts: Sequence[str]) -> str:
    return f"({', '.join(map(repr_of, texts))},)"


def call(op: Op) -> list[str]:
    """Return the function by which native code calls an operator. All arguments are positional, and
    none is parsed or checked."""
    given = []
    # keyword-only arguments without defaults may follow arguments with defaults: `*, alpha=1, out`
    may_default = True
    for argument in reversed(op.arguments):
        name = parameter(argument.name)
        may_default = may_default and argument.has_default
        given.append(f"{name}={default(argument)}" if may_default else name)
    keys = gather.expression(op)
    body = gather.short_cut(op, ["alpha is _ONE"] * op.is_scaled)
    body += ["include, keep = _state.get()"]
    if not keys:
        body.append("key_set = include & keep")
    elif gather.is_conditional(keys):
        body += [f"key_set = {keys}", "key_set = (key_set | include) & keep"]
    else:
        body += gather.assigned(f"{keys} | include", "({}) & keep")
    head = wrap(f"def call_{op.identifier}(", given[::-1], "):")
    return [*head, *indent([*body, *gather.call(op, {})])]
