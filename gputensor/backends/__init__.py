"""`gt.backends`: properties of backends under PyTorch's names, such as `gt.backends.cpu`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import lazy

if TYPE_CHECKING:
    from . import cpu as cpu
else:
    __all__: list[str] = []
    __getattr__, __dir__ = lazy.attributes(globals())
