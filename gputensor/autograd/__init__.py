"""Automatic differentiation: `gt.autograd.grad`, `backward`, `Function`, `gradcheck` and the modes.

node.py is what a recorded operation is, saved.py what it keeps, history.py what a tensor knows of
where it comes from, variable.py what its attributes do and how it is recorded,
inplace_or_view.py what views and in-place operators do to it, formulas/ what the derivatives of
native_functions.yaml call; engine.py walks the graph. The node of each operator is in
`_generated/kernels/`, the recording kernels in makers/autograd.py.
"""

from __future__ import annotations

import sys
from typing import Any

from ..core import lazy
from ..tensor import differentiable as _differentiable
from . import variable
from .modes import (
    enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad,
    set_grad_enabled,
)  # fmt: skip

_HOME = {
    "grad": "engine", "backward": "engine", "Function": "function",
    "once_differentiable": "function",
    "gradcheck": "gradcheck", "gradgradcheck": "gradcheck", "detect_anomaly": "anomaly",
    "set_detect_anomaly": "anomaly", "is_anomaly_enabled": "anomaly", "Node": "node",
}  # fmt: skip

__all__ = [
    "enable_grad", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
    "set_grad_enabled", "graph", *_HOME,
]  # fmt: skip

_differentiable.autograd, _differentiable.variable = sys.modules[__name__], variable

_attribute, _names = lazy.attributes(globals(), _HOME, __name__)


def __getattr__(name: str) -> Any:
    """A name of `_HOME`, or the module `graph`."""
    if name == "graph":
        from importlib import import_module

        return import_module(f"{__name__}.graph")
    return _attribute(name)


def __dir__() -> list[str]:
    return sorted({*_names(), "graph"})
