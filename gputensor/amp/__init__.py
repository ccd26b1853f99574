"""Automatic mixed precision: `autocast`, the functions that read and set it, and `GradScaler`.

autocast_mode.py is the block, casting.py what its kernels do, cast_policies.py which operator is
cast how; grad_scaler.py keeps float16 gradients from vanishing. See docs/autocast.md.
"""

from __future__ import annotations

from ..core import lazy
from .autocast_mode import autocast, is_autocast_available

_HOME = {
    "custom_fwd": "custom", "custom_bwd": "custom", "GradScaler": "grad_scaler",
    "policies": "cast_policies", "register_policy": "cast_policies",
}  # fmt: skip

__all__ = ["autocast", "is_autocast_available", *_HOME]

__getattr__, __dir__ = lazy.attributes(globals(), _HOME, __name__)
