"""Lookups of rows in a table: embedding and embedding_bag, composed of other operators.

Source: aten/src/ATen/native/Embedding.cpp and EmbeddingBag.cpp.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._generated import calls, operators
from ..core import errors
from ..core.device import CPU
from ..core.dtype import bfloat16, float16, float32, int32, int64
from ..core.geometry import contiguous_geometry
from ..dispatch import shortcuts
from ..kernels import stub
from ..structured import arguments, forms
from ..structured.forms import Kernel, given
from ..structured.indexed import Places, index_dtype, read
from ..structured.missing import ask_inplace
from ..structured.shortcuts import results as short_results
from ..tensor.make import CPU_KEYS, allocate
from ..tensor.tensor import Tensor
from .gather import as_int64
from .view import unsqueeze

SUM, MEAN, MAX = range(3)
_sum_bags = stub.compiled("embedding_bag", "sum")
_compare_bags = stub.compiled("embedding_bag", "max")


def _check_weight(op: str, weight: Tensor) -> None:
    if weight._geometry.ndim != 2:
        raise errors.wrong_shape(op, "weight", "have two dimensions", weight)


def _flat(indices: Tensor) -> Tensor:
    return calls.reshape(indices, (indices._geometry.numel,))


# --- embedding ------------------------------------------------------------------------------------


def embedding(
    key_set: int, weight: Tensor, indices: Tensor, padding_idx: int = -1,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    _check_weight("embedding", weight)
    index_dtype("embedding", indices, int64, int32, arg="indices")
    arguments.check_device("embedding", "weight", weight, "indices", indices)
    sizes = (*indices._geometry.sizes, weight._geometry.sizes[1])
    if weight._device is not CPU or weight._geometry.dtype.is_float8:
        return calls.view(calls.index_select(weight, 0, _flat(indices)), sizes)
    at = Places("embedding", weight, sizes, [as_int64(indices)], [0], 0, wraps=False)
    made = contiguous_geometry(sizes, weight._geometry.dtype)
    return read(at, allocate(made, weight._device))


def embedding_backward(
    key_set: int, grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int,
    scale_grad_by_freq: bool, sparse: bool,
) -> Tensor:  # fmt: skip
    if sparse:
        raise errors.must("embedding", "sparse", "be False", sparse)
    return calls.embedding_dense_backward(
        grad, indices, num_weights, padding_idx, scale_grad_by_freq
    )


def embedding_dense_backward(
    key_set: int, grad_output: Tensor, indices: Tensor, num_weights: int, padding_idx: int,
    scale_grad_by_freq: bool,
) -> Tensor:  # fmt: skip
    index_dtype("embedding_dense_backward", indices, int64, int32, arg="indices")
    if not grad_output._geometry.ndim:
        raise errors.wrong_shape(
            "embedding_dense_backward", "grad_output", "have a dimension", grad_output
        )
    at, width = _flat(indices), grad_output._geometry.sizes[-1]
    grad = calls.reshape(grad_output, (at._geometry.numel, width))
    if scale_grad_by_freq:
        grad = calls.div_Tensor(grad, calls.unsqueeze(_counts(grad, at, num_weights), 1))
    if padding_idx >= 0:
        grad = calls.where_self(calls.unsqueeze(calls.eq_Tensor(at, padding_idx), 1), 0, grad)
    zeros = calls.new_zeros(grad, (num_weights, width), None, None, None, None)
    ask_inplace(operators.index_add_, zeros, 0, at, grad, 1)
    return zeros


def _counts(grad: Tensor, at: Tensor, num_weights: int) -> Tensor:
    """Return, for each index in `at`, how often this index occurs in `at`."""
    zeros = calls.new_zeros(grad, (num_weights,), None, None, None, None)
    ones = calls.new_ones(grad, at._geometry.sizes, None, None, None, None)
    ask_inplace(operators.index_add_, zeros, 0, at, ones, 1)
    return calls.index_select(zeros, 0, at)


def embedding_renorm_(
    key_set: int, self: Tensor, indices: Tensor, max_norm: float, norm_type: float
) -> Tensor:
    """Scale the indexed rows whose norm exceeds max_norm to this norm."""
    _check_weight("embedding_renorm_", self)
    index_dtype("embedding_renorm_", indices, int64, int32, arg="indices")
    at = _flat(indices)
    rows = calls.index_select(self, 0, at)
    length = _norm(rows, norm_type)
    scale = calls.mul_Tensor(calls.reciprocal(calls.add_Tensor(length, 1e-7, 1)), max_norm)
    scale = calls.where_self(calls.gt_Tensor(length, max_norm), scale, 1.0)
    ask_inplace(operators.index_copy_, self, 0, at, calls.mul_Tensor(rows, scale))
    return self


def _norm(rows: Tensor, kind: float) -> Tensor:
    """Return the norms of the rows as a column."""
    sizes = calls.abs(rows)
    if kind == math.inf:
        return calls.amax(sizes, (1,), True)
    if kind == 2:
        return calls.sqrt(calls.sum_dim_IntList(calls.mul_Tensor(sizes, sizes), (1,), True))
    if kind != 1:
        sizes = calls.exp(calls.mul_Tensor(calls.log(sizes), kind))
    total = calls.sum_dim_IntList(sizes, (1,), True)
    return total if kind == 1 else calls.exp(calls.div_Tensor(calls.log(total), kind))


# --- embedding_bag --------------------------------------------------------------------------------


class Bags:
    """The bags of a call of embedding_bag. of: the bag of each index. counted: a mask of the
    indices that are counted; None if all are counted. sizes: the number of counted indices in each
    bag. count: the number of bags."""

    __slots__ = ("of", "counted", "sizes", "count")

    def __init__(
        self, indices: Tensor, offsets: Tensor, include_last_offset: bool, padding_idx: int
    ) -> None:
        n = indices._geometry.numel
        self.count: int = offsets._geometry.numel - bool(include_last_offset)
        starts = calls.slice_Tensor(offsets, 0, 0, self.count)
        marks = calls.new_zeros(indices, (n + 1,), int64, None, None, None)
        ones = calls.ones_like(starts, int64, None, None, None, None)
        ask_inplace(operators.index_add_, marks, 0, starts, ones, 1)
        self.of = calls.slice_Tensor(calls.sub_Tensor(calls.cumsum(marks, 0), 1, 1), 0, 0, n)
        self.counted = None if padding_idx < 0 else calls.ne_Tensor(indices, padding_idx)
        each = calls.ones_like(indices, int64, None, None, None, None)
        if self.counted is not None:
            each = calls.to_dtype(self.counted, int64, False, False, None)
        self.sizes: Tensor = calls.new_zeros(indices, (self.count,), int64, None, None, None)
        ask_inplace(operators.index_add_, self.sizes, 0, self.of, each, 1)

    def without_padding(self, rows: Tensor, instead: Any = 0) -> Tensor:
        if self.counted is None:
            return rows
        return calls.where_self(calls.unsqueeze(self.counted, 1), rows, instead)


def _check_bag(
    op: str, weight: Tensor, indices: Tensor, offsets: Tensor, mode: Any, weights: Tensor | None
) -> None:
    _check_weight(op, weight)
    for arg, x in (("indices", indices), ("offsets", offsets)):
        index_dtype(op, x, int64, int32, arg=arg)
        if x._geometry.ndim != 1:
            raise errors.wrong_shape(op, arg, "have one dimension", x)
    if mode not in (SUM, MEAN, MAX):
        raise errors.must(op, "mode", "be 0 (sum), 1 (mean) or 2 (max)", mode)
    if weights is not None:
        if mode != SUM:
            raise errors.must(op, "per_sample_weights", "be left out of a mean or max", weights)
        if weights._geometry.sizes != indices._geometry.sizes:
            raise errors.wrong_shape(op, "per_sample_weights", "be like indices", weights)


def _bagged(
    key_set: int, is_forward_only: bool, weight: Tensor, indices: Tensor, offsets: Tensor,
    scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Tensor | None,
    include_last_offset: bool, padding_idx: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the reduced bags, the bag of each index, the bag sizes, and the indices of maxima.

    Source of the sizes of the last three results: aten/src/ATen/native/EmbeddingBag.cpp,
    make_*_out.
    """
    _check_bag("embedding_bag", weight, indices, offsets, mode, per_sample_weights)
    bags = (indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx)
    made, of, sizes, places = _at_once(weight, *bags) or _by_parts(weight, *bags)
    is_short = indices._geometry.dtype is int32 and offsets._geometry.dtype is int32
    integer = int32 if is_short else int64
    if mode == SUM and padding_idx < 0 and weight._geometry.dtype in _SUMMED_AT_ONCE:
        of = calls.new_empty(indices, (0,), integer, None, None, None)
    if mode == SUM:
        ends = bool(include_last_offset) and not is_forward_only
        zeros = (offsets._geometry.numel - ends,)
        sizes = calls.new_zeros(indices, zeros, integer, None, None, None)
    if places is None:
        places = calls.clone(sizes, None)
    if integer is int32:
        of, sizes, places = [calls.to_dtype(x, int32) for x in (of, sizes, places)]
    return made, of, sizes, places


_embedding_bag_forward_only: Kernel = given(_bagged, is_forward_only=True)
_embedding_bag: Kernel = given(_bagged, is_forward_only=False)


# The reduced bags, the bag of each index, the bag sizes and, for mode max, the indices of maxima.
_Parts = tuple[Tensor, Tensor, Tensor, Tensor | None]


def _at_once(
    weight: Tensor, indices: Tensor, offsets: Tensor, mode: int, weights: Tensor | None,
    include_last_offset: bool, padding_idx: int,
) -> _Parts | None:  # fmt: skip
    """Compute the bags in one pass on the CPU. Return None if there is no compiled loop."""
    given = [x for x in (weight, indices, offsets, weights) if x is not None]
    if any([x._device is not CPU for x in given]):
        return None
    count, width = offsets._geometry.numel - bool(include_last_offset), weight._geometry.sizes[1]
    if count < 1 or not indices._geometry.numel or not width:
        return None
    made = allocate(contiguous_geometry((count, width), weight._geometry.dtype), CPU)
    of = allocate(contiguous_geometry(indices._geometry.sizes, int64), CPU)
    sizes = allocate(contiguous_geometry((count,), int64), CPU)
    arrays = [x._get_array() for x in (weight, indices, offsets)]
    results = [x._get_array() for x in (made, of, sizes)]
    padding = padding_idx if 0 <= padding_idx < 2**63 else -1
    if mode == MAX:
        places = allocate(contiguous_geometry((count, width), int64), CPU)
        done = _compare_bags(*arrays, *results, places._get_array(), padding)
        return (made, of, sizes, places) if done else None
    factors = None if weights is None else weights._get_array()
    if _sum_bags(*arrays, factors, *results, mode == MEAN, padding):
        return made, of, sizes, None
    return None


def _by_parts(
    weight: Tensor, indices: Tensor, offsets: Tensor, mode: int, per_sample_weights: Tensor | None,
    include_last_offset: bool, padding_idx: int,
) -> _Parts:  # fmt: skip
    places = None
    bags = Bags(indices, offsets, include_last_offset, padding_idx)
    rows = calls.index_select(weight, 0, indices)
    dtype = weight._geometry.dtype
    if mode != MAX and dtype in (float16, bfloat16):
        rows = calls.to_dtype(rows, float32, False, False, None)  # Products and sums round once.
    if per_sample_weights is not None:
        rows = calls.mul_Tensor(rows, calls.unsqueeze(per_sample_weights, 1))
    width = weight._geometry.sizes[1]
    made = calls.new_zeros(rows, (bags.count, width), None, None, None, None)
    if mode == MAX:
        places = _extremes(made, rows, bags, indices)
    else:
        ask_inplace(operators.index_add_, made, 0, bags.of, bags.without_padding(rows), 1)
    if mode == MEAN:
        sizes = calls.where_self(calls.eq_Tensor(bags.sizes, 0), 1, bags.sizes)
        made = calls.div_Tensor(made, calls.unsqueeze(sizes, 1))
    made = calls.to_dtype(made, dtype, False, False, None)
    return made, bags.of, bags.sizes, places


# For these dtypes, and without padding_idx, mode `sum` returns an empty tensor instead of the bag
# of each index.
_SUMMED_AT_ONCE = (float32, float16, bfloat16)


def _extremes(made: Tensor, rows: Tensor, bags: Bags, indices: Tensor) -> Tensor:
    """Write the elementwise maximum of each bag's rows to `made`. Return the indices of the
    maxima."""
    count, width = rows._geometry.sizes
    low = bags.without_padding(rows, float("-inf"))
    ask_inplace(operators.index_reduce_, made, 0, bags.of, low, "amax", False)
    is_empty = calls.unsqueeze(calls.eq_Tensor(bags.sizes, 0), 1)
    ask_inplace(operators.copy_, made, calls.where_self(is_empty, 0, made), False)
    is_largest = calls.eq_Tensor(low, calls.index_select(made, 0, bags.of))
    is_largest = calls.logical_or(is_largest, calls.ne_Tensor(low, low))  # NaN counts as a maximum.
    numbers = calls.unsqueeze(calls.arange(count, int64, None, rows._device, None), 1)
    first = allocate(contiguous_geometry((bags.count, width), int64), rows._device)
    ask_inplace(operators.fill__Scalar, first, count)
    found = calls.where_self(is_largest, numbers, count)
    ask_inplace(operators.index_reduce_, first, 0, bags.of, found, "amin", True)
    is_none = calls.ge_Tensor(first, count)
    kept = calls.where_self(is_none, 0, first)
    if not count:
        return calls.to_dtype(kept, indices._geometry.dtype, False, False, None)
    return calls.where_self(is_none, 0, calls.take(indices, kept))


def embedding_bag(
    key_set: int, weight: Tensor, indices: Tensor, offsets: Tensor,
    scale_grad_by_freq: bool = False, mode: int = SUM, sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    padding = -1 if padding_idx is None else padding_idx
    rows = weight._geometry.sizes[0] if weight._geometry.ndim else 0
    if padding_idx is not None and not -rows <= padding < rows:
        rule = f"be in [{-rows}, {rows - 1}]"
        raise errors.wrong_index("embedding_bag", "padding_idx", rule, padding_idx)
    if padding_idx is not None and padding < 0:
        padding += rows
    return calls._embedding_bag(
        weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
        include_last_offset, padding,
    )  # fmt: skip


embedding_bag_padding_idx = embedding_bag


# --- one_hot --------------------------------------------------------------------------------------


def one_hot(key_set: int, self: Tensor, num_classes: int = -1) -> Tensor:
    """Return the one-hot encoding of indices. Source: aten/src/ATen/native/Onehot.cpp."""
    op, given = "one_hot", self._geometry
    if given.dtype is not int64:
        raise errors.wrong_dtype(op, "self", "be int64", self)
    classes = arguments.integer(op, "num_classes", num_classes)
    if not given.numel and classes < 1:
        raise errors.must(op, "num_classes", "be positive where there are no indices", classes)
    if classes < -1 or classes == 0:
        raise errors.must(op, "num_classes", "be positive, or -1", classes)
    if classes == -1:
        if self._device.type == "meta":
            raise errors.must(op, "num_classes", "be given on meta, which has no values", classes)
        classes = int(calls.max(self)) + 1
    rows = calls.new_zeros(self, (*given.sizes, classes))
    places = calls.unsqueeze(self, -1)
    if self._keys is not CPU_KEYS:
        return calls.scatter_value(rows, -1, places, 1)
    made = forms.into_new(operators.scatter__value, key_set, rows, -1, places, 1)
    if num_classes != -1 and given.numel:
        table, args = operators.one_hot.table, (self, num_classes)
        short_results.learn(table, one_hot, args, made, _marking(made), is_new=True)
    return made


def _marking(made: Tensor) -> Any:
    """Return a function that computes one_hot of an array. Its result has the sizes of `made`. The
    function returns None if an index is out of range."""
    *sizes, classes = made._geometry.sizes
    begins = np.arange(math.prod(sizes)) * classes

    def compute(x: Any) -> Any:
        if x.view(np.uint64).max() >= classes:  # As uint64, a negative index is >= 2**63.
            return None
        array = np.zeros((*sizes, classes), np.int64)
        array.reshape(-1)[x.reshape(-1) + begins] = 1
        return array

    return compute


shortcuts.jumps(one_hot, lambda: (
    (operators.new_zeros, shortcuts.CPU, "factory.new_zeros"),
    (operators.unsqueeze, shortcuts.CPU, unsqueeze),
    (operators.scatter__value, shortcuts.BELOW, "scatter._scatters.<locals>.kernel"),
))  # fmt: skip
