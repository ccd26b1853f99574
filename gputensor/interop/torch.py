"""torch.utils.data collates tensors: its map of types says how items become a batch.

Batches are tensors of gputensor, stacked where the items are. A type that is not on the map is
refused by `default_collate`, and so by a DataLoader that has no `collate_fn`.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .. import Tensor


def register(collate: ModuleType) -> None:
    """collate: the module `torch.utils.data._utils.collate`, which documents its map."""
    from ..tensor.tensor import Tensor

    collate.default_collate_fn_map[Tensor] = stacked


def stacked(batch: list[Tensor], *, collate_fn_map: Any = None) -> Tensor:
    from .._generated.functions import stack

    return stack(batch)
