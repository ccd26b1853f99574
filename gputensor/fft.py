"""Discrete Fourier transforms such as `gt.fft.rfft(x)`, as in torch.fft.

The functions are operators: rows of native_functions.yaml with `python_module: fft`. They are
loaded with their families.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dispatch.families import lazy_module as _lazy

if TYPE_CHECKING:
    from ._generated.fft import *  # noqa: F403

_lazy(globals())
