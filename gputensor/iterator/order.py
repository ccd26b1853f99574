"""The order of an iteration's dimensions, and the strides of new outputs in that order.

Source: ATen/TensorIterator.cpp, compute_fast_setup_type, reorder_dimensions and
allocate_or_resize_outputs. Checked against PyTorch by tests/oracle/test_iterator_oracle.py.
"""

from __future__ import annotations

from ..core.geometry import Geometry
from ..core.memory_format import contiguous_strides

Sizes = tuple[int, ...]


def dimension_order(shape: Sizes, operands: list[Sizes], n_reduced: int = 0) -> list[int]:
    """Return the dimensions, sorted from the innermost to the outermost.

    operands: strides over `shape` of every operand with a known layout, outputs first. In a
    reduction, the first `n_reduced` operands are outputs. Their stride is 0 in reduced dimensions,
    and these dimensions become innermost.

    The algorithm is a stable insertion sort. Two dimensions are compared by their strides, operand
    by operand. If no operand decides, the dimensions are not swapped. A dimension moves inward only
    past a dimension that a comparison places further out. It then also passes the dimensions in
    between whose comparison was undecided.
    """
    order = list(range(len(shape) - 1, -1, -1))
    for i in range(1, len(order)):
        at = i
        for j in range(i - 1, -1, -1):
            inner, outer = order[j], order[at]
            # The comparison is inlined, because function calls would take a third of the time of a
            # plan.
            verdict = 0
            for k, strides in enumerate(operands):
                a, b = strides[inner], strides[outer]
                if a == 0 or b == 0:
                    if k < n_reduced and a != b:
                        verdict = 1 if b == 0 else -1
                        break
                elif a < b:
                    verdict = -1
                    break
                elif a > b or shape[inner] > shape[outer]:
                    verdict = 1
                    break
            if verdict > 0:
                order[j], order[at] = outer, inner
                at = j
            elif verdict < 0:
                break
    return order


def strides_in_order(shape: Sizes, order: list[int]) -> Sizes:
    """Return strides of a new tensor of `shape` with its dimensions in `order`.

    If a dimension has size 0, strides of other dimensions are 0, except in row-major order.
    """
    ndim = len(shape)
    if order == list(range(ndim - 1, -1, -1)):
        return contiguous_strides(shape)
    strides = [0] * ndim
    running = 1
    for dim in order:
        strides[dim] = running
        running *= shape[dim]
    return tuple(strides)


def dense_strides_like(geometry: Geometry) -> Sizes:
    """Return strides that preserve the layout of `geometry`, for empty_like, clone and to. The
    strides of a dense geometry are returned unchanged. For other geometries, only the order of the
    dimensions is kept."""
    if geometry.is_non_overlapping_and_dense:
        return geometry.strides
    shape = geometry.sizes
    return strides_in_order(shape, dimension_order(shape, [geometry.strides]))
