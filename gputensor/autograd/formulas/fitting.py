"""Functions that fit gradients to the sizes, dtype and layout of their tensors. The engine calls
them.

Source: torch/csrc/autograd/FunctionsManual.cpp.
"""

from __future__ import annotations

from typing import Any

from ..._generated import calls
from ...core import errors
from ...core.geometry import Geometry
from ...tensor.tensor import Tensor

Sizes = tuple[int, ...]


# --- fitting a gradient to its tensor; called by the engine -------------------------------------


# `_sums` maps the sizes of a gradient and the sizes of its tensor to the steps of the sum: the
# dimensions to sum over, whether to keep these dimensions, and whether to drop leading dimensions.
# `_fits` maps their geometries to these steps and whether to cast. Both are caches, because a
# program repeats a few pairs of sizes in every training step.
_sums: dict[tuple[Sizes, Sizes], tuple[Sizes, bool, bool]] = {}
_fits: dict[tuple[Geometry, Geometry], tuple[Sizes, bool, bool, bool]] = {}
_BOUND = 1 << 12


def sum_to_size(grad: Tensor, sizes: Sizes) -> Tensor:
    """Sum `grad` over the broadcast dimensions, so that the result has the sizes `sizes`."""
    pair = (grad._geometry.sizes, sizes)
    known = _sums.get(pair)
    if known is None:
        if len(_sums) >= _BOUND:
            _sums.clear()
        known = _sums[pair] = _how_to_sum(*pair)
    dims, keepdim, is_viewed = known
    if not dims:
        return grad
    grad = calls.sum_dim_IntList(grad, dims, keepdim)
    return calls.view(grad, sizes) if is_viewed else grad


def _how_to_sum(given: Sizes, sizes: Sizes) -> tuple[Sizes, bool, bool]:
    extra = len(given) - len(sizes)
    leading = tuple(range(extra))
    if given[extra:] == sizes:
        return leading, False, False
    inner = [d + extra for d, n in enumerate(sizes) if n == 1 and given[d + extra] != 1]
    return (*leading, *inner), True, extra > 0


def fit(grad: Tensor, shape: Geometry, device: Any, source: Any, number: int) -> Tensor:
    """Return `grad` with the sizes, dtype and device of the tensor to which it belongs.

    source, number: the node that made the gradient (None for the caller), and the number of the
    operand.
    """
    if not isinstance(grad, Tensor):
        raise errors.wrong_gradient(_name(source), number, grad, "a Tensor or None")
    pair = (grad._geometry, shape)
    known = _fits.get(pair)
    if known is None:
        given, wanted = grad._geometry.sizes, shape.sizes
        if not _is_broadcast(given, wanted):
            rule = f"shape compatible with {list(wanted)}"
            raise errors.wrong_gradient(_name(source), number, grad, rule)
        if len(_fits) >= _BOUND:
            _fits.clear()
        how = _how_to_sum(given, wanted) if given != wanted else ((), False, False)
        known = _fits[pair] = (*how, grad._geometry.dtype is not shape.dtype)
    dims, keepdim, is_viewed, is_cast = known
    if dims:
        grad = calls.sum_dim_IntList(grad, dims, keepdim)
        if is_viewed:
            grad = calls.view(grad, shape.sizes)
    if is_cast:
        grad = calls.to_dtype(grad, shape.dtype, False, False, None)
    if grad._device is not device:
        if pair[0].ndim:
            raise errors.wrong_gradient(_name(source), number, grad, f"device {device}")
        grad = calls.to_device(grad, device, shape.dtype, False, False, None)
    return grad


def _name(source: Any) -> str:
    return "backward" if source is None else source.name()


def _is_broadcast(sizes: Sizes, source: Sizes) -> bool:
    extra = len(sizes) - len(source)
    return extra >= 0 and all(n in (1, m) for n, m in zip(source, sizes[extra:]))
