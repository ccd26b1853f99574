"""`torch.return_types`: the result type of each operator with several named results."""

from __future__ import annotations

from typing import Any

from ..core.returns import named
from ..dispatch import dispatcher


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for operator in dispatcher.overloads(f"aten::{name.removesuffix('_out')}"):
            fields = [x.name for x in operator.schema.returns] if operator.is_defined else []
            if len(fields) > 1 and all(fields):
                return named(name.removesuffix("_out"), " ".join(map(str, fields)))
    raise AttributeError(f"module 'torch.return_types' has no attribute {name!r}")
