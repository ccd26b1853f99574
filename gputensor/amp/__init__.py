"""Automatic mixed precision: `autocast`, the functions that read and set it, and `GradScaler`.

autocast_mode.py defines the context manager, casting.py the casts of its kernels, and
cast_policies.py the operators' policies. grad_scaler.py prevents the underflow of float16
gradients. See docs/usage/autocast.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import lazy
from .autocast_mode import (
    autocast as autocast,
    is_autocast_available as is_autocast_available,
)

if TYPE_CHECKING:
    from .cast_policies import policies as policies, register_policy as register_policy
    from .custom import custom_bwd as custom_bwd, custom_fwd as custom_fwd
    from .grad_scaler import GradScaler as GradScaler
else:
    __all__ = ["autocast", "is_autocast_available"]
    __getattr__, __dir__ = lazy.attributes(globals())
