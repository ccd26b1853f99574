"""`gt.utils`: modules with the names of `torch.utils`, such as `data` and `checkpoint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import lazy

if TYPE_CHECKING:
    from . import checkpoint as checkpoint, data as data, flop_counter as flop_counter
else:
    __all__: list[str] = []
    __getattr__, __dir__ = lazy.attributes(globals())
