"""Support of tensors in torch.utils.data: a function that combines items into a batch.

Batches are tensors of gputensor, stacked on the items' device. Without the entry in its table,
`default_collate`, and so a DataLoader without a `collate_fn`, rejects tensors.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .. import Tensor


def register(collate: ModuleType) -> None:
    """Add tensors to PyTorch's documented table of collate functions. collate: the module of this
    table, `torch.utils.data._utils.collate`."""
    from ..tensor.tensor import Tensor

    collate.default_collate_fn_map[Tensor] = stacked


def stacked(batch: list[Tensor], *, collate_fn_map: Any = None) -> Tensor:
    from .._generated.functions import stack

    return stack(batch)
