"""_generated/backend_select.py and inplace_or_view.py: kernels of two functionality keys."""

from __future__ import annotations

from .model import Model, Op
from .text import indent, module, wrap

BACKEND_SELECT_DOC = "Kernels of BackendSelect: a factory's `device` becomes a backend key."
INPLACE_DOC = """Kernels of ADInplaceOrView: writes are counted, and views know their base.

Composite implicit operators have none: what they are composed of has."""

# Views that read their elements in another way, which as_strided cannot make again.
REPLAYED = ("_conj", "_neg_view", "view_as_real", "view_as_complex")


def selected(model: Model) -> list[Op]:
    """Operators with a BackendSelect kernel."""
    return [op for op in model.ops if op.is_factory]


def versioned(model: Model) -> list[Op]:
    """Operators with an ADInplaceOrView kernel."""
    return [op for op in model.ops if not op.is_implicit and (written(op) or is_view(op))]


def is_view(op: Op) -> bool:
    """True where the result is a view that derivatives go through; those of `detach` do not."""
    aliases = bool(op.schema.returns) and bool(op.schema.returns[0].type.aliases)
    return bool(op.derivatives) and op.kind == "functional" and aliases


def written(op: Op) -> list[str]:
    return [argument.name for argument in op.arguments if argument.is_write]


def backend_select(model: Model) -> str:
    imports = """from ..dispatch.backend_select import DENSE_KEYS as _DENSE_KEYS
from ..dispatch.backend_select import default_device as _default_device
from . import operators as _ops"""
    parts = []
    for op in selected(model):
        head = wrap(f"def {op.identifier}(", ["key_set", *op.parameters], "):")
        body = [
            "if device is None:",
            "    device = _default_device()",
            "key_set = _DENSE_KEYS[device.type]",
            *_redispatch(op),
        ]
        parts.append("\n".join([*head, *indent(body)]))
    return module(BACKEND_SELECT_DOC, imports, *parts)


def inplace_or_view(model: Model) -> str:
    imports = """from ..autograd.inplace_or_view import bump_version as _bump_version
from ..autograd.inplace_or_view import track_view as _track_view
from ..autograd.inplace_or_view import track_views as _track_views
from ..autograd.modes import unrecorded as _unrecorded
from ..dispatch.keys import below as _below
from ..dispatch.keys import functionality_bit as _functionality_bit
from . import calls as _calls
from . import operators as _ops

_BELOW = _below("ADInplaceOrView")
_TRACKED = _functionality_bit("ADInplaceOrView")"""
    parts = []
    for op in versioned(model):
        head = wrap(f"def {op.identifier}(", ["key_set", *op.parameters], "):")
        body = ["key_set &= _BELOW", *_redispatch(op, "result = ")]
        body += _tracked(op) if is_view(op) else _counted(op)
        parts.append("\n".join([*head, *indent(body if is_view(op) else [*body, "return result"])]))
    return module(INPLACE_DOC, imports, *parts)


def _counted(op: Op) -> list[str]:
    (name,) = written(op)
    return [
        f"storage = {name}._storage",
        f"if storage is not None and {name}._keys & _TRACKED:",
        "    storage.version += 1",
        "else:",
        f"    _bump_version({name})",
    ]


def _tracked(op: Op) -> list[str]:
    if op.schema.returns[0].type.required.is_list:
        return ["return _track_views(self, result)"]
    if op.name in REPLAYED:
        return [f"return _track_view(self, result, _calls.{op.identifier})"]
    return [
        "if self._autograd is None and not _unrecorded:",
        "    result._autograd = self",
        "    return result",
        "return _track_view(self, result)",
    ]


def _redispatch(op: Op, lead: str = "return ") -> list[str]:
    head = f"{lead}_ops.{op.identifier}.redispatch_table[key_set]("
    return wrap(head, ["key_set", *op.parameters], ")")
