"""Distinct elements and slices. Their number depends on values, so the host waits for the device.
Every NaN counts as distinct.

Source of the rules: aten/src/ATen/native/Unique.cpp.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls
from ..core import errors
from ..core.device import CPU
from ..core.dtype import COMPLEX, bfloat16, float32, of_ours
from ..core.geometry import contiguous_geometry, geometry
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..runtime.libraries import HOST
from ..structured import arguments, library
from ..tensor.make import from_array
from ..tensor.tensor import Tensor
from .sort import places_in_order, sorted_by_digits

BY_LIBRARY = True

Triple = tuple[Tensor, ...]


def _distinct(on: Any, rows: Any, sorts: bool) -> Any:
    """Return the distinct rows; for each row, its index among the distinct rows; and the counts."""
    np, n = on.np, len(rows)
    flat = rows.reshape(n, rows.size // n if n else 1)
    order = _order_of_rows(on, flat) if sorts and n else np.arange(n)
    ordered = flat[order] if sorts else flat
    is_first = np.concatenate((np.ones(min(n, 1), bool), (ordered[1:] != ordered[:-1]).any(1)))
    starts = np.nonzero(is_first)[0]
    inverse = np.empty(n, np.int64)
    inverse[order] = np.cumsum(is_first) - 1
    counts = np.diff(np.concatenate((starts, np.full(1, n, starts.dtype))))
    return ordered[starts].reshape((-1, *rows.shape[1:])), inverse, counts


def _order_of_rows(on: Any, rows: Any) -> Any:
    """Return the indices that sort rows, compared column by column. Rows that are equal in the
    first columns are sorted by twice as many further columns, until no rows are equal."""
    np, columns = on.np, rows.shape[1]
    order = places_in_order(on, rows[:, 0], 0, False)
    places, known, more = np.arange(len(rows)), 0, 1
    starts = _starts(np, rows[order, :1])
    while (known := known + more) < columns and not starts.all():
        # Rows that are equal to a neighbour.
        is_tied = ~starts
        is_tied[:-1] |= ~starts[1:]
        places, starts = places[is_tied], starts[is_tied]
        more = min(2 * more, columns - known)
        tied, group = order[places], np.cumsum(starts)
        within = np.lexsort(rows[tied, known : known + more].T[::-1])
        tied = tied[within[places_in_order(on, group[within], 0, False)]]
        order[places] = tied
        starts |= _starts(np, rows[tied, known : known + more])
    return order


def _starts(np: Any, rows: Any) -> Any:
    """Return True for each row that differs from the row before it. NaN counts as equal to NaN."""
    found = np.ones(len(rows), bool)
    differs = (rows[1:] != rows[:-1]) & ((rows[1:] == rows[1:]) | (rows[:-1] == rows[:-1]))
    found[1:] = differs.any(1)
    return found


def _flat(on: Any, x: Any, sorts: bool, wants_places: bool, wants_counts: bool) -> Any:
    """Return the distinct elements; for each element, its index among them; and the counts. On the
    CPU, results that were not requested are empty."""
    if on.is_gpu:
        found, inverse, counts = _distinct(on, x.reshape(-1), sorts)
        return found, inverse.reshape(x.shape), counts
    flat = x.reshape(-1)
    if not sorts or not wants_places:  # Sorting values is faster than sorting indices.
        flat = _in_order(on, flat) if sorts and len(flat) else flat
        found, inverse, counts = stub.cpu("unique").runs(flat, wants_places, wants_counts)
        return found, inverse.reshape(x.shape) if wants_places else inverse, counts
    order = places_in_order(on, flat, 0, False)
    found, numbers, counts = stub.cpu("unique").runs(flat.take(order), True, wants_counts)
    inverse = on.np.empty(len(flat), on.np.int64)
    inverse[order] = numbers
    return found, inverse.reshape(x.shape), counts


def _in_order(on: Any, x: Any) -> Any:
    found = sorted_by_digits(on, x, 0, False, with_places=False)
    return on.np.sort(x) if found is None else found[0]


def _along(on: Any, x: Any, dim: int, sorts: bool) -> Any:
    return _distinct(on, on.np.ascontiguousarray(on.np.moveaxis(x, dim, 0)), sorts)


def _found(
    op: str, self: Tensor, function: Any, rest: tuple[Any, ...], inverse: bool, counts: bool
) -> Triple:
    """Return (values, inverse indices, counts). Results that were not requested are empty."""
    shape = self._geometry
    if shape.dtype.category == COMPLEX:
        raise errors.wrong_dtype(op, "self", "not be complex", self)
    wide = calls.to_dtype(self, float32, False, False, None) if shape.dtype is bfloat16 else self
    if wide._device is CPU:
        made = [_owned(x) for x in run(function, HOST, wide._get_array(), *rest)]
    else:
        made = list(library.waiting(op, function, wide, *rest))
    if wide is not self:
        made[0] = calls.to_dtype(made[0], bfloat16, False, False, None)
    for number, asked in ((1, inverse), (2, counts)):
        if not asked and made[number]._geometry.numel:
            made[number] = calls.new_empty(made[number], (0,), None, None, None, None)
    return tuple(made)


def _owned(array: Any) -> Tensor:
    return from_array(array, contiguous_geometry(array.shape, of_ours(array.dtype)))


def _unique2(
    key_set: int, self: Tensor, sorted: bool = True, return_inverse: bool = False,
    return_counts: bool = False,
) -> Triple:  # fmt: skip
    rest = (True, bool(return_inverse), bool(return_counts))
    return _found("unique", self, _flat, rest, return_inverse, return_counts)


def unique_dim(
    key_set: int, self: Tensor, dim: int, sorted: bool = True, return_inverse: bool = False,
    return_counts: bool = False,
) -> Triple:  # fmt: skip
    return _of_slices("unique_dim", self, dim, True, True, True)


def unique_consecutive(
    key_set: int, self: Tensor, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Triple:  # fmt: skip
    op = "unique_consecutive"
    if dim is None or dim == 0 and self._geometry.ndim == 1:
        rest = (False, bool(return_inverse), bool(return_counts))
        return _found(op, self, _flat, rest, return_inverse, return_counts)
    return _of_slices(op, self, dim, False, True, True)


def _of_slices(op: str, self: Tensor, dim: int, sorts: bool, inverse: bool, counts: bool) -> Triple:
    shape = self._geometry
    if not shape.ndim:
        raise errors.wrong_index(op, "self", "have a dimension", self)
    d = arguments.dim(op, dim, shape.ndim)
    if shape.sizes[d] and not shape.numel:
        raise errors.wrong_shape(op, "self", "have elements, or none along dim", self)
    found, *rest = _found(op, self, _along, (d, sorts), inverse, counts)
    sizes, strides = [*found._geometry.sizes], [*found._geometry.strides]
    for listed in (sizes, strides):
        listed.insert(d, listed.pop(0))
    found._geometry = geometry(tuple(sizes), tuple(strides), shape.dtype)
    found._get_storage()
    found._array = None
    return (found, *rest)
