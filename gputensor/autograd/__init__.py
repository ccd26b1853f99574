"""Automatic differentiation: `gt.autograd.grad`, `backward`, `Function`, `gradcheck` and the modes.

node.py defines recorded operations, saved.py their saved values, and history.py the history of a
tensor. variable.py has the tensor's attributes and recording, and inplace_or_view.py updates
histories for views and in-place operators. formulas/ has the functions that derivatives of
native_functions.yaml call. engine/ has the public functions, walks the graph (run.py), and handles
hooks and other attachments (node.py). `registrations/_generated/` has the nodes of operators, and
makers/autograd.py makes the recording kernels.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..core import lazy
from ..tensor import differentiable as _differentiable
from . import variable
from .modes import (
    enable_grad as enable_grad, inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled, is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad, set_grad_enabled as set_grad_enabled,
)  # fmt: skip

_differentiable.autograd, _differentiable.variable = sys.modules[__name__], variable

if TYPE_CHECKING:
    from . import graph as graph
    from ..func import forward_ad as forward_ad, functional as functional
    from .anomaly import (
        detect_anomaly as detect_anomaly, is_anomaly_enabled as is_anomaly_enabled,
        set_detect_anomaly as set_detect_anomaly,
    )  # fmt: skip
    from .engine import backward as backward, grad as grad
    from .function import Function as Function, once_differentiable as once_differentiable
    from .gradcheck import gradcheck as gradcheck, gradgradcheck as gradgradcheck
    from .node import Node as Node
else:
    __all__ = [
        "enable_grad", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
        "set_grad_enabled",
    ]  # fmt: skip
    __getattr__, __dir__ = lazy.attributes(globals())
