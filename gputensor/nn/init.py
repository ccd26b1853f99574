"""`gt.nn.init`: functions that initialise a parameter in place, by PyTorch's formulas. Autograd
does not record them.

Source: torch/nn/init.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..autograd import no_grad
from ..core import errors, lazy
from ..core.arguments import real
from ..core.renamed import renamed
from ..dispatch.refusal import declares
from ..tensor.tensor import Tensor
from ..tensor.type_info import finfo

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_",
    "normal_", "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_",
    "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

_LINEAR = (
    "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d sigmoid".split()
)


@declares()
def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the recommended gain for a nonlinearity."""
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise errors.wrong_value("calculate_gain", "param", "be a number or None", param)
        return math.sqrt(2.0 / (1 + slope * slope))
    if nonlinearity == "selu":
        return 3.0 / 4
    rule = "be linear, conv, sigmoid, tanh, relu, leaky_relu or selu"
    raise errors.wrong_value("calculate_gain", "nonlinearity", rule, nonlinearity)


def _fans(op: str, tensor: Tensor) -> tuple[int, int]:
    """Return (fan_in, fan_out): the number of inputs of each output, and of outputs of each
    input."""
    if tensor.ndim < 2:
        raise errors.wrong_value(op, "tensor", "have at least two dimensions", tensor)
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _fan(op: str, tensor: Tensor, mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise errors.wrong_value(op, "mode", "be 'fan_in' or 'fan_out'", mode)
    return _fans(op, tensor)[mode == "fan_out"]


@declares()
@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with uniform numbers in [a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@declares()
@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normally distributed numbers."""
    return tensor.normal_(mean, std, generator=generator)


@declares()
@no_grad()
def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """Fill with numbers of a normal distribution truncated to [a, b], computed by the inverse
    distribution function."""
    given = (("mean", mean), ("std", std), ("a", a), ("b", b))
    mean, std, a, b = (real("trunc_normal_", arg, value) for arg, value in given)
    low, high = (0.5 * (1 + math.erf((x - mean) / std / math.sqrt(2))) for x in (a, b))
    tensor.uniform_(2 * low - 1, 2 * high - 1, generator=generator).erfinv_()
    most = finfo(tensor.dtype).max
    tensor.mul_(std * math.sqrt(2.0)).add_(mean).clamp_(max(a, -most), min(b, most))
    return tensor


@declares()
@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Set all elements to one value."""
    return tensor.fill_(val)


@declares()
def ones_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 1.0)


@declares()
@no_grad()
def zeros_(tensor: Tensor) -> Tensor:
    return tensor.zero_()


@declares()
@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """Set a matrix to the identity."""
    if tensor.ndim != 2:
        raise errors.wrong_value("eye_", "tensor", "be a matrix", tensor)
    tensor.zero_().diagonal().fill_(1)
    return tensor


@declares()
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with uniform numbers by Glorot's formula."""
    bound = math.sqrt(3.0) * _glorot("xavier_uniform_", tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


@declares()
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normally distributed numbers by Glorot's formula."""
    return normal_(tensor, 0.0, _glorot("xavier_normal_", tensor, gain), generator)


def _glorot(op: str, tensor: Tensor, gain: float) -> float:
    """Return the standard deviation of Glorot's formula."""
    return gain * math.sqrt(2.0 / sum(_fans(op, tensor)))


@declares()
def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """Fill with uniform numbers by He's formula."""
    if _is_empty("kaiming_uniform_", tensor):
        return tensor
    bound = math.sqrt(3.0) * _he("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


@declares()
def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """Fill with normally distributed numbers by He's formula."""
    if _is_empty("kaiming_normal_", tensor):
        return tensor
    std = _he("kaiming_normal_", tensor, a, mode, nonlinearity)
    return normal_(tensor, 0.0, std, generator)


def _is_empty(op: str, tensor: Tensor) -> bool:
    """Return True, after a warning, if the tensor has no elements."""
    is_empty = 0 in tensor.shape
    if is_empty:
        warnings.warn(f"{op}: 'tensor' has no elements, so nothing is initialized", stacklevel=4)
    return is_empty


def _he(op: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """Return the standard deviation of He's formula."""
    return calculate_gain(nonlinearity, a) / math.sqrt(_fan(op, tensor, mode))


@declares()
@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with orthogonal rows or columns. A tensor with more than 2 dimensions is filled as a
    matrix, whose columns are all dimensions after the first one."""
    from .. import linalg
    from .._generated import functions

    gain = real("orthogonal_", "gain", gain)
    if tensor.ndim < 2:
        raise errors.wrong_value("orthogonal_", "tensor", "have at least two dimensions", tensor)
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    normal: Any = functions.empty(rows, columns, dtype=tensor.dtype, device=tensor.device)
    normal.normal_(generator=generator)
    algebra: Any = linalg
    q, r = algebra.qr(normal.t() if rows < columns else normal)
    q *= r.diagonal().sign()
    return tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape)).mul_(gain)


@declares()
@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution's weight (3 to 5 dimensions) so that the convolution copies channels
    within each group."""
    if not 3 <= tensor.ndim <= 5:
        raise errors.wrong_value("dirac_", "tensor", "have 3 to 5 dimensions", tensor)
    if type(groups) is not int or groups < 1 or tensor.shape[0] % groups:
        raise errors.wrong_value("dirac_", "groups", f"divide {tensor.shape[0]}", groups)
    tensor.zero_()
    middle = tuple([size // 2 for size in tensor.shape[2:]])
    rows = tensor.shape[0] // groups
    for group in range(groups):
        for n in range(min(rows, tensor.shape[1])):
            tensor[(group * rows + n, n, *middle)] = 1
    return tensor


@declares()
@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normally distributed numbers. A fraction `sparsity` of each column is
    zero."""
    from .._generated import functions

    if tensor.ndim != 2:
        raise errors.wrong_value("sparse_", "tensor", "be a matrix", tensor)
    rows, columns = tensor.shape
    fraction = real("sparse_", "sparsity", sparsity)
    if not math.isfinite(fraction):
        raise errors.wrong_value("sparse_", "sparsity", "be finite", sparsity)
    zeros = math.ceil(fraction * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        tensor[functions.randperm(rows, device=tensor.device)[:zeros], column] = 0
    return tensor


# The names before PyTorch 0.4.
uniform: Callable[..., Tensor] = renamed("uniform", uniform_)
normal: Callable[..., Tensor] = renamed("normal", normal_)
constant: Callable[..., Tensor] = renamed("constant", constant_)
eye: Callable[..., Tensor] = renamed("eye", eye_)
dirac: Callable[..., Tensor] = renamed("dirac", dirac_)
xavier_uniform: Callable[..., Tensor] = renamed("xavier_uniform", xavier_uniform_)
xavier_normal: Callable[..., Tensor] = renamed("xavier_normal", xavier_normal_)
kaiming_uniform: Callable[..., Tensor] = renamed("kaiming_uniform", kaiming_uniform_)
kaiming_normal: Callable[..., Tensor] = renamed("kaiming_normal", kaiming_normal_)
orthogonal: Callable[..., Tensor] = renamed("orthogonal", orthogonal_)
sparse: Callable[..., Tensor] = renamed("sparse", sparse_)


# Private functions that the libraries timm and transformers use. They may change.


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    return _fans("_calculate_fan_in_and_fan_out", tensor)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    return _fan("_calculate_correct_fan", tensor, mode.lower())


_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
