"""Compare two runs of a program."""

from __future__ import annotations

from typing import Any

import gputensor as gt
from gputensor.kernels.cpu.cast import readable
from gputensor.tensor.base import materialised


def state_of(x: Any, has_values: bool = True) -> Any:
    """Return a comparable form of a value: for a tensor, all properties that a program can read."""
    if isinstance(x, gt.Tensor):
        bits = None
        if has_values and not x.is_meta:
            bits = readable(materialised(x.detach().cpu())._get_array()).tobytes()
        version = x._version if not x.is_inference() else None
        grad = state_of(x.grad) if x.is_leaf and x.grad is not None else None
        return (
            x.dtype, tuple(x.shape), x.stride(), x.storage_offset(), version, x.requires_grad,
            x.is_leaf, bits, grad,
        )  # fmt: skip
    if isinstance(x, (list, tuple)):
        return [state_of(y, has_values) for y in x]
    if isinstance(x, gt.Storage):
        return x.nbytes()
    if isinstance(x, (float, complex)):
        return repr(x)
    return x if isinstance(x, (bool, int, str, type, gt.dtype, type(None))) else str(type(x))
