"""Registration of the fallback kernels. The first operator call of a process calls `install`."""

from __future__ import annotations

from ..autograd.fallback import set_autograd_fallback_mode
from . import lazy_views, modes


def install() -> None:
    """Register the fallbacks of Conjugate, Negative, ZeroTensor, Python and the autograd keys."""
    lazy_views.install()
    modes.install()
    set_autograd_fallback_mode("warn")
