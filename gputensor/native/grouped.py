"""Products of groups of matrices. The groups may differ in the number of rows, of columns or of
inner elements.

Each group is one product, computed by the operators of `mm`. On a device, the host must wait for
the values of the groups' bounds. Source: ATen/native/GroupedMMUtils.h.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from .._generated import calls
from ..core import errors
from ..core.dtype import dtype, int32
from ..core.geometry import contiguous_geometry
from ..structured import arguments
from ..tensor.make import allocate
from ..tensor.tensor import Tensor

# Maps (ndim of self, ndim of mat2) to three dimensions: those of self, mat2 and the result that are
# divided into groups. None means that the tensor has three dimensions, and one matrix for each
# group.
_DIVIDED: dict[tuple[int, int], tuple[int | None, int | None, int | None]] = {
    (2, 3): (0, None, 0), (3, 2): (None, 1, 1), (2, 2): (1, 0, None),
}  # fmt: skip


def grouped_mm(
    key_set: int, self: Tensor, mat2: Tensor, offs: Tensor | None = None,
    bias: Tensor | None = None, out_dtype: dtype | None = None,
) -> Tensor:  # fmt: skip
    op = "grouped_mm"
    if bias is not None:
        raise errors.must(op, "bias", "be None; add it to the result", bias)
    if out_dtype not in (None, self._geometry.dtype):
        raise errors.must(op, "out_dtype", "be None or the operands' dtype", out_dtype)
    divided = _check(op, self, mat2, offs)
    if divided is None or offs is None:
        return calls.bmm(self, mat2)
    of_self, of_mat2, of_out = divided
    m, n = self._geometry.sizes[-2], mat2._geometry.sizes[-1]
    if self._device.type == "meta":
        sizes = (m, n) if of_out is not None else (offs._geometry.sizes[0], m, n)
        return allocate(contiguous_geometry(sizes, self._geometry.dtype), self._device)
    length = self._geometry.sizes[of_self] if of_self is not None else n
    bounds = _bounds(op, offs, length)
    parts = [
        calls.mm(_of_group(self, of_self, *group), _of_group(mat2, of_mat2, *group))
        for group in zip(range(len(bounds)), bounds, bounds[1:])
    ]
    if of_out is None:
        return calls.stack(parts, 0)
    behind = length - bounds[-1]
    parts.append(calls.new_zeros(self, (behind, n) if of_out == 0 else (m, behind)))
    return calls.cat(parts, of_out)


def _of_group(x: Tensor, divided: int | None, group: int, start: int, end: int) -> Tensor:
    if divided is None:
        return calls.select_int(x, 0, group)
    return calls.slice_Tensor(x, divided, start, end, 1)


def _check(
    op: str, self: Tensor, mat2: Tensor, offs: Tensor | None
) -> tuple[int | None, int | None, int | None] | None:
    """Check the operands. Return the dimensions of self, mat2 and the result that are divided into
    groups, as in `_DIVIDED`. Return None if self and mat2 are both batches: then nothing is
    divided."""
    for arg, x in (("self", self), ("mat2", mat2)):
        if x._geometry.ndim not in (2, 3):
            raise errors.wrong_shape(op, arg, "have 2 or 3 dimensions", x)
    a, b = self._geometry, mat2._geometry
    arguments.check_is_floating(op, "self", self)
    arguments.check_alike(op, "self", self, "mat2", mat2)
    if a.sizes[-1] != b.sizes[-2]:
        rule = f"have {a.sizes[-1]} rows, as self has columns"
        raise errors.wrong_shape(op, "mat2", rule, mat2)
    divided = _DIVIDED.get((a.ndim, b.ndim))
    if (offs is None) != (divided is None):
        rule = "be given if, and only if, an operand has 2 dimensions"
        raise errors.must(op, "offs", rule, offs)
    if offs is None:
        if a.sizes[0] != b.sizes[0]:
            raise errors.wrong_shape(op, "mat2", f"have {a.sizes[0]} matrices, as self", mat2)
        return None
    arguments.check_device(op, "self", self, "offs", offs)
    if offs._geometry.dtype is not int32:
        raise errors.wrong_dtype(op, "offs", "be i32", offs)
    if offs._geometry.ndim != 1 or not offs._geometry.numel:
        raise errors.wrong_shape(op, "offs", "have 1 dimension and elements", offs)
    for arg, of in (("self", a), ("mat2", b)):
        if of.ndim == 3 and of.sizes[0] != offs._geometry.sizes[0]:
            rule = f"have {of.sizes[0]} elements, as {arg} has matrices"
            raise errors.wrong_shape(op, "offs", rule, offs)
    return divided


def _bounds(op: str, offs: Tensor, length: int) -> list[int]:
    ends: Any = offs.tolist()
    bounds = [0, *ends]
    if any(start > end for start, end in pairwise(bounds)) or bounds[-1] > length:
        raise errors.must(op, "offs", f"grow from 0 to at most {length}", ends)
    return bounds
