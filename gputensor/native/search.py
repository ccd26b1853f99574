"""Positions in sorted sequences (searchsorted, bucketize), and membership (isin).

Source of the rules: aten/src/ATen/native/Bucketization.cpp and TensorCompare.cpp, isin.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy

from .._generated import calls, operators
from ..core import dtype as dtypes, errors
from ..core.device import CPU
from ..core.dtype import BOOL, COMPLEX, bfloat16, float32, int64
from ..core.geometry import contiguous_geometry
from ..core.promotion import result_type
from ..dispatch import defaults, shortcuts
from ..dispatch.operator import Table
from ..kernels import stub
from ..runtime.libraries import HOST
from ..structured import arguments, library
from ..structured.pointwise import NUMBERS
from ..structured.shortcuts import results as short
from ..tensor.tensor import Tensor

BY_LIBRARY = True

# --- searchsorted ---------------------------------------------------------------------------------


def _places(
    on: Any, sequence: Any, x: Any, right: bool, is_narrow: bool, sorter: Any = None
) -> Any:
    """Return, for each element of `x`, the index at which it can be inserted into its sorted row of
    `sequence`.

    A binary search finds all elements at once. NaN counts as the largest number, as in PyTorch.
    """
    np, n = on.np, sequence.shape[-1]
    if sorter is not None:
        sequence = np.take_along_axis(sequence, sorter, -1)
    if not on.is_gpu:
        found = stub.cpu("search").places(sequence, x, right, is_narrow)
        if found is not None:
            return found
    rows = sequence.reshape(-1)
    begin = np.zeros(x.shape, np.int64)
    if sequence.ndim > 1:
        count = math.prod(sequence.shape[:-1])
        begin += np.arange(count).reshape(*sequence.shape[:-1], 1) * n
    low, high = begin, begin + n
    for _ in range(n.bit_length()):
        middle = (low + high) >> 1
        value = rows[np.minimum(middle, max(rows.size - 1, 0))]
        goes_on = (low < high) & ~(value > x if right else value >= x)
        low, high = np.where(goes_on, middle + 1, low), np.where(goes_on, high, middle)
    return low - begin


def _is_right(op: str, right: bool, side: str | None) -> bool:
    found = arguments.boolean(op, "right", right)
    if side is None:
        return found
    if side not in ("left", "right"):
        raise errors.must(op, "side", "be 'left' or 'right'", side)
    if side == "left" and found:
        raise errors.must(op, "side", "not be 'left' beside right=True", side)
    return side == "right"


def _search(
    op: str, sequence: Tensor, x: Tensor, int32: bool, right: bool, sorter: Tensor | None
) -> Tensor:
    rows, values = sequence._geometry, x._geometry
    if not rows.ndim:
        raise errors.wrong_shape(op, "sorted_sequence", "have a dimension", sequence)
    if rows.ndim > 1 and (values.ndim != rows.ndim or values.sizes[:-1] != rows.sizes[:-1]):
        rule = f"have leading sizes {rows.sizes[:-1]}, as sorted_sequence has"
        raise errors.wrong_shape(op, "self", rule, x)
    if sorter is not None:
        if sorter._geometry.dtype is not int64:
            raise errors.wrong_dtype(op, "sorter", "be int64", sorter)
        if sorter._geometry.sizes != rows.sizes:
            rule = f"have the sizes of sorted_sequence, {rows.sizes}"
            raise errors.wrong_shape(op, "sorter", rule, sorter)
        n = rows.sizes[-1]
        if sorter._device is CPU and sorter._geometry.numel:
            places = sorter._get_array()
            if places.min() < 0 or places.max() >= n:
                raise errors.wrong_index(op, "sorter", f"hold indices in [0, {n - 1}]", sorter)
    for other, arg in ((x, "self"), (sorter, "sorter")):
        if other is not None and other._device is not sequence._device:
            raise errors.mixed_devices(op, sequence, "sorted_sequence", other, arg)
    pair = _met(op, sequence, x)
    for one, arg in zip(pair, ("sorted_sequence", "self")):
        if one._geometry.dtype.category in (BOOL, COMPLEX):
            raise errors.wrong_dtype(op, arg, "be a real number and no bool", one)
    is_narrow = arguments.boolean(op, "out_int32", int32)
    element = dtypes.int32 if is_narrow else int64
    wanted = contiguous_geometry(values.sizes, element)
    given = (*pair, right, is_narrow) if sorter is None else (*pair, right, is_narrow, sorter)
    return library.call(op, _places, (wanted,), *given)[0]


def _learn(
    table: Table, kernel: Any, args: tuple[Any, ...], first: int, made: Tensor, right: bool
) -> None:
    """Store the short cut of a search without type promotion. first: the index of the sequence
    among the arguments."""
    sequence, x = args[first]._geometry, args[1 - first]._geometry
    if sequence.dtype is not x.dtype or sequence.dtype is bfloat16:
        return
    is_narrow = made._geometry.dtype is dtypes.int32

    def compute(*arrays: Any) -> Any:
        return _places(HOST, arrays[first], arrays[1 - first], right, is_narrow)

    short.learn(table, kernel, args, made, compute, is_new=True)


def _met(op: str, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return both operands, cast to their promoted dtype. bfloat16 becomes float32, because CuPy
    lacks bfloat16."""
    operands = ((a._geometry, a._device), (b._geometry, b._device))
    common = result_type(op, operands, defaults.get_default_dtype())
    common = float32 if common is bfloat16 else common
    first, second = [calls.to_dtype(x, common, False, False, None) for x in (a, b)]
    return first, second


def _as_tensor(op: str, arg: str, value: Any, beside: Tensor) -> Tensor:
    """Return a number as a 0-d tensor. Its dtype is the promoted dtype of the number and of
    `beside`."""
    if type(value) not in NUMBERS:
        raise errors.wrong_type(op, arg, "be a number", value)
    operands = ((beside._geometry, beside._device), type(value))
    element = result_type(op, operands, defaults.get_default_dtype())
    return calls.scalar_tensor(value, element, None, beside._device, None)


def searchsorted_Tensor(
    key_set: int, sorted_sequence: Tensor, self: Tensor, out_int32: bool = False,
    right: bool = False, side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    goes_right = _is_right("searchsorted", right, side)
    made = _search("searchsorted", sorted_sequence, self, out_int32, goes_right, sorter)
    if sorter is None:
        table = operators.searchsorted_Tensor.table
        args = (sorted_sequence, self, None, out_int32, right, side)
        _learn(table, searchsorted_Tensor, args, 0, made, goes_right)
    return made


def searchsorted_Scalar(key_set: int, sorted_sequence: Tensor, self: Any, *rest: Any) -> Tensor:
    x = _as_tensor("searchsorted", "self", self, sorted_sequence)
    return calls.searchsorted_Tensor(sorted_sequence, x, *rest)


def bucketize_Tensor(
    key_set: int, self: Tensor, boundaries: Tensor, out_int32: bool = False, right: bool = False
) -> Tensor:
    if boundaries._geometry.ndim != 1:
        raise errors.wrong_shape("bucketize", "boundaries", "have 1 dimension", boundaries)
    goes_right = _is_right("bucketize", right, None)
    made = _search("bucketize", boundaries, self, out_int32, goes_right, None)
    args, table = (self, boundaries, out_int32, right), operators.bucketize_Tensor.table
    _learn(table, bucketize_Tensor, args, 1, made, goes_right)
    return made


def bucketize_Scalar(key_set: int, self: Any, boundaries: Tensor, *rest: Any) -> Tensor:
    x = _as_tensor("bucketize", "self", self, boundaries)
    return calls.bucketize_Tensor(x, boundaries, *rest)


# --- isin -----------------------------------------------------------------------------------------


def _is_in(on: Any, x: Any, among: Any, invert: bool) -> Any:
    if not on.is_gpu and _FEW < among.size <= _SMALL and x.size <= _SMALL:
        ordered = numpy.sort(among, None)
        places = numpy.searchsorted(ordered, x)
        found = numpy.asarray(ordered.take(places, mode="clip") == x)
        return numpy.logical_not(found, found) if invert else found
    if on.is_gpu or among.size > _FEW:
        found = on.np.isin(x, among)
        return ~found if invert else found
    found = numpy.zeros(x.shape, bool)
    for value in among.reshape(-1):
        found |= x == value
    return numpy.logical_not(found, found) if invert else found


# If there are at most _FEW test elements, a comparison with each of them is fastest. If both
# operands have at most _SMALL elements, a binary search is faster than NumPy's `isin`.
_FEW, _SMALL = 4, 4096


def isin_Tensor_Tensor(
    key_set: int, elements: Tensor, test_elements: Tensor, assume_unique: bool = False,
    invert: bool = False,
) -> Tensor:  # fmt: skip
    arguments.boolean("isin", "assume_unique", assume_unique)
    for x, arg in ((elements, "elements"), (test_elements, "test_elements")):
        if x._geometry.dtype.category in (BOOL, COMPLEX):
            raise errors.wrong_dtype("isin", arg, "be a real number and no bool", x)
    arguments.check_device("isin", "elements", elements, "test_elements", test_elements)
    x, among = _met("isin", elements, test_elements)
    wanted = contiguous_geometry(x._geometry.sizes, dtypes.bool_)
    made = library.call("isin", _is_in, (wanted,), x, among, bool(invert))[0]
    if x is elements and among is test_elements:
        table, args = operators.isin_Tensor_Tensor.table, (x, among, assume_unique, invert)
        compute = partial(_is_in, HOST, invert=bool(invert))
        short.learn(table, isin_Tensor_Tensor, args, made, compute, is_new=True)
    return made


for _kernel in (searchsorted_Tensor, bucketize_Tensor, isin_Tensor_Tensor):
    shortcuts.jumps(_kernel, lambda: ((operators.to_dtype, shortcuts.CPU, "conversion.to_dtype"),))


def isin_Tensor_Scalar(key_set: int, elements: Tensor, test_element: Any, *rest: Any) -> Tensor:
    among = _as_tensor("isin", "test_element", test_element, elements)
    return calls.isin_Tensor_Tensor(elements, among, *rest)


def isin_Scalar_Tensor(key_set: int, element: Any, test_elements: Tensor, *rest: Any) -> Tensor:
    x = _as_tensor("isin", "element", element, test_elements)
    return calls.isin_Tensor_Tensor(x, test_elements, *rest)
