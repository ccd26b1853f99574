"""What the derivatives of native_functions.yaml call beyond the operators themselves.

Everything here is made of public operators, so derivatives of derivatives need nothing more. None
stands for a gradient of zeros. Source: torch/csrc/autograd/FunctionsManual.cpp.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, overload

from .._generated import calls, functions
from ..core import errors
from ..core.arguments import NUMBERS
from ..core.geometry import Geometry
from ..tensor.tensor import Tensor
from .modes import is_grad_enabled

Sizes = tuple[int, ...]

# Prefixes of formulas -> the module beside this one that has them, imported by their families.
_MODULES = {"fft_": "spectral", "linalg_": "linear_algebra"}


def __getattr__(name: str) -> Any:
    """What a derivative asks for: a formula of a module beside this one, or an operator. Nothing is
    named before its family has its derivatives: see Note [Loads take one lock first]."""
    for module in [m for prefix, m in _MODULES.items() if name.startswith(prefix)] or [
        "formulas_nn",
        "formulas_loss",
    ]:
        found = getattr(import_module(f"{__package__}.{module}"), name, None)
        if found is not None:
            return found
    found = getattr(functions, name, None)
    return getattr(calls, name) if found is None else found  # what is private, or of gt.nn


# --- fitting a gradient to what it is the gradient of; called by the engine -----------------------


def sum_to_size(grad: Tensor, sizes: Sizes) -> Tensor:
    """The gradient of what was broadcast from `sizes`."""
    given = grad._geometry.sizes
    extra = len(given) - len(sizes)
    leading = tuple(range(extra))
    if given[extra:] == sizes:
        return calls.sum_dim_IntList(grad, leading, False) if extra else grad
    inner = [d + extra for d, n in enumerate(sizes) if n == 1 and given[d + extra] != 1]
    grad = calls.sum_dim_IntList(grad, (*leading, *inner), True)
    return calls.view(grad, sizes) if extra else grad


def fit(grad: Tensor, shape: Geometry, device: Any, source: Any, number: int) -> Tensor:
    """`grad` with the sizes, dtype and device of the tensor it is the gradient of.

    source, number: the node that made it, None for the caller, and the operand it is for.
    """
    if not isinstance(grad, Tensor):
        raise errors.wrong_gradient(_name(source), number, grad, "a Tensor or None")
    given = grad._geometry
    if given.sizes != shape.sizes:
        if not _is_broadcast(given.sizes, shape.sizes):
            rule = f"shape compatible with {list(shape.sizes)}"
            raise errors.wrong_gradient(_name(source), number, grad, rule)
        grad = sum_to_size(grad, shape.sizes)
    if given.dtype is not shape.dtype:
        grad = calls.to_dtype(grad, shape.dtype, False, False, None)
    if grad._device is not device:
        if given.ndim:
            raise errors.wrong_gradient(_name(source), number, grad, f"device {device}")
        grad = calls.to_device(grad, device, shape.dtype, False, False, None)
    return grad


def _name(source: Any) -> str:
    return "backward" if source is None else source.name()


def _is_broadcast(sizes: Sizes, source: Sizes) -> bool:
    extra = len(sizes) - len(source)
    return extra >= 0 and all(n in (1, m) for n, m in zip(source, sizes[extra:]))


# --- numbers and complex values -------------------------------------------------------------------


@overload
def conj(x: Tensor) -> Tensor: ...
@overload
def conj(x: Any) -> Any: ...
def conj(x: Any) -> Any:
    """The conjugate of a tensor or a number."""
    if type(x) in NUMBERS:
        return x.conjugate()
    return calls._conj_physical(x) if x._geometry.dtype.is_complex else x


def scaled(grad: Tensor, factor: Any) -> Tensor:
    """grad times the conjugate of a number."""
    if factor == 1:
        return grad
    return -grad if factor == -1 else grad * factor.conjugate()


def repeated(grad: Tensor, count: int) -> Tensor:
    """A batch of `count` times the same gradient."""
    found: Tensor = calls.expand(grad, (count, *grad._geometry.sizes), False)
    return found


def angle_backward(grad: Tensor, self: Tensor) -> Tensor:
    """i * self / |self|^2 of complex numbers, and zero of real ones."""
    if not self._geometry.dtype.is_complex:
        return functions.zeros_like(self) * grad
    size = self.abs()
    return functions.where(size == 0, 0, self / (size * size) * 1j * grad)


def pow_backward_self(grad: Tensor, self: Any, exponent: Any) -> Any:
    """Source: torch/csrc/autograd/FunctionsManual.cpp, pow_backward and pow_backward_self."""
    if type(exponent) in NUMBERS:
        if exponent == 0:
            return functions.zeros_like(grad)
        return grad * conj(exponent * self ** (exponent - 1))
    return functions.where(exponent == 0, 0, grad * conj(exponent * self ** (exponent - 1)))


def pow_backward_exponent(grad: Tensor, self: Any, exponent: Tensor, result: Tensor) -> Any:
    """Where a power of 0 is 0 or 1, its derivative is 0. `self` may be a number."""
    if type(self) in NUMBERS:
        self = functions.full_like(result, self)
    real = functions.real(exponent) if exponent._geometry.dtype.is_complex else exponent
    is_flat = (self == 0) & (real >= 0)
    return functions.where(is_flat, 0, grad * conj(result * functions.log(self)))


def fmod_other_backward(grad: Tensor, self: Any, other: Any) -> Tensor:
    return -grad * functions.div(self, other, rounding_mode="trunc")


def remainder_other_backward(grad: Tensor, self: Any, other: Any) -> Tensor:
    return -grad * functions.div(self, other, rounding_mode="floor")


def copysign_backward(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    return functions.where(self == 0, 0, grad * (result / self))


def clamp_backward(grad: Tensor, self: Tensor, min: Any, max: Any) -> Tensor:
    """Source: torch/csrc/autograd/FunctionsManual.cpp, clamp_backward and its neighbours."""
    is_kept: Any = True
    if min is not None:
        is_kept = (self >= min) & is_kept
    if max is not None:
        is_kept = (self <= max) & is_kept
    return functions.where(is_kept, grad, 0)


def clamp_min_backward(grad: Tensor, self: Tensor, min: Tensor, max: Any) -> Tensor:
    is_bound = self < min
    return functions.where(is_bound if max is None else is_bound & (min < max), grad, 0)


def clamp_max_backward(grad: Tensor, self: Tensor, min: Any, max: Tensor) -> Tensor:
    is_bound = self > max
    return functions.where(is_bound if min is None else is_bound | (max < min), grad, 0)


def sgn_backward(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """Zero of real numbers; what goes across the ray of complex ones."""
    if not self._geometry.dtype.is_complex:
        return functions.zeros_like(grad)
    size = self.abs()
    along = (conj(grad) * result).real
    return functions.where(size == 0, 0, (grad - along * result) / size)


def sigmoid_double_backward(grad: Tensor, self: Tensor) -> Tensor:
    share = self.sigmoid()
    return grad * share * (1 - share)


def logit_backward(grad: Tensor, self: Tensor, eps: float | None) -> Tensor:
    """Source: infinitely_differentiable_logit_backward."""
    slope = grad / (self * (1.0 - self))
    low, outside = (0.0, math.nan) if eps is None else (eps, 0.0)
    return calls.where_self((self >= low) & (self <= 1.0 - low), slope, outside)


def sinc_backward(grad: Tensor, self: Tensor) -> Tensor:
    angle = self * math.pi
    slope = (angle * angle.cos() - angle.sin()) / (angle * self)
    return grad * conj(functions.where(self == 0, 0, slope))


def div_self_backward(grad: Tensor, other: Any, rounding_mode: str | None) -> Tensor:
    return grad / conj(other) if rounding_mode is None else functions.zeros_like(grad)


def div_other_backward(grad: Tensor, self: Any, other: Tensor, rounding_mode: str | None) -> Tensor:
    if rounding_mode is not None:
        return functions.zeros_like(grad)
    slope: Tensor = conj(self / other / other)
    return -grad * slope


def copy_backward(grad: Tensor, dtype: Any, device: Any) -> Tensor:
    """The gradient in the dtype and on the device of what was copied."""
    return calls.to_device(grad, device, dtype, False, False, None)


# --- special functions ----------------------------------------------------------------------------


def igamma_slope(a: Tensor, x: Tensor) -> Tensor:
    return calls.exp(calls.xlogy_Tensor(a - 1, x) - x - calls.lgamma(a))


def xlogy_slope(grad: Tensor, self: Any, other: Any) -> Tensor:
    at_edge = (self == 0) * (other <= 0)
    return functions.where(at_edge, 0, calls.xlogy_Tensor(grad, other))


def xlog1py_slope(grad: Tensor, self: Any, other: Any) -> Tensor:
    at_edge = (self == 0) * (other <= -1)
    return functions.where(at_edge, 0, calls.special_xlog1py(grad, other))


def i0e_slope(x: Tensor, i0e: Tensor) -> Tensor:
    return calls.special_i1e(x) - functions.sgn(x) * i0e


def _without_zero(x: Tensor) -> Tensor:
    return functions.where(x == 0, 1.0, x)


def i1_slope(x: Tensor, i1: Tensor) -> Tensor:
    return functions.where(x == 0, 0.5, calls.i0(x) - i1 / _without_zero(x))


def i1e_slope(x: Tensor, i1e: Tensor) -> Tensor:
    slope = calls.special_i0e(x) - i1e * (functions.sgn(x) + 1 / _without_zero(x))
    return functions.where(x == 0, 0.5, slope)


# --- dropout --------------------------------------------------------------------------------------


def native_dropout_input_backward(grad: Tensor, mask: Tensor, p: float, train: Any) -> Tensor:
    is_kept = train is not None and not train
    scale = 1.0 if is_kept else 0.0 if p == 1 else 1 / (1 - p)
    return calls.native_dropout_backward(grad, mask, scale)


# --- activations: gradients of their gradients with respect to the input --------------------------


def silu_double_backward(grad: Tensor, self: Tensor) -> Tensor:
    share = self.sigmoid()
    return grad * conj(share * (1 - share) * (2 + self * (1 - 2 * share)))


def mish_double_backward(grad: Tensor, self: Tensor) -> Tensor:
    share = self.sigmoid()
    inner = self.exp().log1p().tanh()
    slope = share * (1 - inner * inner)
    return grad * slope * (2 + self * (1 - share) - 2 * self * inner * share)


def gelu_double_backward(grad: Tensor, self: Tensor, approximate: str) -> Tensor:
    square = self * self
    if approximate == "none":
        return grad * (square * -0.5).exp() * (2 - square) * (1 / math.sqrt(2 * math.pi))
    scale, cube = math.sqrt(2 / math.pi), 0.044715
    inner = (scale * (self + cube * self * square)).tanh()
    first, second = scale * (1 + 3 * cube * square), 6 * scale * cube * self
    left = 1 - inner * inner
    return grad * left * (first + 0.5 * self * (second - 2 * inner * first * first))


def elu_double_backward(
    grad: Tensor, alpha: Any, scale: Any, input_scale: Any, is_result: bool, self: Tensor
) -> Tensor:
    slope: Any = input_scale
    if not is_result:
        slope = (self * input_scale).exp() * (alpha * scale * input_scale * input_scale)
    return functions.where(self < 0, grad * slope, 0)


def softplus_double_backward(grad: Tensor, self: Tensor, beta: Any, threshold: Any) -> Tensor:
    scaled = self * beta
    found = sigmoid_double_backward(grad * beta, scaled)
    return functions.where(scaled > threshold, 0, found)


# --- loss -----------------------------------------------------------------------------------------

_MEAN, _SUM = 1, 2  # at::Reduction


def nll_loss_double_backward(
    grad: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int,
    total_weight: Tensor,
) -> Tensor:  # fmt: skip
    """The gradient of nll_loss's gradient with respect to the gradient that arrived."""
    if reduction != _MEAN:
        return calls.nll_loss(grad, target, weight, reduction, ignore_index)
    return calls.nll_loss(grad, target, weight, _SUM, ignore_index) / total_weight


# --- softmax --------------------------------------------------------------------------------------


def softmax_double_backward(grad: Tensor, grad_output: Tensor, output: Tensor, dim: int) -> Tensor:
    """The gradient of softmax's gradient with respect to the output of softmax."""
    inner = (output * grad_output).sum(dim, True)
    return grad * grad_output - inner * grad - grad_output * (output * grad).sum(dim, True)


# --- reductions -----------------------------------------------------------------------------------


def _with_dims(grad: Tensor, ndim: int, dim: Any, keepdim: bool) -> Tensor:
    """A reduction's result with the reduced dimensions as ones."""
    if keepdim or ndim == 0:
        return grad
    dims = (dim,) if type(dim) is int else dim
    if not dims:
        return calls.view(grad, (1,) * ndim) if grad._geometry.ndim == 0 else grad
    for d in sorted([d % ndim for d in dims]):
        grad = calls.unsqueeze(grad, d)
    return grad


def sum_backward(grad: Tensor, shape: Sizes, dim: Any, keepdim: bool) -> Tensor:
    return _with_dims(grad, len(shape), dim, keepdim).expand(shape)


def mean_backward(grad: Tensor, shape: Sizes, dim: Any, keepdim: bool) -> Tensor:
    dims = (dim,) if type(dim) is int else dim or range(len(shape))
    count = 1
    for d in dims if shape else ():
        count *= shape[d]
    return sum_backward(grad, shape, dim, keepdim) / count


def extremum_backward(
    grad: Tensor, self: Tensor, result: Tensor, dim: Any, keepdim: bool
) -> Tensor:
    """The gradient, shared out evenly among equal extremes."""
    ndim = self._geometry.ndim
    is_extreme = _with_dims(result, ndim, dim, keepdim) == self
    count = calls.sum_dim_IntList(is_extreme, None if dim in ((), []) else dim, True)
    return _with_dims(grad, ndim, dim, keepdim) * is_extreme / count


def prod_backward(grad: Tensor, self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    """grad times the product of all other elements, which is right at zeros too."""
    x = calls.to_dtype(self, grad._geometry.dtype, False, False, None)
    if x._geometry.ndim == 0:
        return grad
    if dim is None:
        others = _products_of_others(calls.reshape(x, (-1,)), 0)
        return grad * conj(calls.reshape(others, self.shape))
    return _with_dims(grad, x._geometry.ndim, dim, keepdim) * conj(_products_of_others(x, dim))


def _products_of_others(x: Tensor, dim: int) -> Tensor:
    """Along dim: the product of the elements before each times that of those behind it."""
    n = x._geometry.sizes[dim]
    one = calls.ones_like(calls.slice_Tensor(x, dim, 0, min(n, 1), 1))
    before = calls.cat([one, calls.slice_Tensor(x, dim, 0, max(n - 1, 0), 1)], dim)
    turned = calls.flip(x, (dim,))
    turned = calls.cat([one, calls.slice_Tensor(turned, dim, 0, max(n - 1, 0), 1)], dim)
    behind = calls.flip(calls.cumprod(turned, dim, None), (dim,))
    return calls.cumprod(before, dim, None) * behind


def value_selecting_backward(
    grad: Tensor, dim: int, indices: Tensor, shape: Sizes, keepdim: bool
) -> Tensor:
    """The gradient at the element of each row that was chosen, zeros elsewhere."""
    if not shape:
        return grad
    if not keepdim:
        grad, indices = calls.unsqueeze(grad, dim), calls.unsqueeze(indices, dim)
    return functions.where(_places(indices, shape, dim) == indices, grad, 0)


def aminmax_backward(
    self: Tensor, dim: int | None, keepdim: bool, grad_min: Any, grad_max: Any, min: Tensor,
    max: Tensor,
) -> Tensor:  # fmt: skip
    dims = () if dim is None else (dim,)
    parts = [
        extremum_backward(grad, self, found, dims, keepdim)
        for grad, found in ((grad_min, min), (grad_max, max))
        if grad is not None
    ]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _places(like: Tensor, shape: Sizes, dim: int) -> Tensor:
    """0, 1, ... along a dimension of `shape`."""
    sizes = [1] * len(shape)
    sizes[dim] = -1
    return calls.reshape(functions.arange(shape[dim], device=like._device), tuple(sizes))


def _count(shape: Sizes, dim: Any) -> int:
    count = 1
    for d in ((dim,) if type(dim) is int else dim or range(len(shape))) if shape else ():
        count *= shape[d]
    return count


def var_backward(grad: Tensor, self: Tensor, dim: Any, correction: Any, keepdim: bool) -> Tensor:
    shape = self._geometry.sizes
    over = _count(shape, dim) - (1 if correction is None else correction)
    grad = _with_dims(grad, len(shape), dim, keepdim)
    rest = self - calls.mean_dim(self, dim, True)
    if over <= 0 and (dim is None or not shape):
        return grad * functions.where(rest == 0, float("nan"), float("inf"))
    return grad * rest * (2.0 / over if over else float("inf"))


def std_backward(
    grad: Tensor, result: Tensor, self: Tensor, dim: Any, correction: Any, keepdim: bool
) -> Tensor:
    grad = functions.where(result == 0, 0.0, grad / (result * 2))
    return var_backward(grad, self, dim, correction, keepdim)


def var_mean_backward(
    grad_var: Any, grad_mean: Any, self: Tensor, dim: Any, correction: Any, keepdim: bool
) -> Tensor:
    parts = []
    if grad_var is not None:
        parts.append(var_backward(grad_var, self, dim, correction, keepdim))
    if grad_mean is not None:
        parts.append(mean_backward(grad_mean, self._geometry.sizes, dim, keepdim))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def std_mean_backward(
    grad_std: Any, grad_mean: Any, self: Tensor, dim: Any, correction: Any, keepdim: bool
) -> Tensor:
    if grad_std is not None:
        spread = calls.std_correction(self, dim, correction, keepdim)
        grad_std = functions.where(spread == 0, 0.0, grad_std / (spread * 2))
    return var_mean_backward(grad_std, grad_mean, self, dim, correction, keepdim)


def logsumexp_backward(
    grad: Tensor, self: Tensor, result: Tensor, dim: Any, keepdim: bool
) -> Tensor:
    ndim = self._geometry.ndim
    top = _with_dims(result, ndim, dim, keepdim)
    return _with_dims(grad, ndim, dim, keepdim) * conj((self - top).exp())


def trace_backward(grad: Tensor, shape: Sizes) -> Tensor:
    return functions.eye(*shape, dtype=grad._geometry.dtype, device=grad._device) * grad


# --- norms and distances --------------------------------------------------------------------------


def norm_backward(
    grad: Tensor, self: Tensor, p: float, result: Tensor, dim: Any, keepdim: bool
) -> Tensor:
    """Zero where the norm is; of the largest elements, shared out evenly."""
    ndim = self._geometry.ndim
    dims = tuple(range(ndim)) if dim is None or dim in ((), []) else dim
    grad, size = _with_dims(grad, ndim, dims, keepdim), _with_dims(result, ndim, dims, keepdim)
    if p == 0:
        return functions.zeros_like(self)
    if p == 2:
        return grad * _share(self, size)
    if p in (float("inf"), -float("inf")):
        chosen = _or_nan(self.abs(), size)
        share = grad / calls.sum_dim_IntList(chosen, dims, True) if ndim else grad
        return functions.sgn(self) * functions.where(chosen, share, 0.0)
    if p == 1:
        return functions.sgn(self) * grad
    return _power_slope(self, p) * _share(grad, size ** (p - 1))


def _or_nan(x: Tensor, extreme: Tensor) -> Tensor:
    return functions.where(x == x, x == extreme, True)


def _share(x: Tensor, whole: Tensor) -> Tensor:
    """x / whole, zeros where whole is zero."""
    is_zero = whole == 0
    return functions.where(is_zero, 0.0, x / functions.where(is_zero, 1.0, whole))


def _power_slope(x: Tensor, p: float) -> Tensor:
    """sgn(x) * |x| ** (p - 1), zero at zero."""
    if p >= 2:
        return x * x.abs() ** (p - 2)
    is_zero = x == 0
    return functions.where(
        is_zero, 0.0, functions.sgn(x) * functions.where(is_zero, 1, x).abs() ** (p - 1)
    )


def renorm_backward(grad: Tensor, self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    ndim = self._geometry.ndim
    others = tuple([d for d in range(ndim) if d != dim % ndim])
    size = calls.linalg_vector_norm(self, p, others, True, dtype=None)
    along = grad * conj(self)
    if along._geometry.dtype.is_complex:
        along = calls.select_int(calls.view_as_real(along), -1, 0)
    along = calls.sum_dim_IntList(along, others, True)
    by_norm = norm_backward(along, self, p, size, others, True)
    inverse = 1 / (size + 1e-7)
    shorter = maxnorm * inverse * (grad - inverse * by_norm)
    return functions.where(size > maxnorm, shorter, grad)


def cdist_backward(
    grad: Tensor, x1: Tensor, x2: Tensor, p: float, result: Tensor, is_second: bool
) -> Tensor:
    """Of x1, or of x2, whose batches may have been broadcast."""
    if not x1._geometry.sizes[-1] or not result._geometry.numel:
        return functions.zeros_like(x2 if is_second else x1)
    apart = calls.unsqueeze(x1, -2) - calls.unsqueeze(x2, -3)
    found = _distance_slope(apart, p, calls.unsqueeze(result, -1)) * calls.unsqueeze(grad, -1)
    if is_second:
        return -calls.sum_dim_IntList(found, (-3,), False)
    return calls.sum_dim_IntList(found, (-2,), False)


def _distance_slope(apart: Tensor, p: float, size: Tensor) -> Tensor:
    if p == 0:
        return functions.zeros_like(apart)
    if p == 1:
        return functions.sgn(apart)
    if p == 2:
        return _share(apart, size)
    if p == float("inf"):
        return functions.where(apart.abs() == size, functions.sgn(apart), 0.0)
    return _share(_power_slope(apart, p), size ** (p - 1))


def euclidean_dist_backward(grad: Tensor, x1: Tensor, x2: Tensor, result: Tensor) -> Tensor:
    ratio = _share(grad, result)
    return x1 * calls.sum_dim_IntList(ratio, (-1,), True) - calls.matmul(ratio, x2)


def pdist_backward(grad: Tensor, self: Tensor, p: float, result: Tensor) -> Tensor:
    made = functions.zeros_like(self)
    rows, start = self._geometry.sizes[0], 0
    for r in range(rows - 1):
        count = rows - 1 - r
        size = calls.unsqueeze(calls.slice_Tensor(result, 0, start, start + count, 1), -1)
        part = calls.unsqueeze(calls.slice_Tensor(grad, 0, start, start + count, 1), -1)
        apart = calls.select_int(self, 0, r) - calls.slice_Tensor(self, 0, r + 1, rows, 1)
        slope = _distance_slope(apart, p, size) * part
        head = functions.zeros_like(calls.slice_Tensor(self, 0, 0, r, 1))
        own = calls.sum_dim_IntList(slope, (0,), True)
        made = made + calls.cat([head, own, -slope], 0)
        start += count
    return made


# --- scans ----------------------------------------------------------------------------------------


def cummaxmin_backward(grad: Tensor, self: Tensor, indices: Tensor, dim: int) -> Tensor:
    """Each element's gradient goes to the one that it repeats."""
    if grad._geometry.numel == 0 or grad._geometry.ndim == 0:
        return grad
    return calls.scatter_add(functions.zeros_like(self), dim, indices, grad)


def cumsum_backward(grad: Tensor, dim: int) -> Tensor:
    if grad._geometry.numel <= 1:
        return grad
    return calls.flip(calls.cumsum(calls.flip(grad, (dim,)), dim, None), (dim,))


def not_implemented(operand: str) -> Any:
    """Where PyTorch has no derivative either: asked for, it is refused; the others are there."""
    raise errors.derivative_not_implemented(operand)


def cumprod_backward(grad: Tensor, self: Tensor, dim: int, order: int = 2) -> Tensor:
    """At the first zero of a row the products without it, and behind it nothing is left; but that
    nothing has derivatives by the zero, so where it is differentiated it is zero times what would
    be there. So are derivatives of `order` right, whatever is zero."""
    if grad._geometry.numel <= 1:
        return grad
    x = calls.to_dtype(self, grad._geometry.dtype, False, False, None)
    is_zero = x == 0
    is_first = functions.where(is_zero, calls.cumsum(is_zero, dim, None) == 1, False)
    without = calls.cumprod(functions.where(is_first, 1, x), dim, None)
    at_zero = cumsum_backward(conj(without) * grad, dim)
    usual = cumsum_backward(conj(calls.cumprod(x, dim, None)) * grad, dim)
    made = functions.where(is_first, at_zero, usual / conj(functions.where(is_zero, 1, x)))
    if order == 1 or not is_grad_enabled():
        return made
    first = calls.sum_dim_IntList(functions.where(is_first, x, 0), (dim,), True, None)
    is_behind = functions.where(is_first, False, calls.cumsum(is_first, dim, None) == 1)
    beside = cumprod_backward(grad, functions.where(is_first, 1, x), dim, order - 1)
    return functions.where(is_behind, conj(first) * beside, made)


def logcumsumexp_backward(grad: Tensor, self: Tensor, result: Tensor, dim: int) -> Tensor:
    """By the logarithms of positive and of negative gradients, which do not overflow."""
    if grad._geometry.numel == 0 or grad._geometry.ndim == 0:
        return grad

    def behind(x: Tensor) -> Tensor:
        return calls.flip(calls.logcumsumexp(calls.flip(x, (dim,)), dim), (dim,))

    if grad._geometry.dtype.is_complex:
        return conj((behind(conj(grad).log() - result) + self).exp())
    # finite, for derivatives of this; f16 has none lower
    logs, least = grad.abs().log(), -65504.0 if grad._geometry.dtype.short == "f16" else -3e38
    up = (behind(functions.where(grad > 0, logs, least) - result) + self).exp()
    down = (behind(functions.where(grad < 0, logs, least) - result) + self).exp()
    return up - down


def evenly_backward(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """The gradient of one element of all, shared out among those that equal it."""
    chosen = functions.where(result == result, self == result, self != self)
    return functions.where(chosen, grad / calls.sum(chosen, dtype=None), 0.0)


# --- views ----------------------------------------------------------------------------------------


def shapes(tensors: Any) -> list[Sizes]:
    return [x._geometry.sizes for x in tensors]


def geometry(x: Tensor) -> tuple[Geometry, int]:
    """Layout and offset, without the elements."""
    return x._geometry, x._offset


def permute_backward(grad: Tensor, dims: Any) -> Tensor:
    order = [0] * len(dims)
    for number, d in enumerate(dims):
        order[d] = number
    return calls.permute(grad, tuple(order))


def _zeros_around(grad: Tensor, shape: Sizes) -> Tensor:
    return calls.new_zeros(grad, shape, None, None, None, None)


def select_backward(grad: Tensor, shape: Sizes, dim: int, index: int) -> Tensor:
    made = _zeros_around(grad, shape)
    calls.copy_(calls.select_int(made, dim, index), grad, False)
    return made


def slice_backward(
    grad: Tensor, shape: Sizes, dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    made = _zeros_around(grad, shape)
    calls.copy_(calls.slice_Tensor(made, dim, start, end, step), grad, False)
    return made


def diagonal_backward(grad: Tensor, shape: Sizes, offset: int, dim1: int, dim2: int) -> Tensor:
    made = _zeros_around(grad, shape)
    calls.copy_(calls.diagonal(made, offset, dim1, dim2), grad, False)
    return made


def as_strided_backward(
    grad: Tensor, source: tuple[Geometry, int], size: Any, stride: Any, storage_offset: int | None
) -> Tensor:
    """The gradient scattered into the memory of both, and read back as the source reads.

    Where elements of the source share memory, each gets its part of the gradient there.
    """
    shape, start = source
    begin = start if storage_offset is None else storage_offset
    first = min(start, begin)
    sizes, strides = tuple(size), tuple(stride)
    if shape.numel == 0 or 0 in sizes:
        return _zeros_around(grad, shape.sizes)
    end = max(start - first + shape.extent, begin - first + _extent(sizes, strides))
    memory = _zeros_around(grad, (end,))
    _scatter(memory, grad, sizes, strides, begin - first)
    if _may_overlap(shape.sizes, shape.strides):
        numbers = functions.arange(end, device=grad.device)
        places = calls.as_strided(numbers, shape.sizes, shape.strides, start - first)
        count = _zeros_around(grad, (end,)).detach()
        ones = calls.ones_like(calls.to_dtype(places, grad.dtype))
        _scatter(count, ones, shape.sizes, shape.strides, start - first)
        memory = memory / functions.where(count == 0, 1, count)
    return calls.as_strided(memory, shape.sizes, shape.strides, start - first)


def _extent(sizes: Sizes, strides: Sizes) -> int:
    return 1 + sum([(n - 1) * s for n, s in zip(sizes, strides)])


def _may_overlap(sizes: Sizes, strides: Sizes) -> bool:
    """False if surely no two indices reach one element: each stride steps over all within."""
    reach = 0
    for stride, n in sorted(zip(strides, sizes)):
        if n > 1:
            if stride <= reach:
                return True
            reach += stride * (n - 1)
    return False


def _scatter(memory: Tensor, grad: Tensor, sizes: Sizes, strides: Sizes, offset: int) -> None:
    """Add `grad` to the elements of `memory`, 1-d or contiguous, that this layout reaches.

    Layouts that reach an element twice are taken apart along their shortest dimension.
    """
    expanded = tuple([d for d, (n, s) in enumerate(zip(sizes, strides)) if s == 0 and n > 1])
    if expanded:
        grad = calls.sum_dim_IntList(grad, expanded, True)
        sizes = tuple([1 if d in expanded else n for d, n in enumerate(sizes)])
    if not _may_overlap(sizes, strides):
        calls.add__Tensor(calls.as_strided(memory, sizes, strides, offset), grad, 1)
        return
    d = min([k for k, n in enumerate(sizes) if n > 1], key=lambda k: sizes[k])
    rest, hops = sizes[:d] + sizes[d + 1 :], strides[:d] + strides[d + 1 :]
    for i in range(sizes[d]):
        _scatter(memory, calls.select_int(grad, d, i), rest, hops, offset + i * strides[d])


# --- join -----------------------------------------------------------------------------------------


def cat_backward(grad: Tensor, sizes: list[Sizes], dim: int) -> list[Tensor]:
    begin, found = 0, []
    for shape in sizes:
        if shape == (0,):  # joins anything, and takes no part
            found.append(_zeros_around(grad, shape))
            continue
        found.append(calls.slice_Tensor(grad, dim, begin, begin + shape[dim], 1))
        begin += shape[dim]
    return found


def repeat_backward(grad: Tensor, repeats: Any, shape: Sizes) -> Tensor:
    """Sums over the repetitions."""
    extra = len(repeats) - len(shape)
    if 0 in repeats:
        return _zeros_around(grad, shape)
    split: list[int] = []
    dims: list[int] = []
    for d, times in enumerate(repeats):
        dims.append(len(split))
        split += [times] if d < extra else [times, shape[d - extra]]
    if not dims:
        return grad
    return calls.sum_dim_IntList(grad.reshape(split), tuple(dims), False)


# --- indices --------------------------------------------------------------------------------------


def index_backward(grad: Tensor, shape: Sizes, indices: Any) -> Tensor:
    return calls.index_put_(_zeros_around(grad, shape), indices, grad, True)


def unsafe_index_backward(grad: Tensor, shape: Sizes, indices: Any) -> Tensor:
    return calls._unsafe_index_put(_zeros_around(grad, shape), indices, grad, True)


def unsafe_masked_index_backward(grad: Tensor, shape: Sizes, mask: Tensor, indices: Any) -> Tensor:
    zeros = _zeros_around(grad, shape)
    return calls._unsafe_masked_index_put_accumulate(zeros, mask, indices, grad)


def index_put_self_backward(grad: Tensor, indices: Any, values: Tensor, accumulate: bool) -> Tensor:
    if accumulate:
        return grad
    return calls.index_put(grad, indices, _zeros_around(values, ()), False)


def gather_backward(grad: Tensor, shape: Sizes, dim: int, index: Tensor) -> Tensor:
    return calls.scatter_add_(_zeros_around(grad, shape), dim, index, grad)


def _corner(x: Tensor, sizes: Sizes) -> Tensor:
    """The first of the indices of each dimension, as many as `sizes` has."""
    for d, n in enumerate(sizes):
        if n != x._geometry.sizes[d]:
            x = calls.slice_Tensor(x, d, 0, n, 1)
    return x


def _in_corner(found: Tensor, shape: Sizes) -> Tensor:
    """`found` with zeros behind it, where it is smaller than `shape`."""
    if found._geometry.sizes == shape:
        return found
    made = _zeros_around(found, shape)
    calls.copy_(_corner(made, found._geometry.sizes), found, False)
    return made


def scatter_src_backward(grad: Tensor, shape: Sizes, dim: int, index: Tensor) -> Tensor:
    """The gradient of a source of which no more than the index's sizes is read."""
    return _in_corner(calls.gather(grad, dim, index, False), shape)


def index_select_backward(grad: Tensor, shape: Sizes, dim: int, index: Tensor) -> Tensor:
    return calls.index_add_(_zeros_around(grad, shape), dim, index, grad, 1)


def take_backward(grad: Tensor, shape: Sizes, index: Tensor) -> Tensor:
    return calls.put_(_zeros_around(grad, shape), index, grad, True)


def put_self_backward(grad: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    return grad if accumulate else grad.put(index, functions.zeros_like(source), False)


def index_fill_value_backward(grad: Tensor, dim: int, index: Tensor) -> Tensor:
    """The sum of the gradient over all that was filled, once each."""
    mask = functions.zeros_like(grad, dtype=_bool()).index_fill(dim, index, True)
    return functions.where(mask, grad, 0).sum()


def _bool() -> Any:
    from ..core.dtype import bool_

    return bool_


def slice_scatter_backward(
    grad: Tensor, dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    zeros = functions.zeros_like(calls.slice_Tensor(grad, dim, start, end, step))
    return calls.slice_scatter(grad, zeros, dim, start, end, step)


class _Along:
    """How scatter_reduce and index_reduce find places, for the derivative that they share."""

    def __init__(self, name: str, dim: int, index: Tensor) -> None:
        self.dim, self.index, self.is_scatter = dim, index, name == "scatter_reduce"
        self.reduce = getattr(functions, name)

    def read(self, x: Tensor) -> Tensor:
        name = "gather" if self.is_scatter else "index_select"
        found: Tensor = getattr(functions, name)(x, self.dim, self.index)
        return found

    def add(self, x: Tensor, source: Tensor) -> Tensor:
        name = "scatter_add" if self.is_scatter else "index_add"
        made: Tensor = getattr(functions, name)(x, self.dim, self.index, source)
        return made

    def clear(self, x: Tensor) -> Tensor:
        name = "scatter" if self.is_scatter else "index_fill"
        made: Tensor = getattr(functions, name)(x, self.dim, self.index, 0)
        return made


def _reduce_self_backward(
    at: _Along, grad: Tensor, self: Tensor, source: Tensor, reduce: str, include_self: bool,
    result: Tensor,
) -> Tensor:  # fmt: skip
    if reduce == "prod":
        filled = functions.where(self == 0, 1, self)
        made = at.reduce(filled, at.dim, at.index, source, reduce, include_self=include_self)
        found = grad * conj(made / filled)
    elif reduce == "mean":
        found = grad / _counts(at, grad, source, include_self)
    elif reduce == "sum":
        found = grad
    else:
        found = (self == result) * _shared(at, grad, self, source, result)
    return found if include_self else at.clear(found)


def _reduce_source_backward(
    at: _Along, grad: Tensor, self: Tensor, source: Tensor, reduce: str, include_self: bool,
    result: Tensor,
) -> Tensor:  # fmt: skip
    if reduce == "prod":
        # the product of the others, where one factor alone is zero
        is_zero = source == 0
        zeros = at.read(at.add(functions.zeros_like(self), _as(is_zero, self)))
        is_single = functions.where(is_zero, zeros == 1, is_zero)
        others = functions.where(is_single, 1, source)
        made = at.reduce(self, at.dim, at.index, others, reduce, include_self=include_self)
        rest = at.read(grad * conj(result)) / conj(functions.where(is_zero, 1, source))
        return functions.where(is_single, at.read(grad * conj(made)), rest)
    if reduce == "mean":
        return at.read(grad) / at.read(_counts(at, grad, source, include_self))
    if reduce == "sum":
        return at.read(grad)
    return (source == at.read(result)) * at.read(_shared(at, grad, self, source, result))


def _as(mask: Tensor, like: Tensor) -> Tensor:
    return calls.to_dtype(mask, like._geometry.dtype, False, False, None)


def _counts(at: _Along, grad: Tensor, source: Tensor, include_self: bool) -> Tensor:
    start = functions.ones_like(grad) if include_self else functions.zeros_like(grad)
    counts = at.add(start.detach(), functions.ones_like(source).detach())
    return functions.where(counts == 0, 1, counts)


def _shared(at: _Along, grad: Tensor, self: Tensor, source: Tensor, result: Tensor) -> Tensor:
    """The gradient, shared out evenly among equal extremes."""
    is_extreme = _as(source == at.read(result), self)
    return grad / at.add(_as(self == result, self), is_extreme)


# What the reductions of scatter's own argument are called in scatter_reduce.
_REDUCTIONS = {"add": "sum", "multiply": "prod"}


def scatter_value_backward(
    grad: Tensor, dim: int, index: Tensor, value: Any, reduce: str
) -> Tensor:
    if reduce == "add":
        return grad
    return functions.scatter(grad, dim, index, value.conjugate(), reduce=reduce)


def scattered_self(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str,
    include_self: bool, result: Tensor,
) -> Tensor:  # fmt: skip
    reduce = _REDUCTIONS.get(reduce, reduce)
    at, src = _Along("scatter_reduce", dim, index), _corner(src, index._geometry.sizes)
    return _reduce_self_backward(at, grad, self, src, reduce, include_self, result)


def scattered_src(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str,
    include_self: bool, result: Tensor,
) -> Tensor:  # fmt: skip
    reduce = _REDUCTIONS.get(reduce, reduce)
    at, read = _Along("scatter_reduce", dim, index), _corner(src, index._geometry.sizes)
    found = _reduce_source_backward(at, grad, self, read, reduce, include_self, result)
    return _in_corner(found, src._geometry.sizes)


def index_self(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str,
    include_self: bool, result: Tensor,
) -> Tensor:  # fmt: skip
    at = _Along("index_reduce", dim, index)
    return _reduce_self_backward(at, grad, self, source, reduce, include_self, result)


def index_source(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str,
    include_self: bool, result: Tensor,
) -> Tensor:  # fmt: skip
    at = _Along("index_reduce", dim, index)
    return _reduce_source_backward(at, grad, self, source, reduce, include_self, result)


# --- embedding ------------------------------------------------------------------------------------


def embedding_double_backward(
    grad: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    found = calls.embedding(grad, indices, padding_idx, False, False)
    if scale_grad_by_freq:
        found = found / _frequencies(grad, indices).unsqueeze(-1)
    if padding_idx < 0:
        return found
    return functions.where((indices == padding_idx).unsqueeze(-1), 0, found)


def _frequencies(grad: Tensor, indices: Tensor) -> Tensor:
    """How often each index is there, in its place; rows of grad are what they name."""
    flat = indices.reshape(-1)
    ones = functions.ones_like(flat, dtype=grad.dtype)
    counts = calls.index_add(_zeros_around(grad, grad._geometry.sizes[:1]), 0, flat, ones, 1)
    return calls.index_select(counts, 0, flat).reshape(indices.shape)


def bag_weight_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool,
    mode: int, per_sample_weights: Any, include_last_offset: bool, padding_idx: int,
) -> Tensor:  # fmt: skip
    from ..native.embedding import MAX, MEAN, Bags

    bags = Bags(indices, offsets, include_last_offset, padding_idx)
    zeros = _zeros_around(grad, weight._geometry.sizes)
    if mode == MAX:
        places = calls._embedding_bag_forward_only(
            weight.detach(), indices, offsets, False, MAX, False, None, include_last_offset,
            padding_idx,
        )[3]  # fmt: skip
        given = functions.where((bags.sizes == 0).unsqueeze(1), 0, grad)
        return calls.scatter_add_(zeros, 0, places, given)
    if mode == MEAN:
        grad = grad / functions.where(bags.sizes == 0, 1, bags.sizes).unsqueeze(1)
    each = calls.index_select(grad, 0, bags.of)
    if per_sample_weights is not None:
        each = each * conj(per_sample_weights).unsqueeze(1)
    if scale_grad_by_freq:
        each = each / _frequencies(zeros, indices).unsqueeze(1)
    return calls.index_add_(zeros, 0, indices, bags.without_padding(each), 1)


def bag_samples_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, include_last_offset: bool,
    padding_idx: int,
) -> Tensor:  # fmt: skip
    from ..native.embedding import Bags

    bags = Bags(indices, offsets, include_last_offset, padding_idx)
    each = calls.index_select(grad, 0, bags.of) * conj(calls.index_select(weight, 0, indices))
    return bags.without_padding(each).sum(1)


# --- shape ----------------------------------------------------------------------------------------


def roll_backward(grad: Tensor, shifts: Any, dims: Any) -> Tensor:
    moves = (shifts,) if type(shifts) is int else tuple(shifts)
    axes = (dims,) if type(dims) is int else tuple(dims)
    return calls.roll(grad, tuple([-n for n in reversed(moves)]), axes[::-1])


def constant_pad_nd_backward(grad: Tensor, pad: Any) -> Tensor:
    return calls.constant_pad_nd(grad, tuple([-n for n in pad]), 0)


def channel_shuffle_backward(grad: Tensor, groups: int) -> Tensor:
    return calls.channel_shuffle(grad, max(grad._geometry.sizes[1] // groups, 1))


def im2col_backward(
    grad: Tensor, shape: Sizes, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Tensor:
    return calls.col2im(grad, shape[-2:], kernel_size, dilation, padding, stride)


def as_strided_of(
    grad: Tensor, source: tuple[Geometry, int], size: Any, stride: Any, storage_offset: int | None
) -> Tensor:
    """What as_strided would take of a gradient that lies as its source did."""
    shape, start = source
    begin = start if storage_offset is None else storage_offset
    end = max(start + shape.extent, begin + _extent(size, stride), 1)
    memory = _zeros_around(grad, (end,))
    calls.copy_(calls.as_strided(memory, shape.sizes, shape.strides, start), grad, False)
    return calls.as_strided(memory, tuple(size), tuple(stride), begin)


def strided_scatter_backward(
    grad: Tensor, source: tuple[Geometry, int], size: Any, stride: Any, storage_offset: int | None
) -> Tensor:
    """The gradient without what was replaced."""
    shape, start = source
    begin = start if storage_offset is None else storage_offset
    end = max(start + shape.extent, begin + _extent(size, stride), 1)
    memory = _zeros_around(grad, (end,))
    calls.copy_(calls.as_strided(memory, shape.sizes, shape.strides, start), grad, False)
    calls.mul__Tensor(calls.as_strided(memory, tuple(size), tuple(stride), begin), 0)
    return calls.as_strided(memory, shape.sizes, shape.strides, start)


def diagonal_scatter_backward(grad: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    zeros = functions.zeros_like(calls.diagonal(grad, offset, dim1, dim2))
    return functions.diagonal_scatter(grad, zeros, offset, dim1, dim2)


def sort_backward(grad: Tensor, dim: int, indices: Tensor, shape: Sizes) -> Tensor:
    """The gradient where each element came from, zeros where none did."""
    if not shape:
        return grad
    return calls.scatter_src(_zeros_around(grad, shape), dim, indices, grad)
