"""Operators that put tensors together: cat, stack, repeat. Each copies into views of its result.

Source of the rules: aten/src/ATen/native/TensorShape.cpp, cat's meta function.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls, operators
from ..core import errors, memory_format as formats, promotion
from ..core.dtype import dtype
from ..core.geometry import geometry
from ..dispatch.keys import BELOW_ADINPLACEORVIEW
from ..iterator import overlap
from ..tensor.base import suggest_memory_format
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from ..structured import arguments
from ..structured.resizing import resize_output
from .view import view_strides


def _tensors(op: str, tensors: Any) -> list[Tensor]:
    found = list(tensors)
    if not found:
        raise errors.must(op, "tensors", "not be empty", tensors)
    for number, x in enumerate(found):
        if not isinstance(x, Tensor):
            raise errors.wrong_type(op, f"tensors[{number}]", "be a tensor", x)
        if x._device is not found[0]._device:
            raise errors.mixed_devices(op, found[0], "tensors[0]", x, f"tensors[{number}]")
    return found


def _is_skipped(x: Tensor) -> bool:
    """A 1-d tensor without elements joins anything. PyTorch keeps this for old programs."""
    return x._geometry.sizes == (0,)


def _cat_sizes(op: str, tensors: list[Tensor], dim: int) -> tuple[int, tuple[int, ...]]:
    """(dimension, sizes of the result)."""
    shaped = [(i, x) for i, x in enumerate(tensors) if not _is_skipped(x)]
    if not shaped:
        return 0, (0,)
    first_number, first = shaped[0]
    ndim = first._geometry.ndim
    for number, x in enumerate(tensors):
        if x._geometry.ndim == 0:
            raise errors.wrong_shape(op, f"tensors[{number}]", "have a dimension", x)
    d = arguments.dim(op, dim, ndim)
    total = 0
    for number, x in shaped:
        sizes = x._geometry.sizes
        if len(sizes) != ndim or any(
            a != b for k, (a, b) in enumerate(zip(sizes, first._geometry.sizes)) if k != d
        ):
            same = f"tensors[{first_number}], {list(first._geometry.sizes)}"
            rule = f"have the sizes of {same}, except at dimension {d}"
            raise errors.wrong_shape(op, f"tensors[{number}]", rule, x)
        total += sizes[d]
    sizes = first._geometry.sizes
    return d, (*sizes[:d], total, *sizes[d + 1 :])


def _cat_format(tensors: list[Tensor]) -> Any:
    """The format that all inputs suggest; row-major where they differ."""
    suggested = None
    for x in tensors:
        if _is_skipped(x):
            continue
        form = suggest_memory_format(x)
        if form is formats.contiguous_format or suggested not in (None, form):
            return formats.contiguous_format
        suggested = form
    return suggested or formats.contiguous_format


def _join(out: Tensor, tensors: list[Tensor], dim: int) -> Tensor:
    begin = 0
    for x in tensors:
        if _is_skipped(x):
            continue
        length = x._geometry.sizes[dim]
        _fill(calls.slice_Tensor(out, dim, begin, begin + length, 1), x)
        begin += length
    return out


def _fill(part: Tensor, source: Tensor) -> None:
    """copy_ below ADInplaceOrView: a new result has version 0, and `out` counts one write."""
    key_set = (part._keys | source._keys) & BELOW_ADINPLACEORVIEW
    operators.copy_.redispatch_table[key_set](key_set, part, source, False)


def _common_dtype(tensors: list[Tensor]) -> dtype:
    element = tensors[0]._geometry.dtype
    for x in tensors:
        element = promotion.promote_types(element, x._geometry.dtype, "cat")
    return element


def cat(key_set: int, tensors: Any, dim: int = 0) -> Tensor:
    found = _tensors("cat", tensors)
    d, sizes = _cat_sizes("cat", found, dim)
    element = _common_dtype(found)
    strides = formats.strides_for("cat", sizes, _cat_format(found))
    return _join(allocate(geometry(sizes, strides, element), found[0]._device), found, d)


def cat_out(key_set: int, tensors: Any, dim: int, out: Tensor) -> Tensor:
    found = _tensors("cat", tensors)
    d, sizes = _cat_sizes("cat", found, dim)
    element = _common_dtype(found)
    if not promotion.can_cast(element, out._geometry.dtype):
        raise errors.wrong_dtype("cat", "out", f"have a dtype that {element.short} casts to", out)
    if out._device is not found[0]._device:
        raise errors.mixed_devices("cat", found[0], "tensors[0]", out, "out")
    shape = None
    if out._geometry.sizes != sizes:
        strides = formats.strides_for("cat", sizes, _cat_format(found))
        shape = geometry(sizes, strides, out._geometry.dtype)
    read = {f"tensors[{number}]": x for number, x in enumerate(found)}
    overlap.check_out("cat", out, shape, **read)
    if shape is not None:
        resize_output("cat", out, shape)
    return _join(out, found, d)


def _unsqueezed(tensors: Any, dim: int) -> tuple[list[Tensor], int]:
    found = _tensors("stack", tensors)
    first = found[0]._geometry
    ndim = first.ndim + 1
    number = arguments.integer("stack", "dim", dim)
    if not -ndim <= number < ndim:
        raise errors.dim_out_of_range("stack", number, ndim)
    for k, x in enumerate(found):
        if x._geometry.sizes != first.sizes:
            rule = f"have the sizes of tensors[0], {list(first.sizes)}"
            raise errors.wrong_shape("stack", f"tensors[{k}]", rule, x)
    d = number % ndim
    return [calls.unsqueeze(x, d) for x in found], d


def stack(key_set: int, tensors: Any, dim: int = 0) -> Tensor:
    found = _tensors("stack", tensors)
    parts, d = _unsqueezed(found, dim)
    sizes, count = found[0]._geometry.sizes, len(found)
    if d == len(sizes) or (form := _cat_format(found)) is formats.contiguous_format:
        return calls.cat(parts, d)
    # PyTorch joins along d and then splits it, so that the format of what is joined stays.
    element, joined = _common_dtype(found), (*sizes[:d], count * sizes[d], *sizes[d + 1 :])
    split = (*sizes[:d], count, *sizes[d:])
    whole = geometry(joined, formats.strides_for("stack", joined, form), element)
    strides = view_strides(whole, split)
    assert strides is not None, (joined, split)
    shape = geometry(split, strides, element)
    return _join(allocate(shape, found[0]._device), parts, d)


def stack_out(key_set: int, tensors: Any, dim: int, out: Tensor) -> Tensor:
    parts, d = _unsqueezed(tensors, dim)
    key_set &= BELOW_ADINPLACEORVIEW  # which has counted the write
    return operators.cat_out.redispatch_table[key_set](key_set, parts, d, out)


def repeat(key_set: int, self: Tensor, repeats: Any) -> Tensor:
    counts = arguments.sizes("repeat", repeats, "repeats")
    extra = len(counts) - self._geometry.ndim
    if extra < 0:
        rule = f"have at least {self._geometry.ndim} entries"
        raise errors.must("repeat", "repeats", rule, counts)
    sizes = (1,) * extra + self._geometry.sizes
    made = calls.empty_memory_format(
        tuple([n * s for n, s in zip(counts, sizes)]), self._geometry.dtype, None, self._device,
        None, None,
    )  # fmt: skip
    # (n0, s0, n1, s1, …) of the result, and self repeated by stride 0 in each n.
    paired = tuple([n for pair in zip(counts, sizes) for n in pair])
    source = calls.view(self, tuple([n for s in sizes for n in (1, s)]))
    _fill(calls.view(made, paired), calls.expand(source, paired, False))
    return made
