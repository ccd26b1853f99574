"""Conversion of numbers and nested sequences of numbers to tensors.

Source of the rules for dtypes and ranges: torch/csrc/utils/tensor_new.cpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._generated import calls
from ..core import errors
from ..core.dtype import (
    BOOL, COMPLEX, FLOAT8, FLOATING, INTEGER, bfloat16, complex32, complex128, dtype, float16,
    float32, float64, uint64,
)  # fmt: skip
from ..core.geometry import contiguous_geometry
from ..core.number_range import fits, integer_range
from ..core.promotion import number_dtype, promote_types
from ..dispatch import defaults
from ..tensor.make import from_array
from ..tensor.tensor import Tensor
from .numpy.bridge import element_of

PLAIN = frozenset((bool, int, float, complex))


def _is_sequence(x: Any) -> bool:
    if isinstance(x, (str, bytes)):
        return False
    if isinstance(x, (list, tuple)):
        return True
    if hasattr(x, "_geometry") or getattr(x, "ndim", None) == 0:
        return False
    return hasattr(x, "__len__") and hasattr(x, "__getitem__") and not hasattr(x, "keys")


class _Numbers:
    """The numbers of nested sequences, in order, and the dtypes that occur."""

    __slots__ = ("sizes", "flat", "kinds", "dtypes")

    def __init__(self, data: Any) -> None:
        # As in PyTorch, the first element at each depth gives the size, and all others must agree.
        sizes = []
        x = data
        while _is_sequence(x):
            sizes.append(len(x))
            if not sizes[-1]:
                break
            x = x[0]
            if len(sizes) > 64:
                rule = "have at most 64 dimensions"
                raise errors.must("tensor", "data", rule, errors.Got("deeper lists"))
        self.sizes = tuple(sizes)
        self.flat: list[Any] = []
        self.kinds: set[type] = set()
        self.dtypes: set[dtype] = set()
        self._take(data, 0)

    def _take(self, x: Any, dim: int) -> None:
        sizes = self.sizes
        if dim == len(sizes):
            self._take_number(x)
            return
        if not _is_sequence(x) or len(x) != sizes[dim]:
            got = f"{len(x)}" if _is_sequence(x) else errors.describe(x)
            raise errors.ragged(sizes[dim], dim, got)
        if dim + 1 == len(sizes):
            kinds = set(map(type, x))
            if kinds <= PLAIN:
                self.kinds |= kinds
                self.flat.extend(x)
                return
        for item in x:
            self._take(item, dim + 1)

    def _take_number(self, x: Any) -> None:
        kind = type(x)
        if kind in PLAIN:
            self.kinds.add(kind)
        elif (
            isinstance(x, np.generic) or getattr(x, "ndim", None) == 0 and isinstance(x, np.ndarray)
        ):
            self.dtypes.add(element_of("tensor", x.dtype))
            x = x.item()
        elif hasattr(x, "_geometry"):
            if x._geometry.numel != 1:
                rule = "hold tensors of one element in lists"
                raise errors.must("tensor", "data", rule, x, remedy="use stack(...)")
            self.dtypes.add(x._geometry.dtype)
            x = calls.item(x)
        elif isinstance(x, int):
            self.kinds.add(int)
            x = int(x)
        else:
            if _is_sequence(x):
                raise errors.ragged(1, len(self.sizes), f"a sequence of length {len(x)}")
            rule = "be made of numbers"
            raise errors.wrong_type("tensor", "data", rule, errors.Got(type(x).__name__))
        self.flat.append(x)

    def meet(self) -> dtype:
        """Return the promoted dtype of all numbers, or the default dtype if there are none."""
        default = defaults.get_default_dtype()
        if len(self.kinds) == 1 and not self.dtypes:
            return number_dtype(next(iter(self.kinds)), default)
        found: dtype | None = None
        # sorted, because promotion in the order of a set would not be reproducible
        for d in sorted(
            {number_dtype(k, default) for k in self.kinds} | self.dtypes, key=lambda d: d.code
        ):
            found = d if found is None else promote_types(found, d, "tensor")
        return default if found is None else found


def from_numbers(data: Any, wanted: dtype | None) -> Tensor:
    numbers = _Numbers(data)
    element = numbers.meet() if wanted is None else wanted
    categories = [d.category for d in numbers.dtypes] + [_CATEGORY[k] for k in numbers.kinds]
    given = max(categories, default=BOOL)
    if given == COMPLEX and element.category in (INTEGER, FLOATING):
        rule = f"hold no complex numbers for dtype {element.name}"
        raise errors.wrong_type("tensor", "data", rule, errors.Got("a complex number"))
    if element.category == INTEGER:
        wide, values = element, _integers(numbers.flat, element, given)
    elif element.category == BOOL:
        wide, values = element, [bool(v) for v in numbers.flat]
    else:
        # NumPy stores the numbers in a wider dtype, and the copy kernel converts them to the narrow
        # dtype. A direct conversion by NumPy would round twice.
        wide, values = _WIDE.get(element, element), numbers.flat
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, wide.np)
    except OverflowError:
        raise errors.number_out_of_range("tensor", element, max(values, key=abs)) from None
    shape = contiguous_geometry(numbers.sizes, wide)
    made = from_array(array.reshape(numbers.sizes), shape)
    return made if wide is element else calls.to_dtype(made, element)


_WIDE = {
    float16: float64, bfloat16: float64, complex32: complex128, **dict.fromkeys(FLOAT8, float32),
}  # fmt: skip
_CATEGORY = {bool: BOOL, int: INTEGER, float: FLOATING, complex: COMPLEX}


def _integers(values: list[Any], element: dtype, given: int) -> list[int]:
    """Convert numbers to integers of a dtype. Fractions are cut off, and numbers out of range raise
    an error. As in PyTorch, negative integers wrap around in uint8, uint16 and uint32."""
    if given == FLOATING:
        for v in values:
            if not fits(v, element):
                raise errors.number_out_of_range("tensor", element, v)
        values = [int(v) for v in values]
    if not values:
        return values
    least, most = integer_range(element)
    low, high = min(values), max(values)
    if not fits(low, element) or element is uint64 and low < 0:
        raise errors.number_out_of_range("tensor", element, low)
    if high > most:
        raise errors.number_out_of_range("tensor", element, high)
    return values if low >= least else [v & most for v in values]
