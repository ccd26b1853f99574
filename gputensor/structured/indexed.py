"""Elements that index tensors select: their positions, and the loops that read or write them.

The families gather and scatter use this module. On the CPU, all indices are checked before any
element is written. On other devices, the kernel checks them: see Note [Targets outside the classes]
in native/loss.py.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls, operators
from ..core import errors
from ..core.device import CPU
from ..core.dtype import (
    FLOATING, bool_, complex32, complex64, dtype, float32, int32, int64, uint8,
)  # fmt: skip
from ..core.geometry import Geometry, Sizes
from ..iterator.broadcast import strides_over
from ..iterator.coalesce import coalesce
from ..iterator.order import dimension_order
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..tensor.tensor import Tensor


class Places:
    """The selected elements of a tensor. There is one element for each index of an iteration over
    `sizes`.

    indices: int64 tensors, one for each indexed dimension of the tensor. They broadcast to the
    dimensions of the iteration that begin at `begin`. led: the indexed dimensions. begin: the first
    of these dimensions; None if an index has a value for each element of the iteration (gather).
    wraps: if True, negative indices count from the end. order: the permutation that was applied to
    the tensor, if any.
    """

    __slots__ = ("op", "target", "sizes", "indices", "led", "begin", "wraps", "order")

    order: Sizes | None
    op: str
    target: Tensor
    sizes: Sizes
    indices: list[Tensor]
    led: list[int]
    begin: int | None
    wraps: bool

    def __init__(
        self, op: str, target: Tensor, sizes: Sizes, indices: list[Tensor], led: list[int],
        begin: int | None, *, wraps: bool,
    ) -> None:  # fmt: skip
        self.op, self.target, self.sizes, self.indices = op, target, sizes, indices
        self.led, self.begin, self.wraps, self.order = led, begin, wraps, None

    def of(self, x: Tensor) -> Places:
        """Return the places with the same indices in another tensor of equal sizes."""
        x = x if self.order is None else calls.permute(x, self.order)
        return Places(
            self.op, x, self.sizes, self.indices, self.led, self.begin, wraps=self.wraps
        )  # fmt: skip

    @property
    def shape_of_indices(self) -> Sizes:
        if self.begin is None:
            return self.sizes
        rest = self.target._geometry.ndim - len(self.led)
        return self.sizes[self.begin : len(self.sizes) - rest + self.begin]

    def strides(self) -> Sizes:
        """Return the tensor's strides over the iteration, in elements. The strides of indexed
        dimensions are 0."""
        own = self.target._geometry.strides
        if self.begin is None:
            return tuple([0 if d in self.led else s for d, s in enumerate(own)])
        kept = [s for d, s in enumerate(own) if d not in self.led]
        middle = (0,) * len(self.shape_of_indices)
        return (*kept[: self.begin], *middle, *kept[self.begin :])

    def index_strides(self, index: Geometry) -> Sizes:
        """Return the strides of an index over the iteration, in elements."""
        over = strides_over(index.sizes, index.strides, self.shape_of_indices)
        if self.begin is None:
            return over
        before, after = self.begin, len(self.sizes) - self.begin - len(over)
        return (*(0,) * before, *over, *(0,) * after)

    def bounds(self) -> list[int]:
        return [self.target._geometry.sizes[d] for d in self.led]

    # --- on the CPU -----------------------------------------------------------------------------

    def on_host(self, loop: Any, first: Any, second: Any) -> None:
        """Run a CPU loop of the family gather or scatter. Raises: IndexRangeError if an index is
        out of range. In that case, no element is written."""
        arrays = [i._get_array() for i in self.indices]
        bad = run(loop, first, second, arrays, self.led, self.begin, self.wraps)
        if bad:
            index, dim = arrays[bad - 1], self.led[bad - 1]
            size, high = self.target._geometry.sizes[dim], int(index.max())
            got = high if high >= size else int(index.min())
            raise errors.index_out_of_range(self.op, got, dim, size, self.wraps)


class Walk:
    """The plan of a loop of the family gather or scatter: the coalesced iteration over all
    operands. Stubs bind loops to this plan.

    Operands: for gather the output, then the indexed tensor; for scatter the written tensor, then
    the values or a number. The index tensors follow. dtypes, stride_bytes: one entry for each
    operand. The strides of a number are None. bounds:
    the size and the stride in bytes of the dimension that each index tensor indexes.
    """

    __slots__ = (
        "op", "shape", "stride_bytes", "dtypes", "bounds", "wraps", "numel", "common_dtype",
        "n_outputs",
    )  # fmt: skip
    op: str
    shape: Sizes
    stride_bytes: list[Sizes | None]
    wraps: bool
    numel: int
    common_dtype: dtype
    n_outputs: int

    def __init__(self, op: str, places: Places, value: Geometry | None, *, reads: bool) -> None:
        of = places.target._geometry
        size, self.op, self.wraps, self.n_outputs = of.dtype.itemsize, op, places.wraps, 1
        walks = [tuple([s * size for s in places.strides()])]
        if value is not None:
            over = strides_over(value.sizes, value.strides, places.sizes)
            walks.insert(0 if reads else 1, tuple([s * size for s in over]))
        indices = [i._geometry for i in places.indices]
        walks += [tuple([8 * s for s in places.index_strides(i)]) for i in indices]
        order = dimension_order(places.sizes, walks)
        self.shape, found = coalesce(places.sizes, walks, order)
        self.stride_bytes = [*found]
        if value is None:
            self.stride_bytes.insert(1, None)
        self.dtypes = (of.dtype, of.dtype, *[int64 for _ in indices])
        self.bounds = [(of.sizes[d], of.strides[d] * size) for d in places.led]
        self.common_dtype, self.numel = of.dtype, 1
        for n in self.shape:
            self.numel *= n


def launch_of(
    family: str, loop: str, places: Places, value: Geometry | None, *, reads: bool
) -> Any:  # fmt: skip
    """Return the launch of a loop of the family gather or scatter. value: the geometry of the
    result (gather) or of the values (scatter); None for a number."""
    target = places.target
    place, table = target._device, operators.gather.table
    key = (
        family, loop, places.op, target._geometry, value, place, tuple(places.led),
        places.begin, places.sizes, places.wraps, *[i._geometry for i in places.indices],
    )  # fmt: skip
    launch = table.plans.get(key)
    if launch is None:
        walk = Walk(places.op, places, value, reads=reads)
        launch = table.remember(key, stub.bind(family, loop, place.type, walk))
    return launch


def _launch(launch: Any, places: Places, *operands: Any) -> None:
    pointers = [x._address() if isinstance(x, Tensor) else x for x in (*operands, *places.indices)]
    launch(places.target._device.index, tuple(pointers))


def read(places: Places, made: Tensor) -> Tensor:
    """Copy the elements at these places to `made`, a new tensor of the iteration's sizes. Return
    `made`."""
    if made._geometry.numel == 0 or made._device.type == "meta":
        return made
    if made._device is CPU:
        loop = stub.cpu("gather").gather
        places.on_host(loop, made._get_array(), places.target._get_array())
    else:
        launch = launch_of("gather", "gather", places, made._geometry, reads=True)
        _launch(launch, places, made, places.target)
    return made


def write(loop: str, places: Places, value: Any) -> None:
    """Run `loop` of the family scatter on these places. value: a tensor that broadcasts to the
    iteration; on CUDA also a number."""
    target = places.target
    if 0 in places.sizes or target._device.type == "meta":
        return
    if target._device is CPU:
        family = stub.cpu("scatter")
        places.on_host(getattr(family, loop), target._get_array(), value._get_array())
    else:
        shape = value._geometry if isinstance(value, Tensor) else None
        launch = launch_of("scatter", loop, places, shape, reads=False)
        _launch(launch, places, target, value)


def wide_dtype(of: dtype) -> dtype:
    """Return the dtype in which elements of dtype `of` are combined. It has at least 32 bits, as
    atomic operations require."""
    if of is complex32:
        return complex64
    if of.category >= FLOATING:
        return float32 if of.itemsize < 4 else of
    return int32 if of.itemsize < 4 else of


def index_dtype(op: str, index: Tensor, *allowed: dtype, arg: str = "index") -> None:
    """Raise an error unless the index has an allowed dtype."""
    if index._geometry.dtype not in (allowed or (int64, int32)):
        named = " or ".join(d.name for d in allowed or (int64, int32))
        raise errors.wrong_dtype(op, arg, f"be {named}", index)


def is_mask(index: Tensor) -> bool:
    return index._geometry.dtype is bool_ or index._geometry.dtype is uint8


def number_of(op: str, value: Tensor, like: Tensor) -> Tensor:
    """Return a 0-d tensor `value`, cast to the dtype and device of the written tensor `like`."""
    if value._geometry.ndim:
        raise errors.must(op, "value", "be a number or a 0-d tensor", value)
    if value._geometry.dtype.is_complex and not like._geometry.dtype.is_complex:
        raise errors.wrong_dtype(op, "value", f"be real for {like._geometry.dtype.short}", value)
    return calls.to_device(value, like._device, like._geometry.dtype, False, False, None)


def cropped(x: Tensor, sizes: Any) -> Tensor:
    """Return the part of x with these sizes that begins at index 0 in each dimension."""
    for d, n in enumerate(sizes):
        if n != x._geometry.sizes[d]:
            x = calls.slice_Tensor(x, d, 0, n, 1)
    return x
