"""`gt.utils`: what programs need beside tensors, as `torch.utils` has it:
`gt.utils.data` and `gt.utils.checkpoint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import lazy

if TYPE_CHECKING:
    from . import checkpoint as checkpoint, data as data
else:
    __all__: list[str] = []
    __getattr__, __dir__ = lazy.attributes(globals())
