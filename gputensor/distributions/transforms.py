"""Transforms of numbers, vectors and matrices. Transforms built from other transforms are in
transform.py.

Source: torch/distributions/transforms.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import linalg
from .._generated.functions import eye, full_like
from ..core import lazy
from ..core.geometry import Size
from ..nn import functional as F
from ..structured.facts import broadcast_shapes
from ..tensor.tensor import Tensor
from ..tensor.type_info import finfo
from . import constraints
from .constraints import Constraint
from .transform import (
    CatTransform, ComposeTransform, Composite, IndependentTransform, StackTransform, Transform,
)  # fmt: skip
from .utils import (
    broadcast_all, quantity, refused, shifted, sum_rightmost, tiny, tril_matrix_to_vec,
    vec_to_tril_matrix,
)  # fmt: skip

if TYPE_CHECKING:
    from .distribution import Distribution

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform",
    "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip
identity_transform: ComposeTransform = ComposeTransform([])


class _Monotone(Transform):
    """Base class of increasing functions of one number that have no parameters."""

    domain: Any = constraints.real
    codomain: Any = constraints.positive
    bijective = True
    sign = 1
    _is_plain = True


class ExpTransform(_Monotone):
    """y = exp(x)."""

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


def _inside_unit(x: Tensor) -> Tensor:
    return x.clamp(min=tiny(x), max=1.0 - finfo(x.dtype).eps)


def _clipped_sigmoid(x: Tensor) -> Tensor:
    return _inside_unit(x.sigmoid())


class SigmoidTransform(_Monotone):
    """y = 1 / (1 + exp(-x)), kept inside (0, 1)."""

    codomain: Any = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        y = _inside_unit(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_Monotone):
    """y = log(1 + exp(x))."""

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class TanhTransform(_Monotone):
    """y = tanh(x)."""

    codomain: Any = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|. The inverse returns the non-negative x."""

    domain: Any = constraints.real
    codomain: Any = constraints.positive
    _is_plain = True

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class _Parametrized(Transform):
    """Base of transforms with parameters that broadcast with the input."""

    bijective = True
    _names: tuple[str, ...]

    def _values(self) -> list[Any]:
        return [getattr(self, name) for name in self._names]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return False
        pairs = [(a == b) for a, b in zip(self._values(), other._values())]
        return all(bool(p.all()) if isinstance(p, Tensor) else p for p in pairs)

    def forward_shape(self, shape: Size) -> Size:
        return Size(broadcast_shapes(shape, *(getattr(v, "shape", ()) for v in self._values())))

    inverse_shape = forward_shape


class PowerTransform(_Parametrized):
    """y = x ** exponent, for positive x."""

    domain: Any = constraints.positive
    codomain: Any = constraints.positive
    _names = ("exponent",)
    exponent: Tensor

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        (self.exponent,) = broadcast_all(exponent)
        super().__init__(cache_size)

    sign: Any = quantity(lambda self: self.exponent.sign())

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()


class AffineTransform(_Parametrized):
    """y = loc + scale * x. event_dim: the number of rightmost dimensions that form one event."""

    _names = ("loc", "scale")
    loc: Any
    scale: Any

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        broadcast_all(loc, scale)  # raises for types other than tensors and numbers
        self.loc, self.scale, self._event_dim = loc, scale, event_dim
        super().__init__(cache_size)

    event_dim: int = quantity(lambda self: self._event_dim)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        if self.event_dim == 0:
            return constraints.real
        return constraints.independent(constraints.real, self.event_dim)

    codomain = domain

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        made: Tensor = self.loc + self.scale * x
        return made

    def _inverse(self, y: Tensor) -> Tensor:
        made: Tensor = (y - self.loc) / self.scale
        return made

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            log_scale = self.scale.abs().log().expand(x.shape)
        else:
            log_scale = full_like(x, math.log(abs(self.scale)))
        return sum_rightmost(log_scale, self.event_dim)


class ReshapeTransform(Composite):
    """Reshape the last dimensions from in_shape to out_shape."""

    bijective = True
    in_shape: Size
    out_shape: Size

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise refused(self, "out_shape", f"have {self.in_shape.numel()} elements", out_shape)
        super().__init__(cache_size)

    def _region(self, name: str) -> Constraint:
        shape = self.in_shape if name == "domain" else self.out_shape
        return constraints.independent(constraints.real, len(shape))

    def _replaced(self, shape: Size, old: Size, new: Size) -> Size:
        self._need_dims(shape, len(old))
        cut = len(shape) - len(old)
        if shape[cut:] != old:
            raise refused(self, "shape", f"end in {old}", shape)
        return shape[:cut] + new

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Size) -> Size:
        return self._replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Size) -> Size:
        return self._replaced(shape, self.out_shape, self.in_shape)


class CorrCholeskyTransform(Transform):
    """Map a vector of D (D - 1) / 2 numbers to the Cholesky factor of a D x D correlation matrix.

    The squares of a row sum to 1. The tanh of each number is the quotient of an element and the
    length that is left in its row.
    """

    domain: Any = constraints.real_vector
    codomain: Any = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        share = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - share.square()).sqrt().cumprod(-1)
        unit = eye(share.shape[-1], dtype=x.dtype, device=x.device)
        return (share + unit) * shifted(left[..., :-1], 1, 0)

    def _inverse(self, y: Tensor) -> Tensor:
        left = shifted((1 - (y * y).cumsum(-1))[..., :-1], 1, 0)
        return (tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(left, -1).sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        of_tanh = -2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * left.log().sum(-1) + of_tanh

    def forward_shape(self, shape: Size) -> Size:
        self._need_dims(shape, 1)
        size = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != shape[-1]:
            raise refused(self, "shape", "end in the length of a triangle below a diagonal", shape)
        return shape[:-1] + (size, size)

    def inverse_shape(self, shape: Size) -> Size:
        self._need_dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise refused(self, "shape", "end in a square", shape)
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)


class _OfVectors(Transform):
    domain: Any = constraints.real_vector
    codomain: Any = constraints.simplex
    _is_plain = True

    def forward_shape(self, shape: Size) -> Size:
        self._need_dims(shape, 1)
        return shape

    def inverse_shape(self, shape: Size) -> Size:
        self._need_dims(shape, 1)
        return shape


class SoftmaxTransform(_OfVectors):
    """y = exp(x), normalized along the last dimension. The inverse is log(y)."""

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(_OfVectors):
    """Map K numbers to K + 1 probabilities. Each number determines the fraction of the remaining
    probability that the next component gets.

    The fractions are sigmoids, shifted so that zeros give equal probabilities.
    """

    bijective = True

    def _offset(self, x: Tensor) -> Tensor:
        count = x.shape[-1]
        return (count + 1 - x.new_ones(count).cumsum(-1)).log()

    def _call(self, x: Tensor) -> Tensor:
        share = _clipped_sigmoid(x - self._offset(x))
        return shifted(share, 0, 1) * shifted((1 - share).cumprod(-1), 1, 0)

    def _inverse(self, y: Tensor) -> Tensor:
        cropped = y[..., :-1]
        left = (1 - cropped.cumsum(-1)).clamp(min=tiny(y))
        return cropped.log() - left.log() + self._offset(cropped)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x)
        return (F.logsigmoid(x) - x + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Size) -> Size:
        self._need_dims(shape, 1)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Size) -> Size:
        self._need_dims(shape, 1)
        return shape[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(Transform):
    """Map a matrix to its lower triangle, with the exponential function applied to the diagonal."""

    domain: Any = constraints.independent(constraints.real, 2)
    codomain: Any = constraints.lower_cholesky
    _is_plain = True

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(LowerCholeskyTransform):
    """Map a matrix to L L^T, where L is its LowerCholeskyTransform."""

    codomain: Any = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = super()._call(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return super()._inverse(linalg.cholesky(y))


class CumulativeDistributionTransform(Transform):
    """y = cdf(x), with the cdf of a distribution of real numbers."""

    bijective = True
    codomain: Any = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        self.distribution = distribution
        super().__init__(cache_size)

    domain: Any = quantity(lambda self: self.distribution.support)

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
