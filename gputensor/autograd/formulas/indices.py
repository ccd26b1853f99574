"""Derivatives of indexing, scattering and embeddings.

Source: torch/csrc/autograd/FunctionsManual.cpp.
"""

from __future__ import annotations

from typing import Any

from ..._generated import calls, functions
from ...core.dtype import bool_
from ...structured.indexed import cropped
from ...tensor.tensor import Tensor
from .fitting import Sizes
from .numbers import conj
from .views import _zeros_around


# --- indices --------------------------------------------------------------------------------------


def unsafe_masked_index_backward(grad: Tensor, shape: Sizes, mask: Tensor, indices: Any) -> Tensor:
    zeros = _zeros_around(grad, shape)
    return calls._unsafe_masked_index_put_accumulate(zeros, mask, indices, grad)


def index_put_self_backward(grad: Tensor, indices: Any, values: Tensor, accumulate: bool) -> Tensor:
    if accumulate:
        return grad
    return calls.index_put(grad, indices, _zeros_around(values, ()), False)


def _incropped(found: Tensor, shape: Sizes) -> Tensor:
    """Return `found`, padded with zeros at the end to `shape`."""
    if found._geometry.sizes == shape:
        return found
    made = _zeros_around(found, shape)
    calls.copy_(cropped(made, found._geometry.sizes), found, False)
    return made


def scatter_src_backward(grad: Tensor, shape: Sizes, dim: int, index: Tensor) -> Tensor:
    """Return the gradient of the source of scatter. It is zero outside the index's sizes, because
    scatter does not read the source there."""
    return _incropped(calls.gather(grad, dim, index, False), shape)


def index_fill_value_backward(grad: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return the sum of the gradient over all filled elements. An element counts once, even if
    `index` contains its position several times."""
    mask = functions.zeros_like(grad, dtype=bool_).index_fill(dim, index, True)
    return functions.where(mask, grad, 0).sum()


def slice_scatter_backward(
    grad: Tensor, dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    zeros = functions.zeros_like(calls.slice_Tensor(grad, dim, start, end, step))
    return calls.slice_scatter(grad, zeros, dim, start, end, step)


def _reduced_self_backward(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str,
    include_self: bool, result: Tensor,
) -> Tensor:  # fmt: skip
    """Return the gradient of self in scatter_reduce. index has the sizes of `source`."""
    if reduce == "prod":
        filled = functions.where(self == 0, 1, self)
        made = functions.scatter_reduce(
            filled, dim, index, source, reduce, include_self=include_self
        )
        found = grad * conj(made / filled)
    elif reduce == "mean":
        found = grad / _counts(grad, dim, index, include_self)
    elif reduce == "sum":
        found = grad
    else:
        found = (self == result) * _shared(grad, self, dim, index, source, result)
    return found if include_self else functions.scatter(found, dim, index, 0)


def _reduced_source_backward(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str,
    include_self: bool, result: Tensor,
) -> Tensor:  # fmt: skip
    """Return the gradient of the source in scatter_reduce. index has the sizes of `source`."""

    def read(x: Tensor) -> Tensor:
        return functions.gather(x, dim, index)

    if reduce == "prod":
        # If exactly one factor is zero, its derivative is the product of the other factors.
        is_zero, none = source == 0, functions.zeros_like(self)
        zeros = read(functions.scatter_add(none, dim, index, _as(is_zero, self)))
        is_single = functions.where(is_zero, zeros == 1, is_zero)
        others = functions.where(is_single, 1, source)
        made = functions.scatter_reduce(self, dim, index, others, reduce, include_self=include_self)
        rest = read(grad * conj(result)) / conj(functions.where(is_zero, 1, source))
        return functions.where(is_single, read(grad * conj(made)), rest)
    if reduce == "mean":
        return read(grad / _counts(grad, dim, index, include_self))
    if reduce == "sum":
        return read(grad)
    return (source == read(result)) * read(_shared(grad, self, dim, index, source, result))


def _as(mask: Tensor, like: Tensor) -> Tensor:
    return calls.to_dtype(mask, like._geometry.dtype, False, False, None)


def _counts(grad: Tensor, dim: int, index: Tensor, include_self: bool) -> Tensor:
    start = functions.ones_like(grad) if include_self else functions.zeros_like(grad)
    ones = functions.ones_like(index, dtype=grad.dtype)
    counts = functions.scatter_add(start.detach(), dim, index, ones)
    return functions.where(counts == 0, 1, counts)


def _shared(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, source: Tensor, result: Tensor
) -> Tensor:
    """Return the gradient, divided evenly among equal maxima or minima."""
    is_extreme = _as(source == functions.gather(result, dim, index), self)
    return grad / functions.scatter_add(_as(self == result, self), dim, index, is_extreme)


# Maps a name of a reduction in scatter to its name in scatter_reduce.
_REDUCTIONS = {"add": "sum", "multiply": "prod"}


def scatter_value_backward(
    grad: Tensor, dim: int, index: Tensor, value: Any, reduce: str
) -> Tensor:
    if reduce == "add":
        return grad
    return functions.scatter(grad, dim, index, value.conjugate(), reduce=reduce)


def scattered_self(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *rest: Any
) -> Tensor:
    reduce, src = _REDUCTIONS.get(reduce, reduce), cropped(src, index._geometry.sizes)
    return _reduced_self_backward(grad, self, dim, index, src, reduce, *rest)


def scattered_src(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *rest: Any
) -> Tensor:
    reduce, read = _REDUCTIONS.get(reduce, reduce), cropped(src, index._geometry.sizes)
    found = _reduced_source_backward(grad, self, dim, index, read, reduce, *rest)
    return _incropped(found, src._geometry.sizes)


def _of_rows(dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Convert the index of index_reduce to the equivalent index of scatter_reduce."""
    sizes = [1] * source._geometry.ndim
    if sizes:
        sizes[dim] = -1
    return index.reshape(sizes).expand(source._geometry.sizes)


def index_self(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, source: Tensor, *rest: Any
) -> Tensor:
    at = _of_rows(dim, index, source)
    return _reduced_self_backward(grad, self, dim, at, source, *rest)


def index_source(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, source: Tensor, *rest: Any
) -> Tensor:
    at = _of_rows(dim, index, source)
    return _reduced_source_backward(grad, self, dim, at, source, *rest)


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
    """Return the number of occurrences of each index."""
    flat = indices.reshape(-1)
    ones = functions.ones_like(flat, dtype=grad.dtype)
    counts = calls.index_add(_zeros_around(grad, grad._geometry.sizes[:1]), 0, flat, ones, 1)
    return calls.index_select(counts, 0, flat).reshape(indices.shape)


def bag_weight_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool,
    mode: int, per_sample_weights: Any, include_last_offset: bool, padding_idx: int,
) -> Tensor:  # fmt: skip
    from ...native.embedding import MAX, MEAN, Bags

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
    from ...native.embedding import Bags

    bags = Bags(indices, offsets, include_last_offset, padding_idx)
    each = calls.index_select(grad, 0, bags.of) * conj(calls.index_select(weight, 0, indices))
    return bags.without_padding(each).sum(1)
