"""_generated/backend_select.py and inplace_or_view.py: kernels of two functionality keys."""

from __future__ import annotations

from .model import Model, Op
from .text import indent, module, wrap

BACKEND_SELECT_DOC = (
    """Kernels of BackendSelect: the `device` of a factory call becomes a backend key."""
)
INPLACE_DOC = """Kernels of ADInplaceOrView: the version of what an operator writes moves.

Composite implicit operators have none: what they are composed of has."""


def selected(model: Model) -> list[Op]:
    """Operators with a BackendSelect kernel."""
    return [op for op in model.ops if op.is_factory]


def versioned(model: Model) -> list[Op]:
    """Operators with an ADInplaceOrView kernel."""
    return [op for op in model.ops if not op.is_implicit and written(op)]


def written(op: Op) -> list[str]:
    return [argument.name for argument in op.arguments if argument.is_write]


def backend_select(model: Model) -> str:
    imports = """from ..dispatch.backend_select import key_set_for as _key_set_for
from . import operators as _ops"""
    parts = []
    for op in selected(model):
        head = wrap(f"def {op.identifier}(", ["key_set", *op.parameters], "):")
        body = ["key_set = _key_set_for(device)", *_redispatch(op)]
        parts.append("\n".join([*head, *indent(body)]))
    return module(BACKEND_SELECT_DOC, imports, *parts)


def inplace_or_view(model: Model) -> str:
    imports = """from ..dispatch.keys import below as _below
from ..tensor import bump_version as _bump_version
from . import operators as _ops

_BELOW = _below("ADInplaceOrView")"""
    parts = []
    for op in versioned(model):
        head = wrap(f"def {op.identifier}(", ["key_set", *op.parameters], "):")
        body = ["key_set &= _BELOW", *_redispatch(op, "result = ")]
        body += [f"_bump_version({name})" for name in written(op)]
        parts.append("\n".join([*head, *indent([*body, "return result"])]))
    return module(INPLACE_DOC, imports, *parts)


def _redispatch(op: Op, lead: str = "return ") -> list[str]:
    head = f"{lead}_ops.{op.identifier}.redispatch_table[key_set]("
    return wrap(head, ["key_set", *op.parameters], ")")
