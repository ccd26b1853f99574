"""The dropout functions of gt.nn.functional whose input may have no batch dimension. All other
dropout functions are operators: rows of native_functions.yaml with a field `nn`."""

from __future__ import annotations

import warnings

from ..._generated import calls
from ...core import errors
from ...core.arguments import flag
from ...tensor.tensor import Tensor
from ._types import _refuse

__all__ = ["dropout1d", "dropout3d"]


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Apply dropout to whole channels of (N, C, L) or (C, L)."""
    try:
        return _of_channels("dropout1d", input, p, training, inplace, 2)
    except Exception as error:
        return _refuse(error, "dropout1d", dropout1d, locals())


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Apply dropout to whole channels of (N, C, D, H, W) or (C, D, H, W).

    Warns about other numbers of dimensions. The first two dimensions are then sample and channel.
    """
    try:
        if isinstance(input, Tensor) and input.ndim not in (4, 5):
            got = errors.describe(input)
            message = f"dropout3d: 'input' should have 4 or 5 dimensions (got {got})"
            warnings.warn(message, stacklevel=2)
            return _of_channels("dropout3d", input, p, training, inplace, input.ndim - 1)
        return _of_channels("dropout3d", input, p, training, inplace, 4)
    except Exception as error:
        return _refuse(error, "dropout3d", dropout3d, locals())


def _of_channels(
    op: str, input: Tensor, p: float, training: bool, inplace: bool, alone: int
) -> Tensor:
    """Drop whole channels. alone: the number of dimensions of an input that has no batch
    dimension."""
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor(op, "input", "a Tensor", input)
    if input.ndim not in (alone, alone + 1):
        raise errors.wrong_shape(op, "input", f"have {alone} or {alone + 1} dimensions", input)
    batch = input if input.ndim > alone else calls.unsqueeze(input, 0)
    drop = calls.feature_dropout_ if flag(op, "inplace", inplace) else calls.feature_dropout
    made = drop(batch, p, flag(op, "training", training))
    return made if made.ndim == input.ndim else calls.squeeze_dim(made, 0)
