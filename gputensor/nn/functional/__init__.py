"""`gt.nn.functional`: operators under the signatures of `torch.nn.functional`.

Arguments are in PyTorch's order. Each function calls an operator that does the computation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._generated import calls
from ...core import errors, lazy
from ...core.dtype import dtype as _dtype
from ...structured import arguments
from ...dispatch import refusal
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor
from . import (
    activation, attention, dropouts, linear_loss, loss, normalization, pooling, resampling, tables,
)  # fmt: skip
from ._types import _refuse
from .activation import *  # noqa: F403
from .attention import *  # noqa: F403
from .dropouts import *  # noqa: F403
from .linear_loss import *  # noqa: F403
from .loss import *  # noqa: F403
from .normalization import *  # noqa: F403
from .pooling import *  # noqa: F403
from .resampling import *  # noqa: F403
from .tables import *  # noqa: F403

__all__ = [
    "grouped_mm", "linear", "log_softmax", "softmax", "softmin",
    *activation.__all__, *attention.__all__, *dropouts.__all__, *linear_loss.__all__, *loss.__all__,
    *normalization.__all__, *pooling.__all__, *resampling.__all__, *tables.__all__,
]  # fmt: skip


# These functions have the same names and arguments in `gt`.
if TYPE_CHECKING:
    from ..._generated.functions import (
        adaptive_avg_pool1d as adaptive_avg_pool1d, bilinear as bilinear, celu_ as celu_,
        channel_shuffle as channel_shuffle, conv1d as conv1d, conv2d as conv2d, conv3d as conv3d,
        conv_transpose1d as conv_transpose1d, conv_transpose2d as conv_transpose2d,
        conv_transpose3d as conv_transpose3d, cosine_similarity as cosine_similarity,
        hardshrink as hardshrink, pairwise_distance as pairwise_distance, pdist as pdist,
        pixel_shuffle as pixel_shuffle, pixel_unshuffle as pixel_unshuffle, prelu as prelu,
        relu_ as relu_, rms_norm as rms_norm, selu_ as selu_, threshold_ as threshold_,
    )  # fmt: skip
    from ..._generated.nn import (
        alpha_dropout as alpha_dropout, avg_pool1d as avg_pool1d, avg_pool2d as avg_pool2d,
        avg_pool3d as avg_pool3d, celu as celu, cosine_embedding_loss as cosine_embedding_loss,
        dropout as dropout, dropout2d as dropout2d, elu as elu, elu_ as elu_,
        feature_alpha_dropout as feature_alpha_dropout, fold as fold, gelu as gelu, glu as glu,
        hardsigmoid as hardsigmoid, hardswish as hardswish, hardtanh as hardtanh,
        hardtanh_ as hardtanh_, hinge_embedding_loss as hinge_embedding_loss,
        layer_norm as layer_norm, leaky_relu as leaky_relu, leaky_relu_ as leaky_relu_,
        logsigmoid as logsigmoid, max_pool1d_with_indices as max_pool1d_with_indices,
        max_pool2d_with_indices as max_pool2d_with_indices,
        max_pool3d_with_indices as max_pool3d_with_indices, mish as mish,
        multilabel_margin_loss as multilabel_margin_loss, nll_loss as nll_loss, pad as pad,
        poisson_nll_loss as poisson_nll_loss, relu as relu, relu6 as relu6, selu as selu,
        sigmoid as sigmoid, silu as silu, soft_margin_loss as soft_margin_loss,
        softplus as softplus, softshrink as softshrink, tanh as tanh, threshold as threshold,
        unfold as unfold,
    )  # fmt: skip
else:
    __getattr__, __dir__ = lazy.attributes(globals())


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return input @ weight.t() + bias.

    Args:
        input: (..., in_features). weight: (out_features, in_features). bias: (out_features).
    Returns: (..., out_features).
    """
    try:
        are_tensors = isinstance(input, Tensor) and isinstance(weight, Tensor)
        if not are_tensors or bias is not None and not isinstance(bias, Tensor):
            _tensors("linear", input=input, weight=weight, bias=bias)
        return calls.linear(input, weight, bias)
    except Exception as error:
        return _refuse(error, "linear", linear, locals())


@declares()
def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None,
    out_dtype: _dtype | None = None,
) -> Tensor:  # fmt: skip
    """Multiply groups of matrices, such as the tokens and the weights of each expert in a mixture.

    offs[i] is the end of group i along the dimension that is divided into groups. After the last
    end, the result is 0. On a GPU, the host waits for the values of offs.

    Args:
        mat_a, mat_b: of one floating dtype; (m, k) and (groups, k, n): groups of rows;
            (groups, m, k) and (k, n): groups of columns; (m, k) and (k, n): groups of the inner
            dimension; (groups, m, k) and (groups, k, n): as `bmm`, without offs.
        offs: (groups), i32, in ascending order. bias: None. out_dtype: None or the operands'.
    Returns: (m, n), but (groups, m, n) if the inner dimension or no dimension is divided.
    """
    return calls._grouped_mm(mat_a, mat_b, offs, bias, out_dtype)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _dtype | None = None
) -> Tensor:
    """Return exp(x) divided by its sum along dim. Without a dim, warn and take 0 for 0, 1 and 3
    dimensions, otherwise 1."""
    try:
        _tensors("softmax", input=input)
        return calls.softmax_int(input, _dim("softmax", input, dim), dtype)
    except Exception as error:
        return _refuse(error, "softmax", softmax, locals())


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _dtype | None = None
) -> Tensor:
    """Return the logarithm of softmax along dim. Without a dim, warn and take 0 for 0, 1 and 3
    dimensions, otherwise 1."""
    try:
        _tensors("log_softmax", input=input)
        return calls.log_softmax_int(input, _dim("log_softmax", input, dim), dtype)
    except Exception as error:
        return _refuse(error, "log_softmax", log_softmax, locals())


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _dtype | None = None
) -> Tensor:
    """Return softmax of -input along dim. Without a dim, warn and take 0 for 0, 1 and 3
    dimensions, otherwise 1."""
    try:
        _tensors("softmin", input=input)
        return calls.softmax_int(calls.neg(input), _dim("softmin", input, dim), dtype)
    except Exception as error:
        return _refuse(error, "softmin", softmin, locals())


def _tensors(op: str, **operands: Any) -> None:
    for arg, x in operands.items():
        if not isinstance(x, Tensor) and (x is not None or arg != "bias"):
            raise errors.not_a_tensor(op, arg, "a Tensor", x)


def _dim(op: str, input: Tensor, dim: int | None) -> int:
    # Source: torch/nn/functional.py, _get_softmax_dim.
    if dim is None:
        dim = 0 if input.ndim in (0, 1, 3) else 1
        message = errors.deprecated(op, "a call without 'dim' is", f"use dim={dim}")
        refusal.warn(message, stacklevel=3)
    return arguments.integer(op, "dim", dim)
