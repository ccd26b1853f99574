"""Broadcasting of parameters, conversion of probabilities and logits, triangles, lazy properties.

Source: torch/distributions/utils.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from .._generated.functions import arange, empty
from ..autograd import enable_grad
from ..core import errors, lazy
from ..dispatch.defaults import get_default_dtype
from ..exchange.construct import tensor
from ..functional import broadcast_tensors
from ..nn import functional as F
from ..tensor.tensor import Tensor
from ..tensor.type_info import finfo

__all__ = [
    "broadcast_all", "clamp_probs", "euler_constant", "lazy_property", "logits_to_probs",
    "probs_to_logits", "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip
R = TypeVar("R")
euler_constant: float = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Broadcast tensors and numbers with one another.

    A number takes the dtype and device of the first tensor, or the default dtype if all are
    numbers.
    Raises: ArgumentValueError for a value of another type.
    """
    for value in values:
        if not isinstance(value, (Tensor, bool, int, float)):
            rule, kind = "be Tensors or numbers", errors.ArgumentValueError
            raise errors.must("broadcast_all", "values", rule, value, kind=kind)
    like = next((value for value in values if isinstance(value, Tensor)), None)
    dtype = get_default_dtype() if like is None else like.dtype
    device = None if like is None else like.device
    made = [v if isinstance(v, Tensor) else tensor(v, dtype=dtype, device=device) for v in values]
    return tuple(broadcast_tensors(*made))


def sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Sum over the last `dim` dimensions."""
    return value.sum(tuple(range(-dim, 0))) if dim > 0 else value


def standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    """Draw standard normal numbers."""
    return empty(shape, dtype=dtype, device=device).normal_()


# PyTorch programs import these names from torch.distributions.utils.
_sum_rightmost, _standard_normal = sum_rightmost, standard_normal


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Convert logits to probabilities. The logits are log odds if is_binary, otherwise unnormalized
    log probabilities of shape (*, k)."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamp probabilities to [eps, 1 - eps], with the machine epsilon of their dtype."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Clamp probabilities, then convert them to log odds if is_binary, otherwise to log
    probabilities."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property(Generic[R]):
    """A property that is computed when it is first read, and then stored in the instance."""

    wrapped: Callable[[Any], R]

    def __init__(self, wrapped: Callable[[Any], R]) -> None:
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: Any = None) -> lazy_property[R]: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> R: ...
    def __get__(self, instance: object | None, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.name] = value
        return value


def quantity(formula: Callable[[Any], Any]) -> Any:
    """Define a property in one line: `mean = quantity(lambda self: self.loc)`."""
    return property(formula)


def computed(formula: Callable[[Any], Any]) -> Any:
    """Define a lazy_property in one line: `probs: Tensor = computed(lambda self: ...)`."""
    return lazy_property(formula)


def _triangle(size: int, diag: int, like: Tensor) -> Tensor:
    column = arange(size, device=like.device)
    return column < column.unsqueeze(-1) + (diag + 1)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the elements of `mat` on and below diagonal `diag`, in row order.

    mat: (*, n, n). The result has the shape (*, m).
    """
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise errors.must("tril_matrix_to_vec", "diag", f"be in [{-size}, {size - 1}]", diag,
                          kind=errors.ArgumentValueError)  # fmt: skip
    return mat[..., _triangle(size, diag, mat)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return a matrix (*, n, n) that holds `vec`, (*, m), in row order on and below diagonal
    `diag`."""
    offset, count = 1 + 2 * diag, vec.shape[-1]
    exact = (math.sqrt(offset**2 + 8 * count + 4 * abs(diag) * (diag + 1)) - offset) / 2
    size = round(exact)
    if abs(size - exact) > 1e-9:
        raise errors.must("vec_to_tril_matrix", "vec", "fill the triangle of a square matrix", vec,
                          kind=errors.ArgumentValueError)  # fmt: skip
    mat = vec.new_zeros((*vec.shape[:-1], size, size))
    mat[..., _triangle(size, diag, vec)] = vec
    return mat


def shifted(x: Tensor, left: int, right: int) -> Tensor:
    """Pad the last dimension of `x` with `left` ones before and `right` ones after the elements."""
    return F.pad(x, (left, right), value=1.0)


def tiny(x: Tensor) -> float:
    """Return the smallest positive normal number of x's dtype."""
    return finfo(x.dtype).tiny


def absent(owner: object, what: str) -> errors.GpuTensorError:
    """Return the error for a property or method that `owner`'s class does not define."""
    return errors.AbsentError(f"{type(owner).__name__}: has no {what}")


def refused(owner: object, arg: str, rule: str, got: Any) -> errors.GpuTensorError:
    """Return the ValueError for an invalid argument of `owner`."""
    return errors.must(type(owner).__name__, arg, rule, got, kind=errors.ArgumentValueError)


def all_instances(values: Sequence[Any], kind: type) -> bool:
    return isinstance(values, (list, tuple)) and all(isinstance(v, kind) for v in values)


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
