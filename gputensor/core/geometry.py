"""Geometry: sizes, strides and dtype of a tensor, and all values computed from them.

Equal geometries are one object, so a plan is looked up by identity. A geometry contains no storage,
offset or device. Source of its boolean attributes: PyTorch's c10/core/Contiguity.h and
TensorImpl.h.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from sys import getrefcount
from typing import Any, SupportsIndex, overload

from . import dtype as _dtypes, errors
from .memory_format import (
    channels_last, channels_last_3d, contiguous_format, contiguous_strides, memory_format,
)  # fmt: skip

Sizes = tuple[int, ...]
# NumPy's limit on the number of dimensions.
MOST_DIMS = 64
_MOST_BYTES = (1 << 63) - 1


class Size(tuple[int, ...]):
    """The class of `x.shape`: a tuple of ints with `numel()`. It prints as
    `gputensor.Size([2, 3])`."""

    __slots__ = ()

    def numel(self) -> int:
        product = 1
        for size in self:
            product *= size
        return product

    def __repr__(self) -> str:
        return f"{_dtypes.package_name}.Size([{', '.join(map(str, self))}])"

    def __reduce__(self) -> tuple[object, ...]:
        return (Size, (tuple(self),))

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> int: ...

    @overload
    def __getitem__(self, index: slice, /) -> Size: ...

    def __getitem__(self, index: Any, /) -> Any:
        found: Any = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: tuple[int, ...], /) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: tuple[int, ...], /) -> Size:
        return Size(tuple.__add__(other, self))

    def __mul__(self, count: SupportsIndex, /) -> Size:
        return Size(tuple.__mul__(self, count))

    def __rmul__(self, count: SupportsIndex, /) -> Size:
        return self * count


# CPU memory of at least this number of bytes comes from the allocator, which aligns it. Smaller
# memory comes from NumPy.
ALIGNED_FROM_BYTES = 1 << 16


class Geometry:
    """An immutable, interned layout; make one with `geometry` or `contiguous_geometry`.

    sizes: elements per dimension. strides: elements between neighbours of a dimension, never
    negative. stride_bytes: strides in bytes. extent: the number of elements from the first to the
    last reachable element; 0 for an empty tensor. suggested_format: the memory format that the
    strides suggest. views: cache of view operators: (op, arguments)
    -> Geometry, or another value that the operator stores.
    """

    __slots__ = (
        "sizes", "shape", "strides", "dtype", "ndim", "numel", "extent", "nbytes", "stride_bytes",
        "is_contiguous", "is_row_major", "is_channels_last", "is_channels_last_3d",
        "is_non_overlapping_and_dense", "suggested_format", "in_numpy", "views",
    )  # fmt: skip

    sizes: Sizes
    shape: Size
    strides: Sizes
    dtype: _dtypes.dtype
    ndim: int
    numel: int
    extent: int
    nbytes: int
    stride_bytes: Sizes
    is_contiguous: bool
    is_row_major: bool
    is_channels_last: bool
    is_channels_last_3d: bool
    is_non_overlapping_and_dense: bool
    suggested_format: memory_format
    in_numpy: bool
    views: dict[Any, Any]

    def __init__(self, sizes: Sizes, strides: Sizes, element: _dtypes.dtype) -> None:
        self.sizes, self.strides, self.dtype = sizes, strides, element
        self.shape = Size(sizes)
        self.ndim = ndim = len(sizes)
        numel, last = 1, 0
        is_dense = is_row_major = True
        for size, stride in zip(reversed(sizes), reversed(strides)):
            if stride != numel:
                is_row_major = False
                # A dimension of size 1 may have any stride.
                is_dense = is_dense and size == 1
            numel *= size
            last += (size - 1) * stride
        if ndim > MOST_DIMS or numel.bit_length() > 63:
            raise errors.too_large(sizes)
        self.numel = numel
        self.extent = last + 1 if numel else 0
        itemsize = element.itemsize
        self.nbytes = nbytes = numel * itemsize
        self.stride_bytes = tuple([s * itemsize for s in strides])
        self.is_contiguous = is_contiguous = is_dense or numel == 0
        # True if all strides are row-major. is_contiguous ignores the strides of dimensions of size
        # 0 and 1; this attribute does not.
        self.is_row_major = is_row_major if numel else strides == contiguous_strides(sizes)
        self.is_channels_last = ndim == 4 and _is_dense_in(sizes, strides, channels_last)
        self.is_channels_last_3d = ndim == 5 and _is_dense_in(sizes, strides, channels_last_3d)
        self.is_non_overlapping_and_dense = (
            is_contiguous or self.extent == numel and _dense_in_some_order(sizes, strides)
        )
        has_formats = 4 <= ndim <= 5
        self.suggested_format = (
            _suggested_format(sizes, strides) if has_formats else contiguous_format
        )
        # True if NumPy itself allocates the memory of CPU tensors with this layout.
        is_small = nbytes < ALIGNED_FROM_BYTES
        self.in_numpy = is_contiguous and is_small and not element.is_float8
        self.views = {}

    def __repr__(self) -> str:
        return f"Geometry({self.dtype.short}{list(self.sizes)}, strides={list(self.strides)})"

    def __reduce__(self) -> tuple[object, ...]:
        return (geometry, (self.sizes, self.strides, self.dtype))


# Note [Interned geometries] Each layout of a dtype has one object as long as anything refers to it,
# so geometries are compared by identity. When the table of geometries reaches its limit, it drops
# the geometries that nothing else refers to.
_BOUND = 1 << 16
_bound = _BOUND
_interned: dict[tuple[Sizes, Sizes, _dtypes.dtype], Geometry] = {}
_contiguous: dict[tuple[Sizes, _dtypes.dtype], Geometry] = {}


def geometry(sizes: Sizes, strides: Sizes, element: _dtypes.dtype) -> Geometry:
    """Return the geometry for these sizes and strides: tuples of ints that the caller has
    checked."""
    known = _interned.get((sizes, strides, element))
    if known is not None:
        return known
    if len(_interned) >= _bound:
        _drop_unused()
    return _interned.setdefault((sizes, strides, element), Geometry(sizes, strides, element))


def _drop_unused() -> None:
    global _bound
    _contiguous.clear()
    for key in list(_interned):
        # The table and the argument of getrefcount hold one reference each.
        if getrefcount(_interned[key]) == 2:
            del _interned[key]
    # The next removal runs when the table has doubled in size. An earlier removal would find little
    # to remove, because most of the remaining geometries are in use.
    _bound = max(_BOUND, 2 * len(_interned))


def unholdable(sizes: Sizes, strides: Sizes, itemsize: int) -> str:
    """Return the reason why a tensor cannot view another library's memory with this layout. Return
    "" if a tensor can.

    sizes and strides are ints of any magnitude; strides count elements. The limits are NumPy's:
    addresses within the layout and its number of bytes must fit in 63 bits.
    """
    if len(sizes) != len(strides):
        return f"{len(sizes)} sizes and {len(strides)} strides"
    if len(sizes) > MOST_DIMS:
        return f"{len(sizes)} dimensions"
    nbytes = extent = itemsize
    for size, stride in zip(sizes, strides):
        if size < 0:
            return f"sizes {sizes}"
        if stride < 0:
            return f"strides {strides}"
        nbytes *= max(size, 1)
        extent += max(size - 1, 0) * stride * itemsize
    if nbytes > _MOST_BYTES:
        return f"sizes {sizes}"
    return f"strides {strides}" if max(extent, *strides, 0) > _MOST_BYTES else ""


def contiguous_geometry(sizes: Sizes, element: _dtypes.dtype) -> Geometry:
    """Return the row-major geometry of `sizes`."""
    known = _contiguous.get((sizes, element))
    if known is None:
        known = geometry(sizes, contiguous_strides(sizes), element)
        _contiguous[(sizes, element)] = known
    return known


def reduced_sizes(sizes: Sizes, dims: Container[int], keepdim: bool) -> Sizes:
    """Return the sizes after a reduction over non-negative `dims`. keepdim keeps these dimensions
    with size 1."""
    return tuple([1 if d in dims else n for d, n in enumerate(sizes) if keepdim or d not in dims])


def _is_dense_in(sizes: Sizes, strides: Sizes, form: memory_format) -> bool:
    """True if, in the format's order of dimensions, each stride is the product of the previous
    sizes. A dimension of size 1 may have any stride."""
    expected = 1
    for dim in form.order or ():
        if sizes[dim] != 1:
            if strides[dim] != expected:
                return False
            expected *= sizes[dim]
    return True


def _dense_in_some_order(sizes: Sizes, strides: Sizes) -> bool:
    # Source: c10/core/Contiguity.h, _compute_non_overlapping_and_dense: dims of size < 2 go last.
    order = sorted(range(len(sizes)), key=lambda d: (sizes[d] < 2, strides[d]))
    expected = 1
    for dim in order:
        if sizes[dim] < 2:
            return True
        if strides[dim] != expected:
            return False
        expected *= sizes[dim]
    return True


def _suggested_format(sizes: Sizes, strides: Sizes) -> memory_format:
    """Return the memory format whose dimension order matches the strides. Gaps between elements are
    allowed. Source: TensorImpl, suggest_memory_format."""
    for form in (channels_last, channels_last_3d):
        if len(sizes) == form.rank and _looks_like(sizes, strides, form.order):
            return form
    return contiguous_format


def _looks_like(sizes: Sizes, strides: Sizes, order: Iterable[int]) -> bool:
    """Source: c10/core/MemoryFormat.h, is_channels_last_strides_2d_s4."""
    if strides[1] == 0:
        return False
    minimum = 0
    for dim in order:
        if sizes[dim] == 0 or strides[dim] < minimum:
            return False
        # The strides of an N111 tensor, and of an NCHW tensor with C == 1, fit both formats. Such
        # tensors count as row-major.
        if dim == 0 and minimum == strides[1]:
            return False
        minimum = strides[dim]
        if sizes[dim] > 1:
            minimum *= sizes[dim]
    return True
