"""The dropout functions of gt.nn.functional, for elements and for channels."""

from __future__ import annotations


from ..._generated import calls, functions
from ...core import errors
from ...core.arguments import flag
from ...tensor.tensor import Tensor
from ._types import _refuse

__all__ = [
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
]  # fmt: skip


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, zero each element with probability p and divide the other elements by 1 - p."""
    try:
        return _dropped("dropout", input, p, training, inplace)
    except Exception as error:
        return _refuse(error, "dropout", dropout, locals())


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Like dropout, but replace dropped elements by SELU's negative limit instead of zero.

    This keeps the mean and the variance.
    """
    try:
        return _dropped("alpha_dropout", input, p, training, inplace)
    except Exception as error:
        return _refuse(error, "alpha_dropout", alpha_dropout, locals())


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Apply dropout to whole channels of (N, C, L) or (C, L)."""
    try:
        return _of_channels("dropout1d", input, p, training, inplace, 2)
    except Exception as error:
        return _refuse(error, "dropout1d", dropout1d, locals())


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Apply dropout to whole channels of (N, C, H, W)."""
    try:
        return _dropped("feature_dropout", input, p, training, inplace)
    except Exception as error:
        return _refuse(error, "dropout2d", dropout2d, locals())


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Apply dropout to whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    try:
        return _of_channels("dropout3d", input, p, training, inplace, 4)
    except Exception as error:
        return _refuse(error, "dropout3d", dropout3d, locals())


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Apply alpha_dropout to whole channels."""
    try:
        return _dropped("feature_alpha_dropout", input, p, training, inplace)
    except Exception as error:
        return _refuse(error, "feature_alpha_dropout", feature_alpha_dropout, locals())


def _dropped(op: str, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor(op, "input", "a Tensor", input)
    drop = getattr(functions, f"{op}_" if flag(op, "inplace", inplace) else op)
    made: Tensor = drop(input, p, flag(op, "training", training))
    return made


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
    made = _dropped("feature_dropout", batch, p, training, inplace)
    return made if made.ndim == input.ndim else calls.squeeze_dim(made, 0)
